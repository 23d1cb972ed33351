"""The Jinja2 template of the page of a comparison."""

# ruff: noqa: E501

from __future__ import annotations

from fedtag.server.pages.page_parts import FOOT, MACROS, head

TITLE = "{{ comparison.title }}"

TEMPLATE = (
    MACROS
    + """\
{% macro settings(pairs) %}
{% for key, value in pairs %}<code>{{ key }} = {{ value }}</code>{% if not loop.last %}, {% endif %}{% else %}–{% endfor %}
{% endmacro %}
"""
    + head(TITLE)
    + """\
<h1><bdi>{{ comparison.title }}</bdi></h1>
<p class="sub">{% if comparison.source %}{{ comparison.source }}. {% endif %}Seeds {{ comparison.seeds|spans }}. Scores are those of the global model at the round that validation chose by <code>evaluation.metric</code>; validation and test: {{ comparison.title_of_metric }}. Mean ± sample standard deviation over seeds, in percent.</p>
{% for part in parts %}
<h2><bdi>{{ part.data }}</bdi></h2>
<p class="note">Difference: test {{ comparison.title_of_metric }} minus that of {{ comparison.baseline }} with the same seed, in percentage points, with the 95% interval of Student's t over seeds; an interval needs at least three seeds, and differences that are not all equal. Plateau: mean validation {{ comparison.title_of_metric }} of the last ten scored rounds; rounds to it: the first whose validation {{ comparison.title_of_metric }} is at least 99% of it; runs of fewer than 20 scored rounds have none.</p>
<div class="scroll" tabindex="0"><table class="dense">
<thead><tr><th scope="col">Row</th><th scope="col" class="number">Seeds</th><th scope="col" class="number">Validation</th><th scope="col" class="number">Test</th><th scope="col" class="number">Difference</th>{% for title in comparison.other_metrics.values() %}<th scope="col" class="number">{{ title|capital }}</th>{% endfor %}<th scope="col" class="number">Calibration error</th><th scope="col" class="number">Plateau</th><th scope="col" class="number">Rounds to it</th></tr></thead>
<tbody>
{% for line in part.lines %}
<tr><th scope="row" class="keep"><bdi>{{ line.name }}</bdi></th>{% for entry in line.scores %}<td class="number wrap">{{ entry|unparted }}</td>{% endfor %}</tr>
{% endfor %}
</tbody></table></div>
<div class="charts">{% for chart in part.charts %}{{ figure(chart) }}{% endfor %}</div>
{% if part.audit %}
<h3>Membership inference</h3>
<p class="note">{{ audit_reading }}</p>
<div class="scroll" tabindex="0"><table class="dense">
<thead><tr><th scope="col">Row</th>{% for heading in part.audit.headings %}<th scope="col" class="number">{{ heading }}</th>{% endfor %}</tr></thead>
<tbody>
{% for name, cells in part.audit.lines %}
<tr><th scope="row" class="keep"><bdi>{{ name }}</bdi></th>{% for entry in cells %}<td class="number wrap">{{ entry|unparted }}</td>{% endfor %}</tr>
{% endfor %}
</tbody></table></div>
<div class="charts">{{ figure(part.audit.chart) }}</div>
{% endif %}
<p class="note">Costs: means over seeds; seconds a round are a run's median. Texts are encoded in the first run that needs them.</p>
<div class="scroll" tabindex="0"><table class="dense">
<thead><tr><th scope="col">Row</th><th scope="col" class="number">Bytes up a round</th><th scope="col" class="number">Bytes down a round</th><th scope="col" class="number">Seconds a round</th><th scope="col" class="number">Time to plateau</th><th scope="col" class="number">Time of a run</th><th scope="col" class="number">Processor time of a run</th><th scope="col" class="number">Encoder tokens</th><th scope="col" class="number">Language model tokens</th></tr></thead>
<tbody>
{% for line in part.lines %}
<tr><th scope="row" class="keep"><bdi>{{ line.name }}</bdi></th>{% for entry in line.costs %}<td class="number">{{ entry }}</td>{% endfor %}</tr>
{% endfor %}
</tbody></table></div>
{% endfor %}
<h2>Rows</h2>
<p>Settings of all rows: {{ settings(comparison.settings.items()) }}{% if comparison.note %} <bdi>{{ comparison.note }}</bdi>{% endif %}</p>
<div class="scroll" tabindex="0"><table class="dense">
<thead><tr><th scope="col">Row</th><th scope="col">Its own settings</th></tr></thead>
<tbody>
{% for row in comparison.rows %}<tr><th scope="row"><bdi>{{ row.name }}</bdi></th><td style="max-width:none">{{ settings(row.settings.items()) }}</td></tr>
{% endfor %}
</tbody></table></div>
<h2>Runs</h2>
<div class="scroll" tabindex="0"><table class="dense">
<thead><tr><th scope="col">Row</th><th scope="col">Data</th><th scope="col" class="number">Seed</th><th scope="col" class="number">Best round</th><th scope="col" class="number">Validation</th><th scope="col" class="number">Test</th>{% for title in comparison.other_metrics.values() %}<th scope="col" class="number">{{ title|capital }}</th>{% endfor %}<th scope="col" class="number">Calibration error</th><th scope="col">Report</th></tr></thead>
<tbody>
{% for run in runs %}
{% set found = run.summary %}
<tr><th scope="row"{{ keep(run.row) }}><bdi>{{ run.row }}</bdi></th><td{{ keep(run.data) }}><bdi>{{ run.data }}</bdi></td><td class="number">{{ run.seed }}</td>
{% if found %}
<td class="number">{{ found.best_round|count }} <span class="note">of {{ found.rounds }}</span></td><td class="number">{{ score(found, "val", comparison.metric)|percent }}</td><td class="number">{{ score(found, "test", comparison.metric)|percent }}</td>{% for metric in comparison.other_metrics %}<td class="number">{{ score(found, "test", metric)|percent }}</td>{% endfor %}<td class="number">{{ found.test_ece|percent }}</td><td><a href="{{ run.run|urlencode }}/report.html" style="color:var(--accent)">{{ run.run }}</a></td></tr>
{% else %}
<td class="number" colspan="{{ 4 + comparison.other_metrics|length }}">–</td><td class="warn">not finished</td></tr>
{% endif %}
{% endfor %}
</tbody></table></div>
"""
    + FOOT
)
