"""Tables of what audits of the runs of a comparison found."""

from __future__ import annotations

from fedtag.server.comparison.attacked import NAMES
from fedtag.server.comparison.audits import READING, AuditLine, audit_lines, kinds
from fedtag.server.comparison.cells import NOTHING, csv_text, markdown_table, percents
from fedtag.server.comparison.results import Comparison, Result
from fedtag.server.comparison.statistics import Spread
from fedtag.server.tracking.markdown import cell

COLUMNS = ("row", "data", "seed", "target", "attack", "auc", "low", "high", "attacked_test", "test", "run")


def audit_headings(comparison: Comparison) -> list[str]:
    """The headings of the columns after the first."""
    return ["audited", "test", *(f"AUC, {NAMES[kind]}" for kind in kinds(comparison))]


def audit_cells(line: AuditLine, found: tuple[str, ...]) -> list[str]:
    """How many runs were audited, their accuracy, and the area of each kind of target."""
    audited = str(line.audited) if line.audited == line.finished else f"{line.audited} of {line.finished}"
    return [audited, percents(line.test), *(area(line.areas.get(kind)) for kind in found)]


def area(found: Spread | None) -> str:
    """Mean ± standard deviation of areas."""
    if found is None:
        return NOTHING
    return f"{found.mean:.3f}" + ("" if found.std is None else f" ± {found.std:.3f}")


def audit_markdown(comparison: Comparison, data: str) -> list[str]:
    """The table of a data set below those of its scores; nothing where none of its runs was audited."""
    lines = audit_lines(comparison, data)
    if not lines:
        return []
    found = kinds(comparison)
    cells = [[cell(line.row), *audit_cells(line, found)] for line in lines]
    return ["### Membership inference", markdown_table(["row", *audit_headings(comparison)], cells)]


def audit_reading(comparison: Comparison, figures: bool) -> list[str]:
    """The plot, where it was drawn, and how the areas are to be read; nothing without audits."""
    if not kinds(comparison):
        return []
    drawn = ["![Test accuracy against the area of the strongest attack](privacy.png)"] if figures else []
    return [*drawn, READING]


def audit_csv(comparison: Comparison) -> str:
    """One line a run and target: the area of the strongest attack and its interval, beside accuracies as fractions."""
    return csv_text(COLUMNS, (record for result in comparison.ordered() for record in audit_records(result)))


def audit_records(result: Result) -> list[dict[str, object]]:
    """The lines of a run."""
    test = result.summary.test_accuracy if result.summary is not None else None
    run = {"row": result.row, "data": result.data, "seed": result.seed, "test": test, "run": result.run}
    return [
        {
            **run,
            "target": NAMES[one.kind],
            "attack": one.attack,
            "auc": one.auc,
            "low": one.low,
            "high": one.high,
            "attacked_test": one.accuracy,
        }
        for one in result.attacks
    ]
