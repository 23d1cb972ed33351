"""What audits of the runs of a comparison found, beside what these runs scored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from fedtag.server.comparison.attacked import NAMES
from fedtag.server.comparison.results import Comparison
from fedtag.server.comparison.statistics import Spread, spread

READING = (
    "Membership inference: area under the ROC curve of the attack that tells a run's training nodes best from its test "
    "nodes, 0.5 by guessing: mean ± sample standard deviation over the seeds that were audited, and the test accuracy "
    "of these. The figures are what these attacks reach, and bound no other one. The interval of each run is in "
    "privacy.csv, the rest in its report."
)


@dataclass(frozen=True)
class AuditLine:
    """A row on one data set.

    Args:
        row: its name.
        audited: how many of its runs were audited.
        finished: of so many.
        test: accuracy of the audited runs.
        areas: by kind of target; of runs that have it.
        own: areas and accuracies of the single runs, by kind.
    """

    row: str
    audited: int
    finished: int
    test: Spread | None
    areas: Mapping[str, Spread]
    own: Mapping[str, tuple[tuple[float, float], ...]]


def kinds(comparison: Comparison) -> tuple[str, ...]:
    """The kinds of targets that were attacked in any run, in the order of the columns; empty without audits."""
    there = {one.kind for result in comparison.results.values() for one in result.attacks}
    return tuple(kind for kind in NAMES if kind in there)


def audit_lines(comparison: Comparison, data: str) -> tuple[AuditLine, ...]:
    """A line for each row on a data set; empty where none of its runs was audited."""
    lines = []
    for row in comparison.rows:
        runs = [comparison.results[row.name, data, seed] for seed in comparison.seeds]
        audited = [run for run in runs if run.summary is not None and run.attacks]
        pairs: dict[str, list[tuple[float, float]]] = {}
        areas: dict[str, list[float]] = {}
        tests = []
        for run in audited:
            test = run.summary.test_accuracy if run.summary is not None else None
            tests += [] if test is None else [test]
            for one in run.attacks:
                areas.setdefault(one.kind, []).append(one.auc)
                if test is not None:
                    pairs.setdefault(one.kind, []).append((one.auc, test))
        lines.append(
            AuditLine(
                row.name,
                len(audited),
                sum(run.summary is not None for run in runs),
                spread(tests),
                {kind: found for kind, values in areas.items() if (found := spread(values)) is not None},
                {kind: tuple(values) for kind, values in pairs.items()},
            )
        )
    return tuple(lines) if any(line.audited for line in lines) else ()
