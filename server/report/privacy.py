"""The section of the report on membership: what attacks on the release tell of who was in training."""

# ruff: noqa: E501

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

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
from fedtag.server.pages.chart import Chart, Key
from fedtag.server.pages.plots import CSS_DASHES, SERIES_COLOURS
from fedtag.server.report.privacy_plots import AreaBar, RocCurve, area_plot, roc_plot
from fedtag.server.report.privacy_rounds import RoundLine, round_charts, round_lines
from fedtag.server.tracking.membership_audit import read_audit
from fedtag.server.tracking.rows import RoundRow
from fedtag.server.tracking.run_directory import RunDirectory

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
<div class="scroll"><table>
<caption>AUC of each attack, with a 95% interval over nodes and models; TPR: share of members found where 1% of the non-members are taken for some, measured with at least 500 of these.</caption>
<thead><tr><th scope="col">Target</th><th scope="col">Members</th><th scope="col">Attack</th><th scope="col" class="number">AUC</th><th scope="col" class="number">95% interval</th><th scope="col" class="number">TPR at 1% FPR</th><th scope="col" class="number">Test accuracy</th></tr></thead>
<tbody>
{% for target in found.targets %}{% for row in target.rows %}<tr><th scope="row"><bdi>{{ row.target }}</bdi></th><td>{{ row.members|count }} {{ row.group }}</td><td>{{ row.attack }}</td><td class="number">{{ row.auc|fixed }}</td><td class="number">{{ row.interval }}</td><td class="number">{{ row.low_rate_words }}</td><td class="number">{{ target.test_accuracy|percent }}</td></tr>
{% endfor %}{% endfor %}
</tbody></table></div>
<div class="charts">{% for chart in privacy_charts[loop.index0] %}{{ figure(chart) }}{% endfor %}</div>
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


def privacy_charts(view: PrivacyView | None, identity: str) -> list[Chart]:
    """Areas of all attacks with their intervals, then a ROC chart for each target."""
    if view is None or not view.targets:
        return []
    first = [[row for row in target.rows if row.group == target.rows[0].group] for target in view.targets]
    bars = [
        AreaBar(row.attack, row.auc, row.low, row.high, place)
        for place, rows in enumerate(first)
        for row in rows
    ]
    said = "; ".join(f"{row.target}, {row.attack}: {row.auc:.3f}" for rows in first for row in rows)
    keys = tuple(
        Key(target.name, place % SERIES_COLOURS, filled=True) for place, target in enumerate(view.targets)
    )
    areas = Chart(
        "Attacks on membership",
        "AUC with 95% intervals; dotted: guessing.",
        said,
        Markup(area_plot(bars, f"{identity}-areas")),
        keys,
    )
    rocs = [_roc(view, place, f"{identity}-roc{place}") for place in range(len(view.targets))]
    return [areas, *rocs, *round_charts(view.over_rounds, f"{identity}-rounds")]


def _roc(view: PrivacyView, place: int, identity: str) -> Chart:
    target = view.targets[place]
    curves = [RocCurve(values, number) for number, values in enumerate(target.curves.values())]
    keys = tuple(
        Key(name, number, CSS_DASHES[number % len(CSS_DASHES)]) for number, name in enumerate(target.curves)
    )
    said = "; ".join(
        f"{name}: {100 * values[len(values) * 2 // 3]:.1f}% of members at {100 * rate:.0f}% of non-members"
        for name, values in target.curves.items()
        for rate in (view.rates[len(values) * 2 // 3],)
    )
    return Chart(
        f"ROC, {target.name}",
        "Both axes logarithmic; dotted: guessing.",
        said,
        Markup(roc_plot(view.rates, curves, identity)),
        keys,
    )


def _target(target: Mapping[str, Any]) -> TargetView:
    first = next(iter(target["groups"].values()))
    return TargetView(
        target["name"],
        verdict(target),
        tuple(attack_rows(target)),
        target["test_accuracy"],
        {name: tuple(found["curve"]) for name, found in first["attacks"].items()},
    )
