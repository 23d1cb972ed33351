"""The Jinja2 template of the HTML report.

It is a module because a Flower app bundle carries no template files.
"""

# ruff: noqa: E501

from __future__ import annotations

from fedtag.server.pages import section
from fedtag.server.pages.page_parts import MACROS, head
from fedtag.server.report import aggregation, faithfulness, privacy, privacy_rounds

TITLE = 'fedtag report: {{ runs|map(attribute="name")|list|listed }}'

TEMPLATE = (
    MACROS
    + aggregation.SECTION
    + section.SECTION
    + privacy_rounds.TABLE
    + head(TITLE)
    + """\
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
{{ tile("Test accuracy", run.test_accuracy|percent, "no round yet" if run.best_round is none else "at round " ~ run.best_round ~ (", chosen by validation" if run.chosen else ", the last: none was chosen") ~ run.test_spread|over_clients) }}
{{ tile("Validation accuracy", run.val_accuracy|percent, run.val_spread|over_clients) }}
{{ tile("Test macro-F1", run.test_macro_f1|percent, "") }}
{{ tile("Calibration error", run.test_ece|percent, "expected, on test nodes") }}
{{ tile("Last round's test", run.last_test_accuracy|percent, "accuracy") }}
{{ tile("Local models' test", run.local_test_accuracy|percent, run.local_note) }}
{{ tile("Traffic", (run.bytes_up + run.bytes_down)|size, run.bytes_up|size ~ " up, " ~ run.bytes_down|size ~ " down") }}
{{ tile("Time", run.seconds|duration, run.seconds_per_round|duration ~ " a round (median)") }}
{% if run.peak_rss_mb is not none %}{{ tile("Peak memory", (run.peak_rss_mb * 1e6)|size, "resident") }}{% endif %}
{% if run.encoder_tokens is not none %}{{ tile("Encoder tokens", run.encoder_tokens|count, "" if run.encoder_tokens else "all texts were cached") }}{% endif %}
{% if run.llm_tokens is not none %}{{ tile("LLM tokens", run.llm_tokens|count, run.llm_tokens_full_text|count ~ " with full texts" if run.llm_tokens_full_text is not none else "") }}{% endif %}
{% set node = run.summary.tokens_per_node if run.summary else none %}
{% if node is not none %}{{ tile("LLM tokens a node", node.chunks|round|int|count, "%.0f%%"|format(100 * node.saving) ~ " fewer than " ~ node.full_text|round|int|count ~ " with full texts; " ~ node.two_hop|round|int|count ~ " with two hops") }}{% endif %}
</dl>
{% if not run.rounds %}<p>No round has been recorded yet.</p>{% endif %}
<div class="charts">
{% if not several %}{% for chart in overview %}{{ figure(chart) }}{% endfor %}{% endif %}
{% if phase_charts[loop.index0] %}{{ figure(phase_charts[loop.index0]) }}{% endif %}
</div>
{% if run.clients %}
<h3>Clients</h3>
{% set local = run.clients|selectattr("row")|map(attribute="row.local_test_accuracy")|reject("none")|list|length > 0 %}
<div class="scroll"><table class="dense">
<caption>Scores of the global model in round {{ run.clients_round }}. Seconds: median over rounds.{% for way in run.score_names|ways %}{{ " Ways of scoring – " if loop.first else "; " }}{{ way }}{{ "." if loop.last }}{% endfor %}{% if not local %} Local models: {{ run.local_note }}.{% endif %}</caption>
<thead><tr><th scope="col">Client</th><th scope="col" class="number">Nodes</th><th scope="col" class="number">Train / val / test</th><th scope="col" class="number">Validation</th><th scope="col" class="number">Test</th><th scope="col" class="number">Macro-F1</th>{% if local %}<th scope="col" class="number">Local model, test</th>{% endif %}{% for name in run.score_names %}<th scope="col" class="number"><bdi>{{ name|score_title }}</bdi></th>{% endfor %}<th scope="col" class="number">Weight</th><th scope="col" class="number">Seconds</th><th scope="col">Status</th></tr></thead>
<tbody>
{% for line in run.clients %}
{% set row = line.row %}
<tr><th scope="row"><bdi>{{ line.client }}</bdi></th>
{% if row is none %}
<td class="number">–</td><td class="number">–</td><td class="number">–</td><td class="number">–</td><td class="number">–</td>{% if local %}<td class="number">–</td>{% endif %}{% for name in run.score_names %}<td class="number">–</td>{% endfor %}<td class="number">–</td>
{% else %}
<td class="number">{{ row.nodes|count }}</td><td class="number wrap">{{ row.train_nodes|count }} / {{ row.val_nodes|count }} / {{ row.test_nodes|count }}</td><td class="number">{{ row.val_accuracy|percent }}</td>{{ bar(row.test_accuracy) }}<td class="number">{{ row.test_macro_f1|percent }}</td>{% if local %}<td class="number">{{ row.local_test_accuracy|percent }}</td>{% endif %}{% for name in run.score_names %}<td class="number">{{ row.scores.get(name)|percent }}</td>{% endfor %}<td class="number">{{ row.weight|fixed }}</td>
{% endif %}
<td class="number">{{ line.seconds|fixed(2) }}</td>
<td>{% if row is none %}not in this round{% elif row.failed is not none %}<span class="warn">failed</span>{% else %}ok{% endif %}{% if line.failures %} <span class="note">({{ line.failures }} of {{ line.failures + line.answered }} failed)</span>{% endif %}</td></tr>
{% endfor %}
</tbody></table></div>
{% endif %}
"""
    + faithfulness.SECTION
    + privacy.SECTION
    + """\
{% for sentence in run.missing %}<p class="warn">{{ sentence }}</p>
{% endfor %}
{% for one in run.sections %}{{ section_of(one) }}{% endfor %}
{{ aggregation(run, aggregation_charts[loop.index0]) }}
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
)
