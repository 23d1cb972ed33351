"""The Jinja2 template of the HTML report."""

# ruff: noqa: E501

from __future__ import annotations

from fedtag.server.pages import section
from fedtag.server.pages.page_parts import FOOT, MACROS, head
from fedtag.server.report import aggregation, classes, evidence_pages, faithfulness, privacy, privacy_rounds

TITLE = 'fedtag report: {{ runs|map(attribute="name")|list|listed }}'

PAIRS = """\
{% macro pairs(found) %}
<dl class="settings">
{% for key, value in found %}<div><dt>{{ key }}</dt><dd>{{ value }}</dd></div>
{% endfor %}
</dl>
{% endmacro %}
{% macro column(name, value) %}
<td class="number" data-column="{{ name }}">{{ value }}</td>
{%- endmacro %}
"""

TEMPLATE = (
    MACROS
    + PAIRS
    + aggregation.SECTION
    + classes.TABLE
    + evidence_pages.LINKS
    + section.SECTION
    + privacy_rounds.TABLE
    + head(TITLE)
    + """\
{% if several %}
<h1>{{ runs|length }} runs compared</h1>
<p class="sub">Scores are those of the global model on each client's full local graph, at the round that validation chose, by accuracy or what <code>evaluation.metric</code> says (the last round where nothing was validated).</p>
<p class="note">Bold: the highest of a column, where its values differ.</p>
<div class="scroll" tabindex="0"><table>
<thead><tr><th scope="col">Run</th><th scope="col">Method</th><th scope="col">Data</th><th scope="col" class="number">Clients</th><th scope="col" class="number">Ratio</th><th scope="col" class="number">Seed</th><th scope="col" class="number">Best round</th><th scope="col" class="number">Validation</th><th scope="col" class="number">Test</th><th scope="col" class="number">Macro-F1</th><th scope="col" class="number">Balanced accuracy</th><th scope="col" class="number">AUROC</th><th scope="col" class="number">AUPRC</th><th scope="col" class="number">Bytes</th><th scope="col" class="number">Seconds</th></tr></thead>
<tbody>
{% for run in runs %}
<tr><th scope="row"{{ keep(run.name) }}><a href="#run{{ loop.index0 }}" style="color:var(--accent)"><bdi>{{ run.name }}</bdi></a>{% if not run.finished %} <span class="warn keep">in progress</span>{% endif %}</th><td{{ keep(run.method) }}>{{ run.method }}</td><td{{ keep(run.data) }}>{{ run.data }}</td><td class="number">{{ run.client_count }}</td><td class="number">{{ run.ratio|count }}</td><td class="number">{{ run.seed }}</td><td class="number">{{ run.best_round|count }} <span class="note">of {{ run.round_count }}</span></td>
{% for field in ("val_accuracy", "test_accuracy", "test_macro_f1", "test_balanced_accuracy", "test_auroc", "test_auprc") %}
{% set found = runs|map(attribute=field)|reject("none")|list %}
<td class="number{% if found|map("percent")|unique|list|length > 1 and run[field]|percent == found|max|percent %} best{% endif %}">{{ run[field]|percent }}</td>
{% endfor %}
<td class="number">{{ (run.bytes_up + run.bytes_down)|size }}</td><td class="number">{{ run.seconds|duration }}</td></tr>
{% endfor %}
</tbody></table></div>
{% if overview %}<div class="charts">{% for chart in overview %}{{ figure(chart) }}{% endfor %}</div>{% endif %}
{% endif %}
{% for run in runs %}
{% set tag = "h2" if several else "h1" %}
{% set seen = run.round_count %}
<section id="run{{ loop.index0 }}" data-run="{{ loop.index0 }}">
{% set own = charts[loop.index0] %}
<{{ tag }}><bdi>{{ run.name }}</bdi>{% if run.finished %}<span class="badge">finished</span>{% else %}<span class="badge open">in progress</span>{% endif %}</{{ tag }}>
<p class="sub">{{ run.method }} on {{ run.data }}, {{ run.client_count }} client{{ "" if run.client_count == 1 else "s" }}, {{ seen }} round{{ "" if seen == 1 else "s" }}{% if not run.finished %} so far{% endif %}{% if run.ratio is not none %}, ratio {{ run.ratio|count }}{% endif %}, seed {{ run.seed }}{% if run.summary and run.summary.split %}; split {{ run.summary.split }}{% endif %}{% if run.started %}; started {{ run.started|date }}{% endif %}</p>
{{ evidence_links(run, here) }}
<dl class="account">
{% for line in accounts[loop.index0] %}<div><dt>{{ line.about }}</dt><dd><bdi>{{ line.said }}</bdi></dd></div>
{% endfor %}
</dl>
<dl class="tiles">
{{ tile("Test accuracy", run.test_accuracy|percent, ("test" ~ run.test_spread|over_clients ~ "; " if run.test_spread is not none) ~ "at round " ~ run.best_round ~ (", chosen by validation " ~ metrics[run.metric] if run.chosen else ", the last: none was chosen")) }}
{{ tile("Validation accuracy", run.val_accuracy|percent, "validation" ~ run.val_spread|over_clients if run.val_spread is not none) }}
{{ tile("Test macro-F1", run.test_macro_f1|percent, "") }}
{{ tile("Test balanced accuracy", run.test_balanced_accuracy|percent, "mean recall over classes") }}
{{ tile("Test AUROC", run.test_auroc|percent, "each class against all others") }}
{{ tile("Test AUPRC", run.test_auprc|percent, "average precision") }}
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
{% for chart in own.time %}{{ figure(chart) }}{% endfor %}
</div>
{{ by_class(run) }}
{% if references[loop.index0] %}
<h3>Beside references</h3>
<p class="note">Runs beside this one on the same data, division and seed. Difference: of this run to each of them, in test {{ metrics[run.metric] }}.</p>
<div class="scroll" tabindex="0"><table>
<thead><tr><th scope="col">Run</th><th scope="col" class="number">Rounds</th><th scope="col" class="number">Test {{ metrics[run.metric] }}</th><th scope="col">Difference</th></tr></thead>
<tbody>
{% set own_score = run.test_score %}
<tr><th scope="row">this run</th><td class="number">{{ run.round_count|count }}</td><td class="number">{{ own_score|percent }}</td><td>–</td></tr>
{% for one in references[loop.index0] %}<tr><th scope="row"><bdi>{{ one.name }}</bdi></th><td class="number">{{ one.rounds|count }}</td><td class="number">{{ one.test|percent }}</td><td>{{ difference(own_score, one.test) if own_score is not none and one.test is not none else "–" }}</td></tr>
{% endfor %}
</tbody></table></div>
{% endif %}
{% if run.clients %}
<h3>Clients</h3>
{% set record = run.client_record %}
<div class="picker" hidden>
<label for="client{{ loop.index0 }}">Client</label> <select id="client{{ loop.index0 }}"><option value="-1">all</option>{% for line in run.clients %}<option value="{{ loop.index0 }}">{{ line.client }}</option>{% endfor %}</select>
<label for="round{{ loop.index0 }}">Round</label> <input type="range" id="round{{ loop.index0 }}" min="0" max="{{ [record.rounds|length - 1, 0]|max }}" value="{{ record.rounds.index(record.shown) if record.shown in record.rounds else 0 }}"> <output for="round{{ loop.index0 }}">round {{ record.shown|count }}</output>
{% if record.rounds|length < record.all %}<span class="note">{{ record.rounds|length }} of {{ record.all }} rounds can be picked here; all are in clients.jsonl.</span>{% endif %}
</div>
{% if own.clients %}<div class="charts">{% for chart in own.clients %}{{ figure(chart) }}{% endfor %}</div>{% endif %}
{% set local = run.clients|selectattr("row")|map(attribute="row.local_test_accuracy")|reject("none")|list|length > 0 %}
<p class="note">{% if run.clients|length < run.every_client|length %}{{ run.clients|length }} of {{ run.every_client|length }} clients, those with the lowest test accuracy; all are in clients.jsonl. {% endif %}Scores of the global model in round <span data-round>{{ run.clients_round }}</span>. Seconds: median over rounds.{% for way in run.score_names|ways %}{{ " Ways of scoring – " if loop.first else "; " }}{{ way }}{{ "." if loop.last }}{% endfor %}{% if not local %} Local models: {{ run.local_note }}.{% endif %}</p>
<div class="scroll" tabindex="0"><table class="dense">
<thead><tr><th scope="col">Client</th><th scope="col" class="number">Nodes</th><th scope="col" class="number keep">Train / val / test</th><th scope="col" class="number">Validation</th><th scope="col" class="number">Test</th><th scope="col" class="number">Macro-F1</th><th scope="col" class="number">Balanced accuracy</th><th scope="col" class="number">AUROC</th><th scope="col" class="number">AUPRC</th>{% if local %}<th scope="col" class="number">Local model, test</th>{% endif %}{% for name in run.score_names %}<th scope="col" class="number"><bdi>{{ name|score_title }}</bdi></th>{% endfor %}<th scope="col" class="number">Weight</th><th scope="col" class="number">Seconds</th><th scope="col">Status</th></tr></thead>
<tbody>
{% for line in run.clients %}
{% set row = line.row %}
<tr data-client="{{ loop.index0 }}"><th scope="row"{{ keep(line.client) }}><bdi>{{ line.client }}</bdi></th><td class="number">{{ (row.nodes if row else none)|count }}</td><td class="number">{% if row %}{{ row.train_nodes|count }} / {{ row.val_nodes|count }} / {{ row.test_nodes|count }}{% else %}–{% endif %}</td>
{% for name in ("val_accuracy", "test_accuracy", "test_macro_f1", "test_balanced_accuracy", "test_auroc", "test_auprc") + (("local_test_accuracy",) if local else ()) %}{{ bar(row[name] if row else none, name) if name == "test_accuracy" else column(name, (row[name] if row else none)|percent) }}{% endfor %}
{% for name in run.score_names %}{{ column("score-%s" % loop.index0, (row.scores.get(name) if row else none)|percent) }}{% endfor %}{{ column("weight", (row.weight if row else none)|fixed) }}
<td class="number">{{ line.seconds|fixed(2) }}</td>
<td><span data-state{% if row and row.failed is not none %} class="warn"{% endif %}>{% if row is none %}not in this round{% elif row.failed is not none %}failed{% else %}ok{% endif %}</span>{% if line.failures %} <span class="note">({{ line.failures }} of {{ line.failures + line.answered }} failed)</span>{% endif %}</td></tr>
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
{{ aggregation(run, own.aggregation) }}
{% if run.settings %}
<h3>Configuration</h3>
{% if run.changed %}<p>Settings that differ from the defaults of what the run is made of.</p>
{{ pairs(run.changed) }}{% else %}<p>All settings are the defaults of what the run is made of.</p>{% endif %}
{% set rest = run.settings|reject("in", run.changed)|list %}
{% if rest %}<details><summary>{{ rest|length }} settings that are the defaults</summary>
{{ pairs(rest) }}
</details>{% endif %}
{% endif %}
{% if run.versions %}
<h3>Versions</h3>
{{ pairs(run.versions) }}
{% endif %}
</section>
{% endfor %}
"""
    + FOOT
)
