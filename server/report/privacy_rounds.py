"""What attacks tell over the rounds of a run, beside its accuracy."""

# ruff: noqa: E501

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedtag.common.wording.privacy import AttackRow, strongest_on_first
from fedtag.server.pages.chart import Chart, Rule, Series, line_chart
from fedtag.server.pages.wording import percent
from fedtag.server.tracking.rows import RoundRow

RUN = "models of the run"
NOTE = "Each round as if the run had ended there; an attack that puts rounds together may tell more"

TABLE = """\
{% macro privacy_over_rounds(lines) %}
{% if lines %}
<details><summary>Over rounds: the strongest attack of each, and accuracy</summary>
<p class="note">Each round as if the run had ended there; an attack that puts rounds together may tell more. Attacked: test accuracy of the attacked models; run: that of the models that the run scored, fitted to each client where that is the better way.</p>
<div class="scroll" tabindex="0"><table>
<thead><tr><th scope="col" class="number">Round</th><th scope="col">Target</th><th scope="col">Attack</th><th scope="col" class="number">AUC</th><th scope="col" class="number">95% interval</th><th scope="col" class="number">Attacked</th><th scope="col" class="number">Run</th></tr></thead>
<tbody>
{% for line in lines %}<tr><th scope="row" class="number">{{ line.round }}</th><td><bdi>{{ line.best.target }}</bdi></td><td>{{ line.best.attack }}</td><td class="number">{{ line.best.auc|fixed }}</td><td class="number">{{ line.best.interval }}</td><td class="number">{{ line.attacked|percent }}</td><td class="number">{{ line.run|percent }}</td></tr>
{% endfor %}
</tbody></table></div>
</details>
{% endif %}
{% endmacro %}
"""


@dataclass(frozen=True)
class RoundLine:
    """One target in one round.

    Args:
        round: of the run.
        best: the attack with the largest area on the training nodes.
        attacked: test accuracy of the attacked models.
        run: test accuracy that the run recorded; None where it scored no test node.
    """

    round: int
    best: AttackRow
    attacked: float
    run: float | None


def round_lines(record: Mapping[str, Any], rounds: Sequence[RoundRow]) -> tuple[RoundLine, ...]:
    """What a record says of the rounds that were attacked; empty where none was.

    Args:
        record: of an audit.
        rounds: of the run.
    """
    scored = {row.round: row.test_accuracy for row in rounds}
    return tuple(
        RoundLine(one["round"], strongest_on_first(target), target["test_accuracy"], scored.get(one["round"]))
        for one in record.get("over_rounds", ())
        for target in one["targets"]
    )


def round_charts(lines: Sequence[RoundLine]) -> list[Chart]:
    """Areas of the strongest attacks with their intervals, then accuracies, both over rounds."""
    by_target: dict[str, list[RoundLine]] = {}
    for line in lines:
        by_target.setdefault(line.best.target, []).append(line)
    areas, accuracies = [], []
    for place, (target, own) in enumerate(by_target.items()):
        numbers = [line.round for line in own]
        low, high = [line.best.low for line in own], [line.best.high for line in own]
        areas.append(
            Series(target, numbers, [line.best.auc for line in own], place, place, low=low, high=high)
        )
        accuracies.append(Series(target, numbers, [line.attacked for line in own], place, place))
    run = {line.round: line.run for line in lines}
    place = len(by_target)
    accuracies.append(Series(RUN, list(run), list(run.values()), place, place))
    charts = [
        line_chart(
            "Strongest attack over rounds",
            f"AUC with 95% intervals; 0.5 is guessing. {NOTE}.",
            "; ".join(f"{line.best.target}, round {line.round}: {line.best.auc:.3f}" for line in lines),
            areas,
            y_label="AUC",
            rules=[Rule("guessing", y=(0.5, 0.5))],
        ),
        line_chart(
            "Test accuracy over rounds",
            "Of the attacked models, and of those that the run scored.",
            "; ".join(
                f"{line.best.target}, round {line.round}: {percent(line.attacked)}, run {percent(line.run)}"
                for line in lines
            ),
            accuracies,
            kind="percent",
        ),
    ]
    return [chart for chart in charts if chart is not None]
