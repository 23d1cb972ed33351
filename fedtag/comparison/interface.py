"""Comparisons in Python."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from fedtag.common.config.forms import plain
from fedtag.common.config.places import SEPARATOR
from fedtag.common.errors import ConfigError, RunError
from fedtag.common.logs import LOGGER
from fedtag.common.methods.spec import METHODS, PRESETS
from fedtag.common.settings.registry import Spec
from fedtag.common.wording.scoring import METRICS, column
from fedtag.comparison.course import Compared
from fedtag.comparison.course import compare as carried_out
from fedtag.comparison.matrix import Cell
from fedtag.comparison.outcome import GRAPHS, PAGE, check_home
from fedtag.comparison.progress import ROUNDS, Note, Step
from fedtag.comparison.request import TITLE
from fedtag.comparison.study import REFERENCES, checked_study
from fedtag.graph.graph import Graph
from fedtag.runs.bars import bar
from fedtag.runs.interface import graphs_of
from fedtag.runs.listing import register
from fedtag.runs.own_code import is_here
from fedtag.runs.places import named_folder, places_told
from fedtag.runs.run import Run
from fedtag.runs.settings import ARGUMENTS, further_settings
from fedtag.runs.simulation import folder_name
from fedtag.server.comparison.charts import of_all_data, rounds_chart, score_chart
from fedtag.server.comparison.results import Line, lines, score

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HOME = Path("runs") / "comparison"


class ComparisonResult:
    """What a comparison came to: a table, plots, a page and its runs."""

    def __init__(self, made: Compared) -> None:
        self._made = made

    @property
    def path(self) -> Path:
        """The folder of all runs and tables."""
        return self._made.home

    @property
    def page(self) -> Path:
        """The page with tables and plots, which needs nothing beside it."""
        return self.path / PAGE

    @property
    def failures(self) -> Mapping[str, str]:
        """Why runs failed, by their names; the others count."""
        return self._made.failures

    @property
    def table(self) -> pd.DataFrame:
        """A row for each method and data set, over the seeds.

        Returns:
            the index are method and data; columns seeds, how many finished; every metric on test nodes (test_accuracy,
            test_macro_f1, test_balanced_accuracy, test_auroc, test_auprc), and on validation nodes the one that
            `evaluation.metric` names (val_accuracy), with their standard deviations `*_std` (None for one seed), in
            [0, 1]; difference, the mean difference in that metric on test nodes to the baseline of the same seeds.
        """
        metric = self._made.comparison.metric
        rows = [line_row(one, metric) for one in lines(self._made.comparison)]
        return pd.DataFrame(rows).set_index(["method", "data"])

    @property
    def runs(self) -> pd.DataFrame:
        """A row a run: its place in the comparison, its metric on test nodes and its directory."""
        comparison = self._made.comparison
        found = [
            (
                one.row,
                one.data,
                one.seed,
                one.summary and score(one.summary, "test", comparison.metric),
                str(self.path / one.run),
            )
            for one in comparison.ordered()
        ]
        return pd.DataFrame(
            found, columns=["method", "data", "seed", f"test_{column(comparison.metric)}", "path"]
        )

    @property
    def classes(self) -> pd.DataFrame:
        """A row for each run and class: method, data, seed, class, and as in `Run.classes` its scores on test nodes."""
        found = [
            {"method": one.row, "data": one.data, "seed": one.seed, **entry}
            for one in self._made.comparison.ordered()
            for entry in (one.summary.test_classes if one.summary else None) or ()
        ]
        return pd.DataFrame(found)

    def run(self, method: str, seed: int, data: str | None = None) -> Run:
        """One of the runs.

        Raises:
            ConfigError: there is none such.
        """
        for one in self._made.comparison.ordered():
            if (one.row, one.seed) == (method, seed) and data in (None, one.data):
                return Run(self.path / one.run)
        raise ConfigError(f"no run of '{method}' with seed {seed}: see the table `runs`")

    def plot(self, over: str = "methods", metric: str | None = None) -> Figure:
        """A metric of all methods on test nodes with its standard deviation.

        Args:
            over: "methods" or "rounds".
            metric: a value of `evaluation.metric`; the one of the comparison where None.

        Raises:
            ConfigError: there is none such.
            RunError: no run has scores.
        """
        comparison = self._made.comparison
        if metric is not None and metric not in METRICS:
            raise ConfigError(f"metric = '{metric}': use one of {', '.join(METRICS)}")
        comparison = replace(comparison, metric=metric or comparison.metric)
        if over not in ("methods", "rounds"):
            raise ConfigError(f"over = '{over}': use methods or rounds")
        # matplotlib takes a second to import, and is needed for figures alone.
        from fedtag.server.pages.figures import PAGE, figure_of

        chart = rounds_chart if over == "rounds" else score_chart
        charts = of_all_data(chart, comparison)
        if not charts:
            raise RunError(f"{self.path}: no run has scores over {over}; there is nothing to draw")
        return figure_of(charts, PAGE)

    def __repr__(self) -> str:
        return f"<fedtag.ComparisonResult {str(self.path)!r}>\n{self.table}"

    def _repr_html_(self) -> str:
        html: str = self.table.to_html(float_format="{:.4f}".format)
        return html


def line_row(one: Line, metric: str) -> dict[str, Any]:
    """A row of `ComparisonResult.table`."""
    row: dict[str, Any] = {"method": one.row, "data": one.data, "seeds": one.finished}
    spreads = {f"test_{column(name)}": found for name, found in one.metrics.items()}
    spreads[f"val_{column(metric)}"] = one.val
    for name, found in spreads.items():
        row |= {name: found and found.mean, f"{name}_std": found and found.std}
    return {**row, "difference": one.difference and one.difference.mean}


def compare(
    graph: Graph | Sequence[Graph],
    methods: Sequence[str | Spec],
    *,
    seeds: int | Iterable[int] = 3,
    clients: int | None = None,
    rounds: int | None = None,
    settings: Mapping[str, Any] | None = None,
    references: bool = False,
    out: str | Path | None = None,
    jobs: int = 1,
    progress: bool = True,
) -> ComparisonResult:
    """Run methods with several seeds and put them into one table, as `fedtag compare` does.

    What has finished in the folder is used again, and what was stopped goes on.

    Args:
        graph: one that is divided over `clients`, or one for each client.
        methods: names of methods or presets, or specifications as objects.
        seeds: how many, from 0 on, or which.
        clients, rounds: the settings of these names.
        settings: further ones of all runs, by dotted key or nested.
        references: also the methods that every comparison has, where they are not among the methods.
        out: folder of all runs and tables; runs/comparison where None.
        jobs: runs at once; from 2 on each has a process of its own, to which no object can go.
        progress: whether a bar shows how many runs are done.

    Raises:
        ConfigError, DataError: settings or data are at fault.
        RunError: a run that is there has other settings or other data.
    """
    if isinstance(methods, str) or not methods:
        raise ConfigError(f"methods={methods!r}: give a list of names or specifications, one at least")
    names = [one if isinstance(one, str) else register(one) for one in methods]
    objects = [one for one in names if any(is_here(registry, one) for registry in (METHODS, PRESETS))]
    if objects and jobs > 1:
        here = ", ".join(objects)
        raise ConfigError(
            f"jobs = {jobs}: {here} lives in this process alone; use jobs=1, or install a package that brings it"
        )
    graphs = graphs_of(graph)
    home = (named_folder(out) or HOME).absolute()
    with places_told(home):
        check_home(home)
    shared = {"clients": clients if isinstance(graph, Graph) else len(graphs), "rounds": rounds}
    with places_told(home):
        source = sources_of(graphs, home)
    study = {
        "title": TITLE,
        "seeds": tuple(map(plain, seeds)) if isinstance(seeds, Iterable) else plain(seeds),
        "data": (source,),
        "settings": {
            **{key: value for key, value in shared.items() if value is not None},
            **further_settings(settings, {"method": "methods=", "seed": "seeds=", **ARGUMENTS}),
        },
        "rows": [{"name": name, "settings": {"method": name}} for name in names],
        "references": tuple(REFERENCES) if references else (),
    }
    wanted = checked_study(study, "fedtag.compare")
    return ComparisonResult(carried_out(wanted, home, jobs, lambda matrix, left: bars(left, progress)))


def sources_of(graphs: Sequence[Graph], home: Path) -> str:
    """Where the graphs of a comparison lie, in whose folder those are written that are in memory alone.

    A name says nothing about where something may be written, and a folder has its graph's digest in its path, so that
    other data are never put in the place of those of runs that are there.
    """
    several = len(graphs) > 1
    found = []
    for place, graph in enumerate(graphs):
        name = folder_name(graph.name).strip(".") or "graph"
        folder = home / GRAPHS / digest_of(graph)[:12] / (f"{place}-{name}" if several else name)
        found.append(graph.source or str(folder if folder.is_dir() else graph.to_folder(folder)))
    return SEPARATOR.join(found)


def digest_of(graph: Graph) -> str:
    """SHA-256 (hex) of what a graph holds."""
    digest = hashlib.sha256(repr((graph.name, graph.classes, graph.text_graph.directed)).encode())
    for frame in (graph.nodes, graph.edges):
        digest.update(pd.util.hash_pandas_object(frame).to_numpy().tobytes())
    features = graph.text_graph.features
    digest.update(b"" if features is None else features.tobytes())
    return digest.hexdigest()


@contextmanager
def bars(left: Sequence[Cell], wanted: bool) -> Iterator[CellBar]:
    """A bar over all rounds of the runs that are left."""
    with bar(wanted, "round", sum(cell.config.rounds for cell in left)) as drawn_bar:
        yield CellBar(drawn_bar)


class CellBar:
    """One bar for all runs; it names the run that reports."""

    def __init__(self, drawn_bar: Any) -> None:
        self.bar = drawn_bar
        self.done: dict[Cell, int] = {}

    def begin(self, cell: Cell) -> None:
        self.bar.set_postfix_str(cell.name)

    def report(self, cell: Cell, said: Step | Note) -> None:
        if isinstance(said, Step) and said.what == ROUNDS:
            self.bar.update(said.done - self.done.get(cell, 0))
            self.done[cell] = said.done

    def end(self, cell: Cell, error: str | None) -> None:
        if error is not None:
            LOGGER.warning("%s failed: %s", cell.name, error)
