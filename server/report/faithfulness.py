"""The section of the report on faithfulness: whether predictions rest on the evidence that is kept for them."""

# ruff: noqa: E501

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fedtag.common.errors import RunError
from fedtag.common.wording.faithfulness import (
    ORDERS,
    PREDICTORS,
    TERMS,
    ConditionRow,
    GoalRow,
    churn_sentences,
    comparison_sentences,
    condition_rows,
    goal_rows,
    guarantee_sentences,
    verdict_sentences,
)
from fedtag.server.pages.chart import Axis, Chart, Series, line_chart
from fedtag.server.tracking.run_directory import RunDirectory

FILE = "faithfulness.json"
SCHEMA = 1
CURVES = {
    "removed": ("Deletion", "Probability of the first prediction without the k strongest chunks."),
    "kept": ("Insertion", "Probability of the first prediction from the k strongest chunks alone."),
}

SECTION = """\
{% if run.faithfulness is not none %}
{% set measured = run.faithfulness %}
<h3>Faithfulness of the evidence</h3>
<p>Measured on {{ measured.targets|count }} test nodes of {{ measured.sites }} site{{ "" if measured.sites == 1 else "s" }} with the released model. Chunks were cut out of the texts, changed texts encoded anew, and predictions made again by the path that reads evidence. Drop: how much the probability of the first prediction fell, on average. {% for sentence in measured.terms %}{{ sentence }}. {% endfor %}</p>
{% for predictor in measured.predictors %}
<p>{{ predictor.heading }}: <strong>{{ predictor.verdict|join(". ") }}.</strong></p>
<div class="scroll" tabindex="0"><table>
<thead><tr><th scope="col">Read from</th><th scope="col" class="number">Accuracy</th><th scope="col" class="number">Of the full text's</th><th scope="col" class="number">Drop in probability</th></tr></thead>
<tbody>
{% for row in predictor.rows %}<tr><th scope="row">{{ row.words }}</th>{{ bar(row.accuracy) }}<td class="number">{{ row.ratio|percent }}</td><td class="number">{{ row.drop|fixed }}</td></tr>
{% endfor %}
</tbody></table></div>
<ul>
{% for goal in predictor.goals %}<li{% if goal.verdict != "met" %} class="warn"{% endif %}>{{ goal.sentence }}.</li>
{% endfor %}
{% for sentence in predictor.comparisons %}<li>{{ sentence }}.</li>
{% endfor %}
</ul>
<div class="charts">{% for chart in predictor.curves %}{{ figure(chart) }}{% endfor %}</div>
{% endfor %}
{% if not measured.bypass %}<p>This model has no bypass: nothing but the selection and the graph state reaches its predictions.</p>{% endif %}
<p>A node's evidence is {{ measured.sizes.selected_nodes|fixed(1) }} of {{ measured.sizes.candidate_nodes|fixed(1) }} candidate nodes, {{ measured.sizes.selected_chunks|fixed(1) }} of {{ measured.sizes.candidate_chunks|fixed(1) }} chunks and {{ measured.sizes.selected_tokens|fixed(0) }} of {{ measured.sizes.candidate_tokens|fixed(0) }} encoder tokens on average.</p>
<ul>
{% for check in measured.checks %}<li>{{ check }}.</li>
{% endfor %}
</ul>
{% endif %}
"""


@dataclass(frozen=True)
class Predictor:
    """One way of predicting: the model as it is, or with its bypass off."""

    heading: str
    verdict: tuple[str, ...]
    rows: tuple[ConditionRow, ...]
    goals: tuple[GoalRow, ...]
    comparisons: tuple[str, ...]
    curves: tuple[Chart, ...]


@dataclass(frozen=True)
class FaithfulnessView:
    """What the section shows."""

    targets: int
    sites: int
    bypass: bool
    terms: tuple[str, ...]
    sizes: Mapping[str, float]
    predictors: tuple[Predictor, ...]
    checks: tuple[str, ...]


def view_faithfulness(run: RunDirectory) -> FaithfulnessView | None:
    """What a run's faithfulness.json says; None if it has none, or one of another model than the released one.

    Raises:
        RunError: the file is damaged or of another schema.
    """
    record = run.read_of_release(FILE)
    if record is None:
        return None
    try:
        if record["schema"] != SCHEMA:
            raise ValueError(f"schema {record['schema']!r}")
        return FaithfulnessView(
            record["targets"],
            record["sites"],
            record["bypass"],
            TERMS,
            record["sizes"],
            tuple(
                _predictor(heading, record["reports"][key])
                for key, heading in PREDICTORS.items()
                if key in record["reports"]
            ),
            (*guarantee_sentences(record["guarantees"]), *churn_sentences(record["churn"])),
        )
    except (KeyError, ValueError, TypeError) as error:
        raise RunError(
            f"{run.path / FILE} holds no measurement of schema {SCHEMA} ({error}): remove it, or measure again with "
            f"fedtag audit --faithfulness"
        ) from error


def _predictor(heading: str, report: Mapping[str, Any]) -> Predictor:
    return Predictor(
        heading,
        tuple(verdict_sentences(report)),
        tuple(condition_rows(report)),
        tuple(goal_rows(report)),
        tuple(comparison_sentences(report)),
        tuple(
            chart for action, words in CURVES.items() if (chart := _curves(report["curves"][action], *words))
        ),
    )


def _curves(curves: Mapping[str, Any], title: str, note: str) -> Chart | None:
    """Probabilities over the number of chunks, a line an order."""
    found = {ORDERS[order]: curve["probability"] for order, curve in curves.items()}
    series = [
        Series(name, range(len(values)), values, number, number)
        for number, (name, values) in enumerate(found.items())
    ]
    said = "; ".join(
        f"{name}: {', '.join(f'{value:.3f}' for value in values)}" for name, values in found.items()
    )
    chunks = Axis("chunks", "whole")
    return line_chart(
        title, note, said, series, y_label="mean probability", kind="percent", from_zero=True, x=chunks
    )
