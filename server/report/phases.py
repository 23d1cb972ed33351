"""Where the time of a run's rounds went."""

from __future__ import annotations

from itertools import accumulate

from fedtag.server.pages.chart import ROUNDS, SERIES_COLOURS, Axis, Chart, Panel, Series, bounded
from fedtag.server.pages.wording import duration
from fedtag.server.report.run_view import RunView

OTHER = "other"
MOST_BARS = 60
"""Of more rounds the bars would be thinner than a dot."""


def phase_chart(run: RunView) -> Chart | None:
    """Seconds a round, split by phase; what no phase accounts for is `other`.

    Where there are more phases than colours, `other` also takes the shortest ones, and a note names them.
    """
    if not run.rounds:
        return None
    phases = list(dict.fromkeys(phase for row in run.rounds for phase in row.seconds_by_phase))
    layers = [[row.seconds_by_phase.get(phase, 0.0) for row in run.rounds] for phase in phases]
    rest = [max(0.0, row.seconds - sum(row.seconds_by_phase.values())) for row in run.rounds]
    if sum(rest) > 0.01 * sum(row.seconds for row in run.rounds) or not phases:
        phases, layers = [*phases, OTHER], [*layers, rest]
    phases, layers, folded = distinguishable(phases, layers)
    totals = ", ".join(f"{name} {duration(sum(layer))}" for name, layer in zip(phases, layers, strict=True))
    note = f"Other: {', '.join(folded)}." if folded else ""
    panel = Panel(
        ROUNDS, Axis("seconds", low=0.0), stacked([row.round for row in run.rounds], phases, layers)
    )
    return Chart("Seconds per round, by phase", note, f"Over all rounds: {totals}.", (bounded(panel),))


def stacked(rounds: list[int], names: list[str], layers: list[list[float]]) -> tuple[Series, ...]:
    """Layers on top of each other, the first at the bottom."""
    tops = [list(accumulate(column)) for column in zip(*layers, strict=True)]
    return tuple(
        Series(
            name,
            rounds,
            layer,
            index,
            drawn="bars" if len(rounds) <= MOST_BARS else "area",
            low=[column[index - 1] if index else 0.0 for column in tops],
            high=[column[index] for column in tops],
            width=0.78,
        )
        for index, (name, layer) in enumerate(zip(names, layers, strict=True))
    )


def distinguishable(
    phases: list[str], layers: list[list[float]]
) -> tuple[list[str], list[list[float]], list[str]]:
    """At most as many phases as there are colours, in their order, and the names of those in `other`."""
    if len(phases) <= SERIES_COLOURS:
        return phases, layers, []
    totals = {name: sum(layer) for name, layer in zip(phases, layers, strict=True) if name != OTHER}
    kept = set(sorted(totals, key=lambda name: -totals[name])[: SERIES_COLOURS - 1])
    apart = [(name, layer) for name, layer in zip(phases, layers, strict=True) if name in kept]
    rest = [layer for name, layer in zip(phases, layers, strict=True) if name not in kept]
    names = [*(name for name, _ in apart), OTHER]
    shown = [*(layer for _, layer in apart), [sum(column) for column in zip(*rest, strict=True)]]
    return names, shown, [name for name in phases if name not in kept and name != OTHER]
