"""The files that a comparison leaves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import tomli_w

from fedtag.common.errors import RunError
from fedtag.common.wording.scoring import ACCURACY
from fedtag.comparison.execution import read_cpu_seconds
from fedtag.comparison.matrix import RUNS, Matrix
from fedtag.comparison.study import REFERENCES, RowTable, Study, left_out, row_settings
from fedtag.runs.settings import resolve
from fedtag.server.comparison.audit_tables import audit_csv
from fedtag.server.comparison.audits import kinds
from fedtag.server.comparison.charts import audit_chart, of_all_data, rounds_chart, score_chart, time_chart
from fedtag.server.comparison.page import render_comparison
from fedtag.server.comparison.results import Comparison, Row, read_result
from fedtag.server.comparison.tables import (
    classes_csv,
    convergence_csv,
    costs_csv,
    costs_markdown,
    markdown,
    scores_csv,
    summary_csv,
)
from fedtag.server.pages.chart import Chart
from fedtag.server.tracking.durable_files import LOCK, encoded, write_atomically

METRIC = "evaluation.metric"
STUDY = "study.toml"
MARK = "# Written by fedtag compare, which overwrites it."
TABLES = ("comparison.md", "comparison.csv")
PAGE = "comparison.html"
FIGURES: Mapping[str, Callable[[Comparison, str], Chart | None]] = {
    "comparison": score_chart,
    "convergence": rounds_chart,
    "time": time_chart,
    "privacy": audit_chart,
}
"""The charts of a data set, by the names of their files."""
GRAPHS = ".graphs"
"""Folder of the graphs that were in memory alone, which are there before anything else."""


def comparison_of(matrix: Matrix) -> Comparison:
    """The results of all cells, as far as they have come."""
    study = matrix.study
    found = [
        read_result(cell.row, cell.data, cell.seed, matrix.home, cell.path, read_cpu_seconds(cell.path))
        for cell in matrix.cells
    ]
    return Comparison(
        title=study.title,
        source=study.source,
        settings=study.settings,
        rows=tuple(placed(row, study) for row in study.rows),
        data=matrix.data,
        seeds=study.seeds,
        baseline=matrix.baseline,
        axis=study.axis,
        metric=str(study.settings.get(METRIC, ACCURACY)),
        note=about_references(study),
        results={(one.row, one.data, one.seed): one for one in found},
    )


def about_references(study: Study) -> str:
    """Which rows are without settings that the others share; empty if none is.

    Args:
        study: whose rows include the references.
    """
    own = left_out(study.settings).items()
    names = [
        row.name for row in study.rows if row.name in REFERENCES.values() and own <= row.settings.items()
    ]
    if not own or not names:
        return ""
    return (
        f"The references ({', '.join(names)}) run with the default aggregation and privacy, whatever the other rows "
        "share of these settings."
    )


def placed(row: RowTable, study: Study) -> Row:
    """A row of the tables; it has a place on the axis if it sets what is along it."""
    place = row.settings.get(study.axis)
    series = row.series or resolve(row_settings(study.settings, row)).method
    return Row(row.name, row.settings, None if place is None else float(place), series)


def check_home(home: Path) -> None:
    """Refuse a folder in which a comparison would overwrite what no comparison wrote; writes nothing.

    Raises:
        RunError: the folder holds something else.
    """
    if not home.exists():
        return
    if not home.is_dir():
        raise RunError(f"{home} is a file; choose another out=")
    there = {entry.name for entry in home.iterdir()} - {LOCK, GRAPHS}
    if there and STUDY not in there:
        raise RunError(f"{home} is not empty and holds no comparison; choose another out=")
    if there and not is_marked(home / STUDY):
        raise RunError(
            f"{home / STUDY} was not written by this version of fedtag compare, which would overwrite it; choose "
            "another out="
        )
    foreign = [name for name in TABLES if name in there] if RUNS not in there else []
    if foreign:
        raise RunError(
            f"{home} holds {' and '.join(foreign)} but no {RUNS}, of which they would come; choose another out=, or "
            "move them away"
        )


def is_marked(study: Path) -> bool:
    """Whether compare wrote a study file."""
    return study.is_file() and study.read_bytes().startswith(MARK.encode())


def write_study(matrix: Matrix) -> None:
    """Write study.toml, by which the comparison can be repeated."""
    text = tomli_w.dumps(matrix.study.model_dump(by_alias=True))
    write_atomically(matrix.home / STUDY, encoded(f"{MARK}\n{text}"))


def write_outcome(matrix: Matrix, comparison: Comparison, figures: bool = False) -> None:
    """Write tables and page, and if asked the figures for print, each in one piece."""
    texts: Mapping[str, str] = {
        "comparison.md": markdown(comparison, figures),
        "comparison.csv": scores_csv(comparison),
        "classes.csv": classes_csv(comparison),
        "summary.csv": summary_csv(comparison),
        "convergence.csv": convergence_csv(comparison),
        "costs.md": costs_markdown(comparison, figures),
        "costs.csv": costs_csv(comparison),
        PAGE: render_comparison(comparison),
    }
    for name, text in texts.items():
        write_atomically(matrix.home / name, encoded(text))
    if kinds(comparison):
        write_atomically(matrix.home / "privacy.csv", encoded(audit_csv(comparison)))
    else:
        (matrix.home / "privacy.csv").unlink(missing_ok=True)
    # What was drawn of other results would pass for a picture of these.
    for name in FIGURES:
        for path in matrix.home.glob(f"{name}.*"):
            if path.suffix in (".png", ".svg"):
                path.unlink()
    if figures:
        write_figures(matrix.home, comparison)


def write_figures(home: Path, comparison: Comparison) -> None:
    """Write each kind of chart as one PNG and one SVG file for print, a panel for each data set."""
    # matplotlib takes a second to import, and is needed for print alone.
    from fedtag.server.pages.figures import PAGE as BOTH_COLUMNS
    from fedtag.server.pages.figures import write_figure

    for name, chart in FIGURES.items():
        charts = of_all_data(chart, comparison)
        if charts:
            write_figure(charts, home / name, BOTH_COLUMNS)
