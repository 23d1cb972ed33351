"""What a comparison leaves: its files, and the table on the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import tomli_w
from rich.table import Table
from rich.text import Text

from fedtag.common.errors import RunError
from fedtag.comparison.execution import read_cpu_seconds
from fedtag.comparison.matrix import RUNS, Matrix
from fedtag.comparison.study import REFERENCES, RowTable, Study, left_out
from fedtag.deploy.terminal.console import notices, results, say
from fedtag.runs.settings import resolve
from fedtag.server.comparison.audit_plots import audit_png
from fedtag.server.comparison.audit_tables import audit_csv
from fedtag.server.comparison.audits import kinds
from fedtag.server.comparison.page import render_comparison
from fedtag.server.comparison.plots import convergence_png, score_png, time_png
from fedtag.server.comparison.results import Comparison, Row, lines, read_result
from fedtag.server.comparison.tables import (
    convergence_csv,
    costs,
    costs_csv,
    costs_markdown,
    markdown,
    scores,
    scores_csv,
    seeds_done,
    summary_csv,
)
from fedtag.server.tracking.durable_files import LOCK, encoded, write_atomically

STUDY = "study.toml"
MARK = "# Written by fedtag compare, which overwrites it."
TABLES = ("comparison.md", "comparison.csv")
PAGE = "comparison.html"


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
    series = row.series or resolve({**study.settings, **row.settings}).method
    return Row(row.name, row.settings, None if place is None else float(place), series)


def check_home(home: Path) -> None:
    """Refuse a folder in which a comparison would overwrite what no comparison wrote; writes nothing.

    Raises:
        RunError: the folder holds something else.
    """
    if not home.exists():
        return
    if not home.is_dir():
        raise RunError(f"{home} is a file; choose another --out")
    there = {entry.name for entry in home.iterdir()} - {LOCK}
    if there and STUDY not in there:
        raise RunError(f"{home} is not empty and holds no comparison; choose another --out")
    if there and not is_marked(home / STUDY):
        raise RunError(
            f"{home / STUDY} was not written by this version of fedtag compare, which would overwrite it; choose "
            "another --out"
        )
    foreign = [name for name in TABLES if name in there] if RUNS not in there else []
    if foreign:
        raise RunError(
            f"{home} holds {' and '.join(foreign)} but no {RUNS}, of which they would come; choose another --out, or "
            "move them away"
        )


def is_marked(study: Path) -> bool:
    """Whether compare wrote a study file."""
    return study.is_file() and study.read_bytes().startswith(MARK.encode())


def write_study(matrix: Matrix) -> None:
    """Write study.toml, by which the comparison can be repeated."""
    text = tomli_w.dumps(matrix.study.model_dump(by_alias=True))
    write_atomically(matrix.home / STUDY, encoded(f"{MARK}\n{text}"))


def write_outcome(matrix: Matrix, comparison: Comparison) -> None:
    """Write tables, plots and page, each in one piece."""
    texts: Mapping[str, str] = {
        "comparison.md": markdown(comparison),
        "comparison.csv": scores_csv(comparison),
        "summary.csv": summary_csv(comparison),
        "convergence.csv": convergence_csv(comparison),
        "costs.md": costs_markdown(comparison),
        "costs.csv": costs_csv(comparison),
        PAGE: render_comparison(comparison),
    }
    for name, text in texts.items():
        write_atomically(matrix.home / name, encoded(text))
    write_atomically(matrix.home / "comparison.png", score_png(comparison))
    write_atomically(matrix.home / "convergence.png", convergence_png(comparison))
    write_atomically(matrix.home / "time.png", time_png(comparison))
    if kinds(comparison):
        write_atomically(matrix.home / "privacy.csv", encoded(audit_csv(comparison)))
        write_atomically(matrix.home / "privacy.png", audit_png(comparison))
    else:
        for name in ("privacy.csv", "privacy.png"):
            (matrix.home / name).unlink(missing_ok=True)


def show_outcome(comparison: Comparison, home: Path) -> None:
    """The table of each data set, and where the rest is."""
    console = results()
    every = list(lines(comparison))
    for data in comparison.data:
        table = Table(
            title=Text(data),
            title_justify="left",
            box=None,
            pad_edge=False,
            header_style="dim",
            title_style="bold",
        )
        table.add_column("row", no_wrap=True)
        headings = (
            "seeds",
            "val",
            "test",
            "difference",
            "macro-F1",
            "calibration",
            "up/round",
            "down/round",
            "round",
        )
        for name in headings:
            table.add_column(name, justify="right", no_wrap=True)
        for line in every:
            if line.data == data:
                table.add_row(
                    Text(line.row), seeds_done(line), *scores(line, comparison.baseline), *costs(line)[:3]
                )
        console.print(table)
        console.print()
    say(
        console,
        f"mean ± standard deviation over seeds {', '.join(map(str, comparison.seeds))}, in percent; difference in test "
        f"accuracy to {comparison.baseline} with its 95% interval (Student's t, paired by seed)",
        "dim",
    )
    if comparison.note:
        say(console, comparison.note, "dim")
    for name in ("comparison.md", "comparison.csv", "comparison.png", "convergence.png", PAGE):
        say(console, str(home / name))


def show_failures(failures: Mapping[str, str]) -> None:
    """Why cells failed, those with the same reason together."""
    by_reason: dict[str, list[str]] = {}
    for name, reason in failures.items():
        by_reason.setdefault(reason, []).append(name)
    console = notices()
    for reason, names in by_reason.items():
        say(console, f"failed: {'; '.join(names)}", "red")
        say(console, f"  {reason}", "red")
    say(console, "the same command tries again what failed and keeps the rest", "yellow")
