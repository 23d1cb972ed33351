"""Runs in Python: start one, open one, predict with one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from fedtag.common.config import flatten
from fedtag.common.config.places import SEPARATOR, SOURCE
from fedtag.common.errors import ConfigError, DataError
from fedtag.common.settings.defaults import METHOD
from fedtag.common.settings.registry import Spec
from fedtag.graph.graph import Graph
from fedtag.runs import course
from fedtag.runs.bars import shown
from fedtag.runs.listing import register
from fedtag.runs.places import named_folder
from fedtag.runs.predictions import Folder, prediction_frame
from fedtag.runs.run import Run
from fedtag.runs.settings import further_settings, resolve
from fedtag.server.tracking.recorded import check_there


def simulate(
    graph: Graph | Sequence[Graph],
    method: str | Spec = METHOD,
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
        >>> import fedtag, networkx
        >>> club = networkx.karate_club_graph()
        >>> networkx.set_node_attributes(club, {node: f"member {node}" for node in club}, "text")
        >>> graph = fedtag.Graph.from_networkx(club, text="text", label="club")
        >>> run = fedtag.simulate(graph, clients=2, rounds=2, seed=0)
        >>> run.rounds["round"].tolist()
        [1, 2]
    """
    graphs = graphs_of(graph)
    if not isinstance(graph, Graph):
        if clients not in (None, len(graphs)):
            raise ConfigError(f"clients = {clients}: {len(graphs)} graphs are as many clients, leave it out")
        clients = len(graphs)
    # Faults of the data come before those of settings, and before anything is written.
    read = [one.text_graph for one in graphs]
    if bare := [one.name for one in read if not one.classes]:
        raise DataError(
            f"{', '.join(bare)}: there are no classes to learn, name the column of labels with label="
        )
    on_disk = all(one.source for one in graphs)
    source = SEPARATOR.join(one.source if on_disk else one.name for one in graphs)
    given = {
        "method": method if isinstance(method, str) else register(method),
        "clients": clients,
        "rounds": rounds,
        "seed": seed,
        "device": device,
        "out": named_folder(out),
    }
    flat = {key: value for key, value in given.items() if value is not None}
    further = further_settings(settings)
    config = resolve({**flat, SOURCE: source, **further})
    with shown(progress) as bar:
        parent = start.path if isinstance(start, Run) else None if start is None else Path(start)
        return Run(course.start(config, progress=bar, graphs=read, parent=parent))


def graphs_of(graph: Graph | Sequence[Graph]) -> list[Graph]:
    """One graph, or one for each client, as a list.

    Raises:
        ConfigError: it is neither.
    """
    graphs = [graph] if isinstance(graph, Graph) else list(graph) if isinstance(graph, Sequence) else []
    if not graphs or not all(isinstance(one, Graph) for one in graphs):
        raise ConfigError("graph: give a fedtag.Graph, or a list with one for each client")
    return graphs


def open_run(path: Folder, *specs: Spec) -> Run:
    """A run directory, finished or not, of `simulate`, the command line or a deployment.

    Args:
        path: the directory.
        specs: what it is made of and no package brings, as it was handed over as objects.

    Raises:
        RunError: it is no run, or one of its files is damaged; the error names it.
        ConfigError: something that it is made of is not there; the error names it.
    """
    for spec in specs:
        register(spec)
    run = Run(path)
    run.check()
    check_there(run.path, flatten(run.settings))
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
    return prediction_frame(path, graph, site, device, evidence)
