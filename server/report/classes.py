"""The scores of each class, of the released round."""

# ruff: noqa: E501

from __future__ import annotations

TABLE = """\
{% macro by_class(run) %}
{% if run.classes %}
<h3>Classes</h3>
<p class="note">Test nodes of all clients by their class, at round {{ run.best_round|count }}. AUROC and AUPRC: nodes of the class against all others, from scores in 128 bins. A dash where a number is not defined: no node of the class, or none that is predicted as it.</p>
<div class="scroll" tabindex="0"><table class="dense">
<thead><tr><th scope="col">Class</th><th scope="col" class="number">Nodes</th><th scope="col" class="number">Precision</th><th scope="col" class="number">Recall</th><th scope="col" class="number">F1</th><th scope="col" class="number">AUROC</th><th scope="col" class="number">AUPRC</th></tr></thead>
<tbody>
{% for line in run.classes %}
{% set one = line.scores %}
<tr><th scope="row"><bdi>{{ line.name }}</bdi></th><td class="number">{{ one.nodes|count }}</td><td class="number">{{ one.precision|percent }}</td>{{ bar(one.recall) }}<td class="number">{{ one.f1|percent }}</td><td class="number">{{ one.auroc|percent }}</td><td class="number">{{ one.auprc|percent }}</td></tr>
{% endfor %}
</tbody></table></div>
{% endif %}
{% endmacro %}
"""
