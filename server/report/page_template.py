"""The Jinja2 template of the HTML report.

It is a module because a Flower app bundle carries no template files.
"""

# ruff: noqa: E501

from __future__ import annotations

TEMPLATE = """\
{% macro legend(keys) %}
{% if keys %}
<ul class="legend">
{% for key in keys %}
  <li><svg class="swatch{% if key.filled %} filled{% endif %}" viewBox="0 0 {{ 10 if key.filled else 22 }} 10" aria-hidden="true">
    {%- if key.filled %}<rect x="0" y="0" width="10" height="10" rx="2" fill="var(--series-{{ key.colour }})"/>
    {%- else %}<line x1="1" y1="5" x2="21" y2="5" stroke="var(--series-{{ key.colour }})" stroke-width="2.4" stroke-dasharray="{{ key.dash }}"/>
    {%- endif %}</svg><bdi>{{ key.text }}</bdi></li>
{% endfor %}
</ul>
{% endif %}
{% endmacro %}
{% macro figure(chart) %}
<figure>
  <figcaption>{{ chart.title }}{% if chart.note %} <span class="note">{{ chart.note }}</span>{% endif %}</figcaption>
  {{ legend(chart.keys) }}
  <div class="plot" role="img" aria-label="{{ chart.title }}. {{ chart.alt }}">{{ chart.svg }}</div>
</figure>
{% endmacro %}
{% macro tile(label, value, detail) %}
<div class="tile"><dt>{{ label }}</dt><dd>{{ value }}{% if detail %}<small>{{ detail }}</small>{% endif %}</dd></div>
{% endmacro %}
{% macro bar(value) %}
<td class="number">{% if value is none %}–{% else %}<span class="bar" aria-hidden="true"><span style="width:{{ '%.2f' % (100 * value) }}%"></span></span>{{ value|percent }}{% endif %}</td>
{% endmacro %}
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="color-scheme" content="light dark">
<title>fedtag report: {{ runs|map(attribute="name")|list|listed }}</title>
<style>
:root {
  color-scheme: light dark;
  --page: #f7f7f5; --card: #ffffff; --ink: #1c2024; --muted: #5b636b; --grid: #e1e3e4; --line: #dcdedf; --accent: #0b64a0; --warn: #9a4a00; --warn-back: #fff1e0; --good: #0a6b4f; --good-back: #e2f4ec;
  --series-0: #0072b2; --series-1: #d55e00; --series-2: #009e73; --series-3: #b5589a; --series-4: #c98a00; --series-5: #3d9bd3; --series-6: #4d4d4d; --series-7: #8a6d3b;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #14171a; --card: #1c2024; --ink: #e8eaec; --muted: #a2abb3; --grid: #343a40; --line: #343a40; --accent: #6cb8ec; --warn: #ffbe7a; --warn-back: #3b2a16; --good: #7ad9b4; --good-back: #15352a;
    --series-0: #56b4e9; --series-1: #f08a45; --series-2: #2fc79a; --series-3: #dd8fc3; --series-4: #f0c04a; --series-5: #8ea8ff; --series-6: #c9ced3; --series-7: #c7a873;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--ink); font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", "Noto Sans", "Liberation Sans", Arial, sans-serif; }
main { max-width: 1200px; margin: 0 auto; padding: 40px 24px 64px; }
h1 { font-size: 28px; line-height: 1.2; margin: 0 0 4px; letter-spacing: -0.01em; }
h2 { font-size: 21px; margin: 48px 0 4px; letter-spacing: -0.005em; }
h3 { font-size: 16px; margin: 32px 0 10px; }
p { margin: 0 0 12px; max-width: 75ch; }
h1, h2, h3, li, p { overflow-wrap: anywhere; }
.sub, .note { color: var(--muted); }
.note { font-weight: 400; font-size: 13px; }
.badge { display: inline-block; font-size: 12.5px; font-weight: 600; padding: 1px 10px; border-radius: 99px; vertical-align: 3px; margin-left: 8px; background: var(--good-back); color: var(--good); letter-spacing: 0; white-space: nowrap; }
.badge.open { background: var(--warn-back); color: var(--warn); }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(160px, 1fr)); gap: 12px; margin: 20px 0; }
.tile { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 12px 16px; }
.tile dt { color: var(--muted); font-size: 13px; }
.tile dd { margin: 0; font-size: 21px; font-weight: 600; font-variant-numeric: tabular-nums; letter-spacing: -0.01em; white-space: nowrap; }
.tile small { display: block; font-size: 12.5px; font-weight: 400; color: var(--muted); letter-spacing: 0; white-space: normal; overflow-wrap: anywhere; }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(440px, 100%), 1fr)); gap: 16px; margin: 16px 0; }
figure { margin: 0; background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 14px 16px 10px; }
figcaption { font-weight: 600; margin-bottom: 4px; }
.plot svg { display: block; width: 100%; height: auto; font-family: inherit; }
.legend { display: flex; flex-wrap: wrap; gap: 2px 16px; list-style: none; padding: 0; margin: 0 0 8px; font-size: 13px; color: var(--muted); }
.swatch { width: 22px; height: 10px; margin-right: 6px; }
.swatch.filled { width: 10px; }
.scroll { overflow-x: auto; background: var(--card); border: 1px solid var(--line); border-radius: 10px; }
table { border-collapse: collapse; width: 100%; font-size: 13.5px; }
caption { text-align: left; padding: 10px 14px; color: var(--muted); font-size: 13px; }
th, td { text-align: left; padding: 7px 11px; max-width: 34ch; overflow-wrap: break-word; border-top: 1px solid var(--line); vertical-align: top; }
thead th { font-size: 12.5px; font-weight: 600; color: var(--muted); vertical-align: bottom; border-top: 0; }
caption + thead th { border-top: 1px solid var(--line); }
tbody th { font-weight: 600; max-width: 26ch; }
.keep { white-space: nowrap; }
.number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
thead .number { white-space: normal; }
.best { font-weight: 700; }
.bar { display: inline-block; width: 48px; height: 8px; margin-right: 8px; border-radius: 4px; background: var(--grid); overflow: hidden; }
.bar span { display: block; height: 100%; background: var(--series-0); }
.warn { color: var(--warn); }
.settings { columns: 2 420px; column-gap: 32px; margin: 0; background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 12px 16px; font-size: 13px; }
.settings div { display: flex; justify-content: space-between; gap: 20px; break-inside: avoid; padding: 2px 0; }
.settings dt { color: var(--muted); }
.settings dd { margin: 0; text-align: right; overflow-wrap: anywhere; font-family: ui-monospace, "Cascadia Mono", Menlo, "DejaVu Sans Mono", monospace; font-size: 12.5px; }
@media print {
  :root { --page: #fff; --card: #fff; --ink: #000; --muted: #444; --grid: #ddd; --line: #ccc; }
  body { font-size: 11px; }
  main { max-width: none; padding: 0; }
  figure, .tile, tr { break-inside: avoid; }
  h2, h3 { break-after: avoid; }
  .scroll { overflow: visible; }
  .bar, .bar span { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
}
</style>
</head>
<body>
<main>
{% if several %}
<h1>{{ runs|length }} runs compared</h1>
<p class="sub">Scores are those of the global model on each client's full local graph, at the round with the best validation accuracy (the last round where nothing was validated).</p>
<div class="scroll"><table>
<caption>Bold: the highest of a column.</caption>
<thead><tr><th scope="col">Run</th><th scope="col">Method</th><th scope="col">Data</th><th scope="col" class="number">Clients</th><th scope="col" class="number">Ratio</th><th scope="col" class="number">Seed</th><th scope="col" class="number">Best round</th><th scope="col" class="number">Validation</th><th scope="col" class="number">Test</th><th scope="col" class="number">Macro-F1</th><th scope="col" class="number">Bytes</th><th scope="col" class="number">Seconds</th></tr></thead>
<tbody>
{% for run in runs %}
<tr><th scope="row"><a href="#run{{ loop.index0 }}" style="color:var(--accent)"><bdi>{{ run.name }}</bdi></a>{% if not run.finished %} <span class="warn keep">in progress</span>{% endif %}</th><td>{{ run.method }}</td><td>{{ run.data }}</td><td class="number">{{ run.client_count }}</td><td class="number">{{ run.ratio|count }}</td><td class="number">{{ run.seed }}</td><td class="number">{{ run.best_round|count }} <span class="note">of {{ run.round_count }}</span></td>
{% for field in ("val_accuracy", "test_accuracy", "test_macro_f1") %}
{% set best = runs|map(attribute=field)|reject("none")|max|default(none) %}
<td class="number{% if run[field] is not none and run[field] == best %} best{% endif %}">{{ run[field]|percent }}</td>
{% endfor %}
<td class="number">{{ (run.bytes_up + run.bytes_down)|size }}</td><td class="number">{{ run.seconds|duration }}</td></tr>
{% endfor %}
</tbody></table></div>
{% if overview %}<div class="charts">{% for chart in overview %}{{ figure(chart) }}{% endfor %}</div>{% endif %}
{% endif %}
{% for run in runs %}
{% set tag = "h2" if several else "h1" %}
{% set seen = run.round_count %}
<section id="run{{ loop.index0 }}">
<{{ tag }}><bdi>{{ run.name }}</bdi>{% if run.finished %}<span class="badge">finished</span>{% else %}<span class="badge open">in progress</span>{% endif %}</{{ tag }}>
<p class="sub">{{ run.method }} on {{ run.data }}, {{ run.client_count }} client{{ "" if run.client_count == 1 else "s" }}, {{ seen }} round{{ "" if seen == 1 else "s" }}{% if not run.finished %} so far{% endif %}{% if run.ratio is not none %}, ratio {{ run.ratio|count }}{% endif %}, seed {{ run.seed }}</p>
<dl class="tiles">
{{ tile("Test accuracy", run.test_accuracy|percent, "no round yet" if run.best_round is none else "at round " ~ run.best_round ~ (", chosen by validation" if run.val_accuracy is not none else ", without validation")) }}
{{ tile("Validation accuracy", run.val_accuracy|percent, "") }}
{{ tile("Test macro-F1", run.test_macro_f1|percent, "") }}
{{ tile("Calibration error", run.test_ece|percent, "expected, on test nodes") }}
{{ tile("Last round's test", run.last_test_accuracy|percent, "accuracy") }}
{{ tile("Local models' test", run.local_test_accuracy|percent, "accuracy after local training") }}
{{ tile("Traffic", (run.bytes_up + run.bytes_down)|size, run.bytes_up|size ~ " up, " ~ run.bytes_down|size ~ " down") }}
{{ tile("Time", run.seconds|duration, run.seconds_per_round|duration ~ " a round (median)") }}
{% if run.peak_rss_mb is not none %}{{ tile("Peak memory", (run.peak_rss_mb * 1e6)|size, "resident") }}{% endif %}
{% if run.encoder_tokens is not none %}{{ tile("Encoder tokens", run.encoder_tokens|count, "") }}{% endif %}
{% if run.llm_tokens is not none %}{{ tile("LLM tokens", run.llm_tokens|count, run.llm_tokens_full_text|count ~ " with full texts" if run.llm_tokens_full_text is not none else "") }}{% endif %}
</dl>
{% if not run.rounds %}<p>No round has been recorded yet.</p>{% endif %}
<div class="charts">
{% if not several %}{% for chart in overview %}{{ figure(chart) }}{% endfor %}{% endif %}
{% if phase_charts[loop.index0] %}{{ figure(phase_charts[loop.index0]) }}{% endif %}
</div>
{% if run.clients %}
<h3>Clients</h3>
<div class="scroll"><table>
<caption>Scores of the global model in round {{ run.clients_round }}. Seconds: median over rounds.</caption>
<thead><tr><th scope="col">Client</th><th scope="col" class="number">Nodes</th><th scope="col" class="number">Train / val / test</th><th scope="col" class="number">Validation</th><th scope="col" class="number">Test</th><th scope="col" class="number">Macro-F1</th><th scope="col" class="number">Local model, test</th>{% for name in run.score_names %}<th scope="col" class="number"><bdi>{{ name|replace("_", " ") }}</bdi></th>{% endfor %}<th scope="col" class="number">Weight</th><th scope="col" class="number">Seconds</th><th scope="col">Status</th></tr></thead>
<tbody>
{% for line in run.clients %}
{% set row = line.row %}
<tr><th scope="row"><bdi>{{ line.client }}</bdi></th>
{% if row is none %}
<td class="number">–</td><td class="number">–</td><td class="number">–</td><td class="number">–</td><td class="number">–</td><td class="number">–</td>{% for name in run.score_names %}<td class="number">–</td>{% endfor %}<td class="number">–</td>
{% else %}
<td class="number">{{ row.nodes|count }}</td><td class="number">{{ row.train_nodes|count }} / {{ row.val_nodes|count }} / {{ row.test_nodes|count }}</td><td class="number">{{ row.val_accuracy|percent }}</td>{{ bar(row.test_accuracy) }}<td class="number">{{ row.test_macro_f1|percent }}</td><td class="number">{{ row.local_test_accuracy|percent }}</td>{% for name in run.score_names %}<td class="number">{{ row.scores.get(name)|percent }}</td>{% endfor %}<td class="number">{{ row.weight|fixed }}</td>
{% endif %}
<td class="number">{{ line.seconds|fixed(2) }}</td>
<td class="keep">{% if row is none %}not in this round{% elif row.failed is not none %}<span class="warn">failed</span>{% else %}ok{% endif %}{% if line.failures %} <span class="note">({{ line.failures }} of {{ line.failures + line.answered }} failed)</span>{% endif %}</td></tr>
{% endfor %}
</tbody></table></div>
{% endif %}
<h3>Failures</h3>
{% if run.failures or run.empty_rounds %}
{% if run.empty_rounds %}<p class="warn">No client contributed in round{{ "" if run.empty_rounds|length == 1 else "s" }} {{ run.empty_rounds|spans }}.</p>{% endif %}
{% if run.failures %}
<div class="scroll"><table>
<thead><tr><th scope="col">Client</th><th scope="col">Reason</th><th scope="col">Rounds</th></tr></thead>
<tbody>
{% for failure in run.failures %}<tr><th scope="row"><bdi>{{ failure.client }}</bdi></th><td><bdi>{{ failure.reason }}</bdi></td><td>{{ failure.rounds|spans }}</td></tr>
{% endfor %}
</tbody></table></div>
{% endif %}
{% else %}
<p>Every client that was asked contributed.</p>
{% endif %}
<h3>Disclosures: what crossed the network</h3>
{% if run.disclosures %}
<div class="scroll"><table>
<thead><tr><th scope="col">Kind</th><th scope="col">From</th><th scope="col">To</th><th scope="col" class="number">Records</th><th scope="col" class="number">Bytes</th><th scope="col">What it reveals</th><th scope="col">Protection</th><th scope="col">Rounds</th></tr></thead>
<tbody>
{% for total in run.disclosures %}<tr><th scope="row"><bdi>{{ total.kind }}</bdi></th><td><bdi>{{ total.senders|listed }}</bdi></td><td><bdi>{{ total.receivers|listed }}</bdi></td><td class="number">{{ total.count|count }}</td><td class="number">{{ total.bytes|size }}</td><td><bdi>{{ total.reveals }}</bdi></td><td>{{ total.protected }}</td><td>{{ total.first_round }}{% if total.last_round != total.first_round %}–{{ total.last_round }}{% endif %}</td></tr>
{% endfor %}
</tbody></table></div>
{% else %}
<p>No disclosure is recorded.</p>
{% endif %}
{% if run.settings %}
<h3>Configuration</h3>
<dl class="settings">
{% for key, value in run.settings %}<div><dt>{{ key }}</dt><dd>{{ value }}</dd></div>
{% endfor %}
</dl>
{% endif %}
{% if run.versions %}
<h3>Versions</h3>
<dl class="settings">
{% for key, value in run.versions %}<div><dt>{{ key }}</dt><dd>{{ value }}</dd></div>
{% endfor %}
</dl>
{% endif %}
</section>
{% endfor %}
</main>
</body>
</html>
"""
