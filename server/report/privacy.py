"""The section of the report on membership: what attacks on the release tell of who was in training."""

# ruff: noqa: E501

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedtag.common.wording.privacy import (
    LEFT,
    TERMS,
    AttackRow,
    attack_rows,
    conclusions,
    control_sentences,
    population_sentence,
    verdict,
)
from fedtag.server.pages.chart import Axis, Chart, Panel, Rule, Series, bounded
from fedtag.server.report.privacy_rounds import RoundLine, round_charts, round_lines
from fedtag.server.tracking.membership_audit import read_audit
from fedtag.server.tracking.rows import RoundRow
from fedtag.server.tracking.run_directory import RunDirectory

LEAST = 1e-3

SECTION = """\
{% if run.privacy is not none %}
{% set found = run.privacy %}
<h3>Membership inference</h3>
<p>{{ found.population }}. {% for sentence in found.terms %}{{ sentence }}. {% endfor %}</p>
<ul>
{% for sentence in found.conclusions %}<li><strong>{{ sentence }}.</strong></li>
{% endfor %}
{% for target in found.targets %}<li><strong><bdi>{{ target.verdict }}.</bdi></strong></li>
{% endfor %}
{% for sentence, good in found.controls %}<li{% if not good %} class="warn"{% endif %}>{{ sentence }}.</li>
{% endfor %}
<li>{{ found.left }}.</li>
</ul>
<p class="note">AUC of each attack, with a 95% interval over nodes and models; TPR: share of members found where 1% of the non-members are taken for some, measured with at least 500 of these.</p>
<div class="scroll" tabindex="0"><table>
<thead><tr><th scope="col">Target</th><th scope="col">Members</th><th scope="col">Attack</th><th scope="col" class="number">AUC</th><th scope="col" class="number">95% interval</th><th scope="col" class="number">TPR at 1% FPR</th><th scope="col" class="number">Test accuracy</th></tr></thead>
<tbody>
{% for target in found.targets %}{% for row in target.rows %}<tr><th scope="row"><bdi>{{ row.target }}</bdi></th><td>{{ row.members|count }} {{ row.group }}</td><td>{{ row.attack }}</td><td class="number">{{ row.auc|fixed }}</td><td class="number">{{ row.interval }}</td><td class="number">{{ row.low_rate_words }}</td><td class="number">{{ target.test_accuracy|percent }}</td></tr>
{% endfor %}{% endfor %}
</tbody></table></div>
<div class="charts">{% for chart in own.privacy %}{{ figure(chart) }}{% endfor %}</div>
{{ privacy_over_rounds(found.over_rounds) }}
{% endif %}
"""


@dataclass(frozen=True)
class TargetView:
    """One target: its name, what is known of it, its attacks, and the ROC curves of the first group of members."""

    name: str
    verdict: str
    rows: tuple[AttackRow, ...]
    test_accuracy: float | None
    curves: Mapping[str, tuple[float, ...]]


@dataclass(frozen=True)
class PrivacyView:
    """What the section shows."""

    population: str
    terms: tuple[str, ...]
    conclusions: tuple[str, ...]
    targets: tuple[TargetView, ...]
    controls: tuple[tuple[str, bool], ...]
    left: str
    rates: tuple[float, ...]
    over_rounds: tuple[RoundLine, ...]


def view_privacy(run: RunDirectory) -> PrivacyView | None:
    """What a run's privacy.json says; None if it has none, or one of another model than the released one.

    Raises:
        RunError: the file is damaged or of another schema.
    """
    record = read_audit(run)
    return None if record is None else view_of(record, run.read_rounds())


def view_of(record: Mapping[str, Any], rounds: Sequence[RoundRow] = ()) -> PrivacyView:
    """The view of a record, beside the rounds of its run."""
    return PrivacyView(
        population_sentence(record),
        TERMS,
        tuple(conclusions(record)),
        tuple(_target(target) for target in record["targets"]),
        tuple(control_sentences(record)),
        LEFT,
        tuple(record["rates"]),
        round_lines(record, rounds),
    )


def privacy_charts(view: PrivacyView | None) -> list[Chart]:
    """Areas of all attacks with their intervals, then a ROC chart for each target."""
    if view is None or not view.targets:
        return []
    rocs = [_roc(view.rates, target) for target in view.targets]
    return [_areas(view.targets), *rocs, *round_charts(view.over_rounds)]


def _areas(targets: Sequence[TargetView]) -> Chart:
    """A mark for each target and attack on its first group of members, the first on top."""
    first = [[row for row in target.rows if row.group == target.rows[0].group] for target in targets]
    names = tuple(row.attack for rows in first for row in rows)
    series, place = [], 0
    for colour, rows in enumerate(first):
        series.append(
            Series(
                rows[0].target,
                [row.auc for row in rows],
                [float(place + number) for number in range(len(rows))],
                colour,
                drawn="marks",
                left=[row.low for row in rows],
                right=[row.high for row in rows],
            )
        )
        place += len(rows)
    panel = Panel(Axis("AUC"), Axis(names=names), tuple(series), (Rule("guessing", x=(0.5, 0.5)),))
    said = "; ".join(f"{row.target}, {row.attack}: {row.auc:.3f}" for rows in first for row in rows)
    note = "AUC with 95% intervals; dotted: guessing."
    return Chart("Attacks on membership", note, said, (bounded(panel),))


def _roc(rates: Sequence[float], target: TargetView) -> Chart:
    """True against false positive rates; smaller ones than the axes reach lie on the lower edge.

    On logarithmic axes the few non-members that matter most for privacy have half of the plot (Carlini et al., 2022).
    """
    series = tuple(
        Series(name, rates, [max(value, LEAST) for value in values], number, number)
        for number, (name, values) in enumerate(target.curves.items())
    )
    guessing = Rule("guessing", (LEAST, 1.0), (LEAST, 1.0))
    x = Axis("non-members taken for members", "percent", LEAST, 1.0, log=True)
    y = Axis("members found", "percent", LEAST, 1.0, log=True)
    at = len(rates) * 2 // 3
    said = "; ".join(
        f"{name}: {100 * values[at]:.1f}% of members at {100 * rates[at]:.0f}% of non-members"
        for name, values in target.curves.items()
    )
    note = "Both axes logarithmic; dotted: guessing."
    return Chart(f"ROC, {target.name}", note, said, (Panel(x, y, series, (guessing,)),))


def _target(target: Mapping[str, Any]) -> TargetView:
    first = next(iter(target["groups"].values()))
    return TargetView(
        target["name"],
        verdict(target),
        tuple(attack_rows(target)),
        target["test_accuracy"],
        {name: tuple(found["curve"]) for name, found in first["attacks"].items()},
    )
