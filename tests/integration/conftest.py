"""Whole runs in this process on real texts, shared by the tests of what they leave and what they send."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from fedtag.client.data.folder import read_folder
from fedtag.client.data.partition.louvain import by_communities
from fedtag.client.data.text_graph import TextGraph
from fedtag.client.data.writing import write_folder
from fedtag.client.run.simulated import simulate_sites
from fedtag.client.run.site_run import SiteRun
from fedtag.client.site.site import Site
from fedtag.common.config import RunConfig
from fedtag.common.config.run_config import without_foreign
from fedtag.common.wire.codec import Parcel
from fedtag.runs.grid import InProcessGrid
from fedtag.server.run.rounds import Rounds
from fedtag.server.state.progress import LineProgress
from fedtag.server.tracking.rows import Summary
from fedtag.server.tracking.run_directory import RunDirectory

MOST_CHARACTERS = 600


@dataclass(frozen=True)
class Federated:
    """A finished run: its directory, its sites with the sessions that served it, and all that was sent."""

    config: RunConfig
    directory: RunDirectory
    sites: tuple[Site, ...]
    sessions: tuple[SiteRun, ...]
    parcels: tuple[Parcel, ...]
    summary: Summary


Federate = Callable[..., Federated]


def federate(
    out: Path,
    settings: dict[str, object],
    sites: Sequence[Site] | None = None,
    order: Callable[[tuple[SiteRun, ...]], Sequence[SiteRun]] = tuple,
) -> Federated:
    """Run a federation in this process.

    Args:
        out: run directory.
        settings: dotted keys.
        sites: already there; made from the settings where absent.
        order: in which the sites join.
    """
    config = RunConfig.from_flat(without_foreign({"device": "cpu", "out": str(out), **settings}))
    directory = RunDirectory(out)
    found = tuple(sites) if sites is not None else simulate_sites(config, out / "sites")
    sessions = tuple(SiteRun(site, config) for site in found)
    parcels: list[Parcel] = []
    grid = InProcessGrid(order(sessions), parcels.append)
    summary = Rounds(grid, config, directory, LineProgress()).run()
    return Federated(config, directory, found, sessions, tuple(parcels), summary)


@pytest.fixture(scope="session", autouse=True)
def _one_thread(one_thread: None) -> None:
    """All runs here take one thread."""


@pytest.fixture(scope="session")
def papers(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with 174 connected papers of Cora: real abstracts, shortened, under ids that occur nowhere else."""
    whole = read_folder(shared_data / "cora_text").graph
    mixed = max(
        by_communities(whole, 14, 0), key=lambda rows: (whole.labels[rows, None] == range(7)).any(0).sum()
    )
    graph = whole.subgraph(mixed)
    assert 150 <= graph.num_nodes <= 250
    shortened = tuple(text[:MOST_CHARACTERS].rpartition(" ")[0] for text in graph.texts)
    ids = tuple(f"paper-{node:04d}-x" for node in graph.node_ids)
    graph = replace(graph, name="papers", node_ids=ids, texts=shortened, extra={})
    return write_folder(graph, tmp_path_factory.mktemp("papers") / "papers")


@pytest.fixture(scope="session")
def dance_settings(papers: Path) -> dict[str, object]:
    return {
        "method": "dance",
        # In bfloat16, which a processor with AMX tiles takes by itself, vectors depend on their batch.
        "text.dtype": "float32",
        "data.source": str(papers),
        "data.split": "0.5,0.2,0.3",
        "clients": 3,
        "rounds": 4,
        "ratio": 0.2,
    }


@pytest.fixture(scope="session")
def dance_run(dance_settings: dict[str, object], tmp_path_factory: pytest.TempPathFactory) -> Federated:
    """DANCE on the papers: 3 clients, 4 rounds and the closing exchange; summaries are off."""
    return federate(tmp_path_factory.mktemp("dance") / "run", dance_settings)


@pytest.fixture(scope="session")
def narrated_run(dance_settings: dict[str, object], tmp_path_factory: pytest.TempPathFactory) -> Federated:
    """The same for 2 rounds, with a summary of one node a site by the bundled language model."""
    settings = {**dance_settings, "rounds": 2, "summaries.limit": 1}
    return federate(tmp_path_factory.mktemp("narrated") / "run", settings)


@pytest.fixture(scope="session")
def run_federation() -> Federate:
    """`federate`, for tests that need a run of their own."""
    return federate


@pytest.fixture(scope="session")
def text_folder() -> Callable[..., Path]:
    """Writes a folder of given texts on a ring; every class has training nodes as far as the nodes go."""

    def write(path: Path, texts: Sequence[str], train: bool = True) -> Path:
        n = len(texts)
        ring = np.array(sorted({(min(i, (i + 1) % n), max(i, (i + 1) % n)) for i in range(n) if n > 1}))
        chords = np.array([(i, i + 3) for i in range(n - 3)])
        edges = np.unique(np.concatenate([ring.reshape(-1, 2), chords.reshape(-1, 2)]), axis=0)
        graph = TextGraph(
            name=path.name,
            node_ids=tuple(f"{path.name}-{i}" for i in range(n)),
            texts=tuple(texts),
            labels=np.arange(n, dtype=np.int64) % 2,
            split=np.array([1 if train else 0, 1 if train else 0, 2, 3], np.int8)[np.arange(n) // 2 % 4],
            edges=edges.astype(np.int64),
            edge_weights=np.ones(len(edges), np.float32),
            classes=("even", "odd"),
        )
        return write_folder(graph, path)

    return write
