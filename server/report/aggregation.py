"""The section of the report on aggregation: weights, who was left out, what the server learned."""

# ruff: noqa: E501

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedtag.common.config import flatten
from fedtag.common.methods.spec import MethodSpec
from fedtag.common.wording.guarantee import guarantee_sentences
from fedtag.server.pages.chart import Chart
from fedtag.server.report.absences import Absence, absences, without_training
from fedtag.server.report.client_series import ClientSeries, client_series, series_chart
from fedtag.server.report.combination import combination_sentences, privacy_sentences
from fedtag.server.tracking.rows import ClientRow, Summary

DIVERGENCE_NOTE = (
    "Kullback–Leibler divergence of a client's mean predicted class distribution from that of all clients."
)
NORMALISER_NOTE = (
    "By what FedNova divides a client's update: its local steps, as its optimiser makes them count."
)

SECTION = """\
{% macro disclosed(totals, caption, ends) %}
<p class="note">{{ caption }}</p>
<div class="scroll" tabindex="0"><table>
<thead><tr><th scope="col">Kind</th>{% for end in ends %}<th scope="col">{{ "From" if end == "senders" else "To" }}</th>{% endfor %}<th scope="col">Protection</th><th scope="col">What it reveals</th><th scope="col" class="number">Records</th><th scope="col" class="number">Bytes</th><th scope="col" class="number">Rounds</th></tr></thead>
<tbody>
{% for total in totals %}<tr><th scope="row"><bdi>{{ total.kind }}</bdi></th>{% for end in ends %}<td><bdi>{{ total[end]|listed }}</bdi></td>{% endfor %}<td>{{ total.protected }}</td><td><bdi>{{ total.reveals }}</bdi></td><td class="number">{{ total.count|count }}</td><td class="number">{{ total.bytes|size }}</td><td class="number">{{ total.rounds|length }} <span class="note">({{ "round " if total.rounds|length == 1 }}{{ total.first_round }}{% if total.last_round != total.first_round %}–{{ total.last_round }}{% endif %})</span></td></tr>
{% endfor %}
</tbody></table></div>
{% endmacro %}
{% macro aggregation(run, charts) %}
{% set view = run.aggregation %}
<h3>Aggregation</h3>
{% if view.combination %}<ul>
{% for sentence in view.combination %}<li>{{ sentence }}.</li>
{% endfor %}
</ul>{% endif %}
{% if charts %}<div class="charts">{% for chart in charts %}{{ figure(chart) }}{% endfor %}</div>{% endif %}
<h4>Who was left out</h4>
{% if run.empty_rounds %}<p class="warn">No client contributed in round{{ "" if run.empty_rounds|length == 1 else "s" }} {{ run.empty_rounds|spans }}.</p>{% endif %}
{% if view.without_training %}<p>Without a training node, and so without weight: <bdi>{{ view.without_training|listed }}</bdi>.</p>{% endif %}
{% if view.absences %}
<p class="note">Reasons are those that the server saw; a site's own log has the rest.{% if view.absences|map(attribute="counted")|sum %} Scores only: the update had been combined, and the client was lost before it scored the result.{% endif %}</p>
<div class="scroll" tabindex="0"><table>
<thead><tr><th scope="col">Client</th><th scope="col">Reason</th><th scope="col" class="number">Times</th><th scope="col">Rounds</th></tr></thead>
<tbody>
{% for absence in view.absences %}<tr><th scope="row"><bdi>{{ absence.who }}</bdi></th><td><bdi>{{ absence.reason }}</bdi></td><td class="number">{{ absence.times|count }}{% if absence.counted %} <span class="note">({{ absence.counted|count }} scores only)</span>{% endif %}</td><td>{{ absence.rounds|spans }}</td></tr>
{% endfor %}
</tbody></table></div>
{% elif run.rounds and not run.empty_rounds %}
<p>Every client that was asked contributed.</p>
{% endif %}
<h4>Privacy</h4>
{% if view.privacy %}<ul>
{% for sentence in view.privacy %}<li>{{ sentence }}.</li>
{% endfor %}
</ul>{% endif %}
{% if view.guarantee %}<p><strong>{{ view.guarantee[0] }}.</strong>{% for sentence in view.guarantee[1:] %} {{ sentence }}.{% endfor %}</p>{% endif %}
{% if run.disclosures %}
{% set learned = run.disclosures|selectattr("to_server")|list %}
{% set received = run.disclosures|rejectattr("to_server")|list %}
{% if learned %}
<h4>What the server learned</h4>
{{ disclosed(learned, "Every kind of record that clients sent to the server. It also sees who is present, when, and the size of each message.", ["senders"]) }}
{% endif %}
{% if received %}
<h4>What the clients received</h4>
{{ disclosed(received, "Every kind of record that clients received. What clients send to each other is encrypted and passes the server.", ["senders", "receivers"]) }}
{% endif %}
{% else %}
<p>No disclosure is recorded.</p>
{% endif %}
{% endmacro %}
"""


@dataclass(frozen=True)
class AggregationView:
    """What the section shows: sentences without full stops, absences, and numbers by client and round."""

    combination: tuple[str, ...]
    privacy: tuple[str, ...]
    guarantee: tuple[str, ...]
    absences: tuple[Absence, ...]
    without_training: tuple[str, ...]
    weights: ClientSeries
    divergence: ClientSeries
    steps: ClientSeries
    normaliser: ClientSeries


def view_aggregation(
    config: Mapping[str, Any], method: MethodSpec | None, summary: Summary | None, rows: Sequence[ClientRow]
) -> AggregationView:
    """What a run's settings, summary and rows of clients say of its aggregation.

    Args:
        config: config.toml.
        method: of the run; None where it is not installed.
        summary: None where the run has not finished.
        rows: of clients.jsonl.
    """
    settings = flatten(config)
    # A client that is not drawn has weight 0 in the rows; a line that falls to it would hide the others.
    sampled = settings.get("train.client-fraction", 1.0) < 1
    weights = client_series(rows, lambda row: row.weight or (None if sampled else row.weight))
    steps = client_series(rows, lambda row: None if row.steps is None else float(row.steps))
    lag = summary.weights_lag if summary else None
    combination = combination_sentences(settings, method, lag)
    if (every := steps.constant) is not None:
        combination.append(f"Every client took {every:g} local step{'' if every == 1 else 's'} in each round")
    return AggregationView(
        combination=tuple(combination),
        privacy=tuple(privacy_sentences(settings, method)),
        guarantee=tuple(guarantee_sentences(summary.privacy)) if summary and summary.privacy else (),
        absences=tuple(absences(rows)),
        without_training=without_training(rows),
        weights=weights,
        divergence=client_series(rows, lambda row: row.statistics.get("divergence")),
        steps=steps,
        normaliser=client_series(rows, lambda row: row.normaliser),
    )


def aggregation_charts(view: AggregationView, run: int = 0) -> list[Chart]:
    """Weight, divergence, local steps and normaliser of the clients over the rounds, where there are any.

    Steps and normalisers that are the same for all say nothing over time, nor do normalisers that are the steps.
    """
    charts = [
        series_chart("weight", "", view.weights, "weight", run),
        series_chart("divergence", DIVERGENCE_NOTE, view.divergence, "divergence", run),
    ]
    if view.steps.constant is None:
        charts.append(series_chart("local steps", "", view.steps, "steps", run, "whole"))
    if view.normaliser.constant is None and view.normaliser.values != view.steps.values:
        charts.append(series_chart("normaliser", NORMALISER_NOTE, view.normaliser, "normaliser", run))
    return [chart for chart in charts if chart]
