"""The HTML report: one self-contained page for one or several runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from fedtag.common.errors import RunError
from fedtag.common.wording.scoring import METRICS
from fedtag.server.pages.chart_block import ChartBlock
from fedtag.server.pages.environment import template
from fedtag.server.report.account import Reference, account, difference
from fedtag.server.report.charts import charts_of, overview_charts
from fedtag.server.report.page_template import TEMPLATE
from fedtag.server.report.run_view import RunView, view_run
from fedtag.server.tracking.durable_files import write_atomically

References = Mapping[Path, Sequence[Reference]]


def write_report(run_dirs: Sequence[Path], out: Path, references: References | None = None) -> list[RunView]:
    """Write the report of one or several run directories, finished or not.

    Args:
        run_dirs: at least one; the first is the first in every table.
        out: the HTML file; replaced atomically.
        references: beside which runs on the same data each of them is shown.

    Returns:
        what it shows of each run.

    Raises:
        RunError: no directory was given, one is no run directory, or a file in it is damaged.
    """
    if not run_dirs:
        raise RunError("a report of no run was asked for; name at least one run directory")
    out.parent.mkdir(parents=True, exist_ok=True)
    views = [view_run(path, name, len(run_dirs)) for path, name in named(run_dirs)]
    write_atomically(out, render_report(views, references, out.parent).encode("utf-8", "replace"))
    return views


def render_report(runs: Sequence[RunView], references: References | None = None, here: Path = Path()) -> str:
    """The page as text, for a file in the folder `here`; equal runs give equal text."""
    beside = [(references or {}).get(run.path, ()) for run in runs]
    return template(TEMPLATE).render(
        runs=runs,
        accounts=[account(run, own) for run, own in zip(runs, beside, strict=True)],
        references=beside,
        overview=overview_charts(runs),
        charts=[charts_of(run, place) for place, run in enumerate(runs)],
        block=ChartBlock([run.client_record for run in runs]),
        metrics=METRICS,
        difference=difference,
        several=len(runs) > 1,
        here=here,
    )


def named(run_dirs: Sequence[Path]) -> list[tuple[Path, str]]:
    """Each directory with its name: the shortest end of its path that tells all of them apart."""
    parts = [path.resolve().parts for path in run_dirs]
    different, longest = len(set(parts)), max(map(len, parts))
    length = next(n for n in range(1, longest + 1) if len({own[-n:] for own in parts}) == different)
    return [(path, "/".join(own[-length:])) for path, own in zip(run_dirs, parts, strict=True)]
