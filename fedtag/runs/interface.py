"""Runs in Python: start one, open one, predict with one."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa

from fedtag.client.data.writing import write_folder
from fedtag.client.prediction.table import table_batches, table_schema
from fedtag.common.config import flatten
from fedtag.common.config.places import SEPARATOR, SOURCE
from fedtag.common.errors import ConfigError, DataError, RunError
from fedtag.common.methods.spec import METHODS
from fedtag.common.settings.registry import Spec
from fedtag.graph.graph import Graph
from fedtag.runs import course, prediction
from fedtag.runs.bars import shown
from fedtag.runs.listing import register
from fedtag.runs.run import Run
from fedtag.runs.settings import resolve
from fedtag.server.tracking.release import read_release
from fedtag.server.tracking.run_directory import SITES, RunDirectory

Folder = str | Path


def simulate(
    graph: Graph | Sequence[Graph],
    method: str | Spec = "dance",
    *,
    clients: int | None = None,
    rounds: int | None = None,
    seed: int | None = None,
    settings: Mapping[str, Any] | None = None,
    device: str | None = None,
    start: Run | Folder | None = None,
    out: Folder | None = None,
    progress: bool = True,
) -> Run:
    """Run a federation on this machine, as `fedtag simulate` does: the same arguments give the same model.

    Ctrl-C leaves a run that `open_run(...).resume()` goes on with.

    Args:
        graph: one that is divided over `clients`; or one for each client, such as those of `Graph.partition`.
        method: name of a method or preset, or its specification as an object, which then lives for this process.
        clients, rounds, seed, device: the settings of these names; their defaults where None.
        settings: further ones, by dotted key or nested; they count more than the arguments above. `fedtag.settings`
            lists them.
        start: a run whose released model training goes on from, with other data, sites or settings.
        out: the run directory; the next free one under runs/ where None.
        progress: whether a bar shows where the run stands.

    Raises:
        ConfigError, DataError: settings or data are at fault; nothing is left then.
        RunError: the folder is taken.
        QuorumError: too few clients answered; the run can go on later.

    Example:
        >>> import fedtag
        >>> run = fedtag.simulate(fedtag.Graph.built_in(), "fedavg", clients=3, rounds=2, seed=0)
        >>> len(run.rounds)
        2
    """
    graphs = [graph] if isinstance(graph, Graph) else list(graph)
    if not graphs or not all(isinstance(one, Graph) for one in graphs):
        raise ConfigError("graph: give a fedtag.Graph, or a list with one for each client")
    name = method if isinstance(method, str) else register(method)
    given = {"method": name, "clients": clients, "rounds": rounds, "seed": seed, "device": device}
    given |= {
        "out": None if out is None else str(out),
        "clients": clients if len(graphs) == 1 else len(graphs),
    }
    if len(graphs) > 1 and clients not in (None, len(graphs)):
        raise ConfigError(
            f"clients = {clients}: {len(graphs)} graphs are {len(graphs)} clients, leave it out"
        )
    # Faults of the data come before those of settings, and before anything is written.
    read = [one.text_graph for one in graphs]
    if bare := [one.name for one in read if not one.classes]:
        raise DataError(
            f"{', '.join(bare)}: there are no classes to learn, name the column of labels with label="
        )
    named = all(one.source for one in graphs)
    source = SEPARATOR.join(one.source if named else one.name for one in graphs)
    flat = {key: value for key, value in given.items() if value is not None}
    config = resolve({**flat, SOURCE: source, **flatten(dict(settings or {}))})
    with shown(progress) as bar:
        parent = start.path if isinstance(start, Run) else None if start is None else Path(start)
        return Run(course.start(config, progress=bar, graphs=() if named else read, parent=parent))


def open_run(path: Folder, *specs: Spec) -> Run:
    """A run directory, finished or not, of `simulate`, the command line or a deployment.

    Args:
        path: the directory.
        specs: what it is made of and no package brings, as it was handed over as objects.

    Raises:
        RunError: it is no run.
        ConfigError: its method is not there; the error names it.
    """
    for spec in specs:
        register(spec)
    run = Run(path)
    name = run.settings.get("method")
    if isinstance(name, str):
        METHODS.get(name)
    return run


def predict(
    run: Run | Folder,
    graph: Graph | Folder | None = None,
    *,
    site: str | None = None,
    device: str = "auto",
    evidence: bool = True,
) -> pd.DataFrame:
    """Predict the class of every node with a released model.

    Args:
        run: whose model it is; also a folder with model.safetensors and model.json alone.
        graph: nodes that need not have been in any training; labels, splits and classes may be absent in a folder.
        site: predict for a simulated site of the run, with its own graph if none is given, and with what it kept to
            itself in the run and predicts by.
        device: auto, cpu, cuda, ...
        evidence: also what each prediction rests on, where the method selects texts.

    Returns:
        a row a node: node_id, prediction, confidence, the probability of each class (`p:CLASS`), scoring, label,
        split, evidence, neighbours, as `fedtag predict` writes them.

    Raises:
        RunError: there is no released model, or no such site.
        DataError: the graph is at fault, or the model was made for other classes or features.
        ConfigError: neither graph nor site.
    """
    path = run.path if isinstance(run, Run) else Path(run)
    found = predicted(path, graph, site, device, evidence)
    schema = table_schema(found.data, found.facts)
    batches = table_batches(found.data, found.prediction, found.scoring, schema)
    frame: pd.DataFrame = pa.Table.from_batches(batches, schema).to_pandas()
    return frame


def predicted(
    path: Path, graph: Graph | Folder | None, site: str | None, device: str, evidence: bool
) -> prediction.Predicted:
    """What `predict` makes a table of; arguments as there."""
    if graph is None and site is None:
        raise ConfigError("name a graph to predict for, or with site= one of the run's sites")
    own = None if site is None else site_folder(path, site)
    with ExitStack() as stack:
        if isinstance(graph, Graph):
            made = stack.enter_context(tempfile.TemporaryDirectory(prefix="fedtag-"))
            folder = write_folder(graph.text_graph, Path(made) / "graph")
        else:
            folder = Path(graph) if graph is not None else own or path
        config = read_release(RunDirectory.open_release(path)).config
        workspace = own if prediction.keeps(config) else None
        return prediction.predict(path, folder, None, device, evidence, site, workspace)


def site_folder(path: Path, site: str) -> Path:
    """The folder of a simulated site.

    Raises:
        RunError: the run has no such site here.
    """
    sites = sorted(one.parent.name for one in (path / SITES).glob("*/meta.json"))
    if site not in sites:
        there = ", ".join(sites) or "none, since sites of a deployment are elsewhere"
        raise RunError(f"{RunDirectory.open(path).path} has no site '{site}'; it has {there}")
    return path / SITES / site
