"""How fast runs converge: scores over rounds, and the round in which the plateau is almost reached."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from fedtag.common.wording.scoring import ACCURACY, column
from fedtag.server.comparison.statistics import Spread, spread
from fedtag.server.tracking.rows import RoundRow

PLATEAU_ROUNDS = 10
NEARLY = 0.99


@dataclass(frozen=True)
class Point:
    """A metric on validation and test nodes in a round, over the runs of a row."""

    round: int
    val: Spread | None
    test: Spread


@dataclass(frozen=True)
class Arrival:
    """When a run came close to its plateau.

    Args:
        plateau: mean of the metric on validation nodes in the last ten scored rounds.
        rounds: the first round in which it is at least 99% of the plateau.
        seconds: what the rounds up to then took.
    """

    plateau: float
    rounds: int
    seconds: float


def scores(row: RoundRow, metric: str) -> tuple[float | None, float | None]:
    """A metric of a round on validation and on test nodes."""
    return getattr(row, f"val_{column(metric)}"), getattr(row, f"test_{column(metric)}")


def curve(runs: Sequence[Sequence[RoundRow]], metric: str = ACCURACY) -> list[Point]:
    """The scores of the global model over the finished runs, for each round in which all of them were tested.

    Args:
        runs: the rounds of each; those without a round are left out.
        metric: which scores.
    """
    tested = [
        {row.round: found for row in rounds if (found := scores(row, metric))[1] is not None}
        for rounds in runs
        if rounds
    ]
    if not tested:
        return []
    points = []
    for number in sorted(set.intersection(*(set(rows) for rows in tested))):
        rows = [one[number] for one in tested]
        vals = [val for val, _ in rows if val is not None]
        test = spread([test for _, test in rows if test is not None])
        if test is not None:
            points.append(Point(number, spread(vals) if len(vals) == len(rows) else None, test))
    return points


def arrival(rounds: Sequence[RoundRow], metric: str = ACCURACY) -> Arrival | None:
    """When a run came close to its plateau; None with fewer than 20 rounds in which validation was scored.

    The plateau of a shorter run would be the mean of its climb.
    """
    scored = [(row.round, val) for row in rounds if (val := scores(row, metric)[0]) is not None]
    vals = [val for _, val in scored]
    if len(vals) < 2 * PLATEAU_ROUNDS:
        return None
    plateau = sum(vals[-PLATEAU_ROUNDS:]) / PLATEAU_ROUNDS
    # At least one of the last rounds is as good as their mean.
    first = next(number for number, val in scored if val >= NEARLY * plateau)
    elapsed = dict(zip((row.round for row in rounds), accumulate(row.seconds for row in rounds), strict=True))
    return Arrival(plateau, first, elapsed[first])
