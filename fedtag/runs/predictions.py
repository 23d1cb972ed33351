"""Predictions of a run for a graph in memory, a folder, or one of the run's own sites."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path

import pandas as pd
import pyarrow as pa

from fedtag.client.data.writing import write_folder
from fedtag.client.prediction.table import table_batches, table_schema
from fedtag.common.errors import ConfigError, RunError
from fedtag.graph.graph import Graph
from fedtag.runs import prediction
from fedtag.server.tracking.release import read_release
from fedtag.server.tracking.run_directory import SITES, RunDirectory

Folder = str | Path


def prediction_frame(
    path: Path, graph: Graph | Folder | None, site: str | None, device: str, evidence: bool
) -> pd.DataFrame:
    """A row a node; arguments and columns as of `fedtag.predict`."""
    found = predicted(path, graph, site, device, evidence)
    schema = table_schema(found.data, found.facts)
    batches = table_batches(found.data, found.prediction, found.scoring, schema)
    frame: pd.DataFrame = pa.Table.from_batches(batches, schema).to_pandas()
    return frame


def predicted(
    path: Path, graph: Graph | Folder | None, site: str | None, device: str, evidence: bool
) -> prediction.Predicted:
    """What comes of a released model on a graph; arguments as of `fedtag.predict`."""
    if graph is None and site is None:
        raise ConfigError("name a graph to predict for, or with site= one of the run's sites")
    own = None if site is None else site_folder(path, site)
    with ExitStack() as stack:
        if isinstance(graph, Graph) and graph.source and Path(graph.source).is_dir():
            folder = Path(graph.source)
        elif isinstance(graph, Graph):
            made = stack.enter_context(tempfile.TemporaryDirectory(prefix="fedtag-"))
            folder = write_folder(graph.text_graph, Path(made) / "graph")
        elif graph is not None:
            folder = Path(graph)
        else:
            assert own is not None
            folder = own
        workspace = None if own is None or not _keeps(path) else own
        return prediction.predict(path, folder, None, device, evidence, site, workspace)


def _keeps(path: Path) -> bool:
    """Whether sites predict with something of their own by the model of a run."""
    return prediction.keeps(read_release(RunDirectory.open_release(path)).config)


def site_names(path: Path) -> tuple[str, ...]:
    """Of the simulated sites of a run."""
    return tuple(sorted(one.parent.name for one in (path / SITES).glob("*/meta.json")))


def site_folder(path: Path, site: str) -> Path:
    """The folder of a simulated site.

    Raises:
        RunError: the run has no such site here.
    """
    sites = site_names(path)
    if site not in sites:
        there = ", ".join(sites) or "none, since sites of a deployment are elsewhere"
        raise RunError(f"{RunDirectory.open(path).path} has no site '{site}'; it has {there}")
    return path / SITES / site
