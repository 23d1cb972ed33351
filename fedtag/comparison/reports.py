"""Reports of runs, beside the references that are there, and their figures for print."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from fedtag.common.config import flatten
from fedtag.common.errors import RunError
from fedtag.common.wording.scoring import chosen_by
from fedtag.comparison.outcome import STUDY
from fedtag.comparison.study import REFERENCES
from fedtag.server.comparison.results import score
from fedtag.server.report.account import Reference
from fedtag.server.report.charts import every_chart
from fedtag.server.report.page import write_report
from fedtag.server.tracking.run_directory import RunDirectory, is_run

REPORT, REPORTS = "report.html", "reports.html"
FIGURES = "figures"
SAME = ("seed", "data.source", "data.partition", "data.split", "data.overlap", "data.dirichlet-alpha")
"""Settings that references share with the run beside them."""
MOST_READ = 200
"""So many neighbouring runs are looked at, those that were written last."""


def report(runs: Sequence[Path], out: Path | None = None, figures: bool = False) -> tuple[Path, Path | None]:
    """Write the page of runs, each beside its references.

    Args:
        runs: at least one run directory, finished or not.
        out: the HTML file; if None, report.html of the run where it is one, and of several reports.html in the current
            folder, since none of them is the others'.
        figures: whether the charts are also written for print, as PNG and SVG in the folder `figures` beside the page,
            those of several runs each in a folder of its name there.

    Returns:
        where the page lies, and the figures.

    Raises:
        RunError: one is no run directory, or a file in it is damaged.
    """
    place = out or (runs[0] / REPORT if len(runs) == 1 else Path(REPORTS))
    views = write_report(runs, place, {run: references_of(run) for run in runs})
    if not figures:
        return place, None
    # matplotlib takes a second to import, and is needed for print alone.
    from fedtag.server.pages.figures import write_figures

    folder = place.parent / FIGURES
    for view in views:
        write_figures(every_chart(view), folder if len(views) == 1 else folder / view.name)
    return place, folder


def references_of(run: Path) -> list[Reference]:
    """Finished runs of the reference methods on the same data, division and seed that lie beside a run.

    Beside it are the runs in the same folder and, in a comparison, those of its other rows.
    """
    if not is_run(run):
        return []
    own = RunDirectory.open(run)
    config = own.read_config()
    wanted = flatten(config)
    same = _same(own, wanted)
    found: dict[str, Reference] = {}
    for path in _neighbours(run.resolve()):
        other = RunDirectory.open(path)
        try:
            summary = other.read_summary()
            if summary is None or summary.method not in REFERENCES:
                continue
            settings = flatten(other.read_config())
            if _same(other, settings) != same:
                continue
        except (RunError, OSError):
            # What is wrong with a neighbour is no matter of this run.
            continue
        # A method that pools all data has one client, whatever the others have.
        if settings.get("clients") in (1, wanted.get("clients")):
            name = REFERENCES[summary.method]
            found.setdefault(name, Reference(name, score(summary, "test", chosen_by(config)), summary.rounds))
    return [found[name] for name in REFERENCES.values() if name in found]


def _neighbours(run: Path) -> Iterator[Path]:
    """Run directories beside one, the newest first."""
    beside = [*run.parent.iterdir()]
    if len(run.parents) > 3 and (run.parents[3] / STUDY).is_file():
        beside += run.parents[2].glob(f"*/{run.parent.name}/{run.name}")
    others = set[Path]()
    for path in beside:
        with suppress(OSError):
            others |= {path} if path != run and is_run(path) else set()
    yield from sorted(others, key=lambda path: (-path.stat().st_mtime, path))[:MOST_READ]


def _same(run: RunDirectory, settings: Mapping[str, Any]) -> Mapping[str, Any]:
    return {key: settings.get(key) for key in SAME} | dict(run.read_places())
