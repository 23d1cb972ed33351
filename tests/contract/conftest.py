"""A tiny features-only federation on which every method must keep the contract."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fedtag.client.data.text_graph import TEST, TRAIN, VAL, TextGraph, canonical_edges
from fedtag.client.data.writing import write_folder
from fedtag.client.run.site_run import SiteRun
from fedtag.client.secure.member import Member
from fedtag.client.site.site import Site
from fedtag.client.site.state import StateStore
from fedtag.common.config import RunConfig
from fedtag.common.config.run_config import without_foreign
from fedtag.common.models.parameters import fingerprint
from fedtag.common.secure.upload import Layout
from fedtag.common.wire.codec import Parcel, decode_reply
from fedtag.common.wire.records import Reply
from fedtag.runs.grid import InProcessGrid
from fedtag.server.run.rounds import Rounds
from fedtag.server.state.progress import LineProgress
from fedtag.server.tracking.rows import Summary
from fedtag.server.tracking.run_directory import RunDirectory

CONTRIBUTING = ("train", "condense")
"""Phases whose updates are the outcome of clients' own work."""
QUICK = {
    "condenser.outer-loops": 2,
    "condenser.inner-loops": 4,
    "condenser.expert-steps": 30,
    "condenser.hidden": 8,
}
QUICK_FEDGC = {
    "fedgc.self-training-rounds": 1,
    "fedgc.confidence": 0.4,
    "fedgc.min-class-count": 1,
    # Its graphs have no node outside every split.
    "fedgc.learn-from": "both",
    "fedgc.hidden": 8,
    "fedgc.links": "learned",
    "fedgc.model-steps": 20,
    "fedgc.fine-tune-steps": 3,
    "fedgc.bottleneck-epochs": 3,
}
CORE = {
    "condenser.name": "dance-core",
    "dance-core.confidence": 0.4,
    "dance-core.pseudo-share": 0.3,
    "dance-core.pseudo-label-weight": 0.5,
}
METHODS: dict[str, dict[str, Any]] = {
    "isolated": {"method": "isolated"},
    "centralised": {"method": "centralised"},
    "fedavg": {"method": "fedavg"},
    "fedavg, averaged": {"method": "fedavg", "aggregation.average-decay": 0.5},
    "fedprox": {"method": "fedavg", "train.prox-mu": 0.1},
    "fedavg, inductive": {"method": "fedavg", "train.inductive": True, "model.backbone": "sage"},
    "dance": {"method": "dance"},
    "dance, induced": {"method": "dance", "dance.topology": "induced"},
    "dance, no text": {"method": "dance", "dance.text-condensation": False},
    "dance, top": {"method": "dance", "dance.core-policy": "top", "dance.pseudo-label-weight": 0.5},
    "dance, gumbel": {"method": "dance", "dance.core-policy": "gumbel", "dance.propagated": 0},
    "dance, coverage": {"method": "dance", "dance.core-policy": "coverage", "dance.scoring": "graph"},
    "dance, random": {"method": "dance", "dance.core-policy": "random", "dance.scoring": "evidence"},
    "dance, inductive": {"method": "dance", "train.inductive": True},
    "fedavg, secure": {"method": "fedavg", "privacy.secure-aggregation": True},
    "fedavg, secure and hidden": {
        "method": "fedavg",
        "privacy.secure-aggregation": True,
        "privacy.hide-statistics": True,
        "aggregation.weights": "uniform",
    },
    "dance, secure": {"method": "dance", "privacy.secure-aggregation": True},
    "fedavg, distribution-aware with fednova": {
        "method": "fedavg",
        "aggregation.weights": "distribution-aware",
        "aggregation.normalise": "fednova",
    },
    "fedavg, gcond": {"method": "fedavg", "condenser.name": "gcond", **QUICK},
    "fedavg, doscond, inductive": {
        "method": "fedavg",
        "condenser.name": "doscond",
        "train.inductive": True,
        **QUICK,
    },
    "fedavg, sfgc, distribution-aware": {
        "method": "fedavg",
        "condenser.name": "sfgc",
        "aggregation.weights": "distribution-aware",
        **QUICK,
    },
    "fedavg, herding": {"method": "fedavg", "condenser.name": "herding"},
    "fedavg, coarsening, secure and hidden": {
        "method": "fedavg",
        "condenser.name": "coarsening",
        "privacy.secure-aggregation": True,
        "privacy.hide-statistics": True,
        "aggregation.weights": "uniform",
    },
    "fedc4": {"method": "fedc4", **QUICK},
    "fedc4, broadcast, secure": {
        "method": "fedc4",
        "fedc4.exchange": "broadcast",
        "privacy.secure-aggregation": True,
        **QUICK,
    },
    "fedc4, sliced, secure and hidden": {
        "method": "fedc4",
        "fedc4.distance": "sliced",
        "privacy.secure-aggregation": True,
        "privacy.hide-statistics": True,
        "aggregation.weights": "uniform",
        **QUICK,
    },
    "da_dfgas": {"method": "da_dfgas"},
    "da_dfgas, one for all": {"method": "da_dfgas", "da_dfgas.personal": False, "da_dfgas.cells": 1},
    "da_dfgas, inductive": {
        "method": "da_dfgas",
        "train.inductive": True,
        "da_dfgas.scoring": "auto",
        "da_dfgas.keep-local": True,
    },
    "fedavg, dance-core": {"method": "fedavg", **CORE},
    "da_dfgas, dance-core": {"method": "da_dfgas", **CORE},
    "da_dfgas, gcond, inductive": {
        "method": "da_dfgas",
        "condenser.name": "gcond",
        "train.inductive": True,
        **QUICK,
    },
    "da_dfgas, dance-core, own, secure": {
        "method": "da_dfgas",
        "aggregation.statistics": "previous",
        "privacy.secure-aggregation": True,
        **CORE,
    },
    "da_dfgas, search only": {"method": "da_dfgas", "da_dfgas.search-share": 1.0},
    "da_dfgas, secure": {
        "method": "da_dfgas",
        "da_dfgas.personal": False,
        "aggregation.statistics": "previous",
        "privacy.secure-aggregation": True,
    },
    "da_dfgas, own, secure": {
        "method": "da_dfgas",
        "aggregation.statistics": "previous",
        "privacy.secure-aggregation": True,
    },
    "fedgc": {"method": "fedgc", **QUICK_FEDGC},
    "fedgc, without self-training, linear": {
        "method": "fedgc",
        **QUICK_FEDGC,
        "fedgc.learn-from": "training",
        "fedgc.matching-model": "sgc",
        "fedgc.links": "none",
        "fedgc.fine-tune-steps": 0,
    },
    "fedgc, without pseudo-labels, with neighbours": {
        "method": "fedgc",
        **QUICK_FEDGC,
        "fedgc.learn-from": "training",
        "fedgc.bottleneck": True,
        "neighbour-exchange.mode": "summed",
        "neighbour-exchange.hops": 2,
    },
    "fedgc, cosine, inductive, secure": {
        "method": "fedgc",
        **QUICK_FEDGC,
        "fedgc.distance": "cosine",
        "train.inductive": True,
        "privacy.secure-aggregation": True,
    },
    "fedgc, secure and hidden": {
        "method": "fedgc",
        **QUICK_FEDGC,
        "privacy.secure-aggregation": True,
        "privacy.hide-statistics": True,
        "aggregation.weights": "uniform",
    },
    "fedavg, central privacy": {
        "method": "fedavg",
        "aggregation.weights": "uniform",
        "privacy.dp.mode": "central",
        "privacy.dp.noise": 0.1,
    },
}
MENDED = {"parts": "neighbour-generator", "neighbour-generator.rounds": 2, "neighbour-generator.most": 2}
METHODS |= {
    "isolated, mended": {"method": "isolated", **MENDED},
    "fedavg, mended, inductive": {
        "method": "fedavg",
        "train.inductive": True,
        "aggregation.server-optimiser": "momentum",
        "aggregation.average-decay": 0.5,
        **MENDED,
    },
    "fedavg, mended, secure and hidden": {
        "method": "fedavg",
        "privacy.secure-aggregation": True,
        "privacy.hide-statistics": True,
        "aggregation.weights": "uniform",
        **MENDED,
    },
    "fedavg, mended, central privacy": {
        "method": "fedavg",
        "aggregation.weights": "uniform",
        "privacy.dp.mode": "central",
        "privacy.dp.noise": 0.1,
        **MENDED,
    },
    "fedavg, mended, gcond": {"method": "fedavg", "condenser.name": "gcond", **QUICK, **MENDED},
    "fedavg, mended, dance-core, inductive": {
        "method": "fedavg",
        "train.inductive": True,
        "dance-core.core-refresh": 2,
        **CORE,
        **MENDED,
    },
    "da_dfgas, mended, dance-core": {"method": "da_dfgas", **CORE, **MENDED},
    "fedc4, mended": {"method": "fedc4", **QUICK, **MENDED},
    "fedgc, mended": {"method": "fedgc", **QUICK_FEDGC, **MENDED},
    "da_dfgas, mended": {"method": "da_dfgas", **MENDED},
    "da_dfgas, mended, secure, inductive": {
        "method": "da_dfgas",
        "aggregation.statistics": "previous",
        "privacy.secure-aggregation": True,
        "train.inductive": True,
        **MENDED,
    },
}
BASE = {
    "rounds": 3,
    "clients": 3,
    "device": "cpu",
    "ratio": 0.2,
    "model.hidden": 8,
    "dance.propagated": 1,
    "exchange.poll": 0.001,
    "privacy.block-rounds": 4,
}


def tiny_graph(name: str, nodes: int = 60, seed: int = 0) -> TextGraph:
    """Three classes that features and edges tell apart, a split in fifths."""
    rng = np.random.default_rng(seed)
    labels = np.arange(nodes) % 3
    pairs = rng.integers(0, nodes, (4 * nodes, 2))
    pairs = pairs[(labels[pairs[:, 0]] == labels[pairs[:, 1]]) | (rng.random(len(pairs)) < 0.1)]
    edges, weights, _, _ = canonical_edges(pairs, np.ones(len(pairs), np.float32), False)
    features = rng.standard_normal((nodes, 6)).astype(np.float32)
    features[np.arange(nodes), labels] += 1
    return TextGraph(
        name=name,
        node_ids=tuple(range(nodes)),
        texts=tuple(f"text of node {row}" for row in range(nodes)),
        labels=labels.astype(np.int64),
        split=np.array([TRAIN, TRAIN, TRAIN, VAL, TEST], np.int8)[(np.arange(nodes) // 3) % 5],
        edges=edges,
        edge_weights=weights,
        classes=("a", "b", "c"),
        features=features,
    )


def relabelled(graph: TextGraph, *splits: int) -> TextGraph:
    """The same graph with every label of the given splits moved to the next class."""
    moved = np.where(np.isin(graph.split, splits), (graph.labels + 1) % len(graph.classes), graph.labels)
    return replace(graph, labels=moved)


@dataclass(frozen=True)
class Finished:
    """Everything that a run left behind: its records, its bytes, its state and that of its clients."""

    config: RunConfig
    path: Path
    summary: Summary
    rows: list[dict[str, Any]]
    clients: list[dict[str, Any]]
    disclosures: list[dict[str, Any]]
    replies: list[Reply]
    state: Mapping[str, torch.Tensor]
    values: Mapping[str, Any]
    best: Mapping[str, torch.Tensor]
    remembered: Mapping[str, str]
    masked: Mapping[tuple[int, str], np.ndarray]

    def parameters(self) -> tuple[str, tuple[str, ...]]:
        """What training led to, on the server and at the clients."""
        return fingerprint(self.state), tuple(self.remembered[name] for name in sorted(self.remembered))

    def contributions(self, rounds: int) -> dict[tuple[int, str], Any]:
        """All that the clients' training said in the first rounds: updates, losses, condensation.

        Of an upload under masks it is the weighed update and its two scalars before they came on.
        """
        told = {}
        for reply in self.replies:
            if reply.phase in CONTRIBUTING and reply.round <= rounds:
                parts = {
                    name: value
                    for name, value in reply.content.tensors.items()
                    if name.partition("/")[0] not in ("scores", "masked")
                }
                vector = self.masked.get((reply.round, reply.client))
                if vector is not None:
                    parts["before masking"] = torch.from_numpy(vector)
                values = reply.content.values
                told[reply.round, reply.client] = (
                    fingerprint(parts),
                    values.get("training"),
                    values.get("condensation"),
                )
        return told


Federate = Callable[..., Finished]


@pytest.fixture(scope="session")
def federate(tmp_path_factory: pytest.TempPathFactory) -> Federate:
    """Runs a method over graphs; without them over the tiny federation (one client for pooled methods)."""

    def run(
        changes: Mapping[str, Any],
        graphs: Sequence[TextGraph] | None = None,
        reverse: bool = False,
        **more: Any,
    ) -> Finished:
        if graphs is None:
            graphs = federation(changes)
        config = RunConfig.from_flat(without_foreign({**BASE, "clients": len(graphs), **changes, **more}))
        place = tmp_path_factory.mktemp("federation")
        sessions = [
            SiteRun(
                Site(
                    graph.name,
                    write_folder(graph, place / "data" / graph.name),
                    place / "work" / graph.name,
                    place / "cache",
                    "cpu",
                ),
                config,
            )
            for graph in graphs
        ]
        parcels: list[Parcel] = []
        grid = InProcessGrid(sessions[::-1] if reverse else sessions, tap=parcels.append)
        masked: dict[tuple[int, str], np.ndarray] = {}
        mask, vector_of, weighed = Member.mask, Layout.vector, [0]

        def sized(layout: Layout, *rest: Any) -> np.ndarray:
            # Scores and the like come after the update and its two scalars.
            weighed[0] = layout.update_size + 2
            return vector_of(layout, *rest)

        def noted(member: Member, index: int, vector: np.ndarray, *rest: Any) -> np.ndarray:
            _, _, occasion, *_ = rest
            number, phase = occasion.removeprefix("round ").split(", ")
            if phase in CONTRIBUTING:  # a method may sum what it hides in other phases, too
                masked[int(number), member.name] = vector[: weighed[0]].copy()
            return mask(member, index, vector, *rest)

        with pytest.MonkeyPatch.context() as patch:
            # The report has tests of its own and takes longer than a run of this size.
            patch.setattr("fedtag.server.run.conclusion.write_report", lambda runs, out: None)
            patch.setattr(Member, "mask", noted)
            patch.setattr(Layout, "vector", sized)
            # Noise that nobody can draw again would hide whether all else is the same in two runs.
            patch.setattr(
                "fedtag.server.run.rounds.entropy_generator", lambda: np.random.default_rng(0).bytes
            )
            rounds = Rounds(grid, config, RunDirectory(place / "run"), LineProgress())
            summary = rounds.run()
        assert rounds.run_state.state is not None
        remembered = {}
        for session in sessions:
            kept = StateStore(session.site.state, rounds.run_state.run).load_before(10**6)
            remembered[session.site.name] = fingerprint(kept.tensors) if kept else ""
        return Finished(
            config,
            place,
            summary,
            *(lines(place / "run" / f"{name}.jsonl") for name in ("metrics", "clients", "disclosures")),
            [decode_reply(parcel.open().content, 1e12) for parcel in parcels[1::2]],
            rounds.run_state.state.tensors,
            rounds.run_state.state.values,
            rounds.run_state.best,
            remembered,
            masked,
        )

    return run


def federation(changes: Mapping[str, Any]) -> list[TextGraph]:
    clients = 1 if changes["method"] == "centralised" else 3
    return [tiny_graph(f"site-{k}", 30 + 15 * k, seed=k) for k in range(clients)]


# What is theirs alone is a choice within a method, which unit tests cover; `make test-all` runs them.
SLOW = {
    "dance, gumbel",
    "dance, coverage",
    "dance, random",
    "fedavg, doscond, inductive",
    "fedavg, herding",
    "fedavg, coarsening, secure and hidden",
    "fedc4, sliced, secure and hidden",
    "da_dfgas, one for all",
    "fedgc, secure and hidden",
    "isolated, mended",
    "fedavg, mended, central privacy",
    "fedavg, mended, gcond",
    "fedavg, mended, dance-core, inductive",
    "da_dfgas, gcond, inductive",
    "da_dfgas, dance-core, own, secure",
    "da_dfgas, mended, dance-core",
    "da_dfgas, mended, secure, inductive",
}


@pytest.fixture(
    scope="session",
    params=[pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in METHODS],
)
def method(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The settings of each method in turn."""
    return METHODS[request.param]


@pytest.fixture(scope="session")
def finished(method: dict[str, Any], federate: Federate) -> Finished:
    """The method's run of three rounds."""
    return federate(method)


@pytest.fixture(scope="session")
def flipped(method: dict[str, Any]) -> Callable[..., list[TextGraph]]:
    """The method's federation with the labels of some splits changed."""
    return lambda *splits: [relabelled(graph, *splits) for graph in federation(method)]


@pytest.fixture(scope="session")
def graph_of() -> Callable[..., TextGraph]:
    """Builds one tiny graph: graph_of(name, nodes, seed)."""
    return tiny_graph


@pytest.fixture(scope="session")
def numbers_in() -> Callable[[Path], list[float]]:
    """All numbers in the JSON files under a folder, read so that NaN and infinity come through."""
    return numbers


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def numbers(folder: Path) -> list[float]:
    found: list[float] = []
    for path in [*folder.rglob("*.json"), *folder.rglob("*.jsonl")]:
        text = path.read_text(encoding="utf-8")
        for part in text.splitlines() if path.suffix == ".jsonl" else [text]:
            found += flat(json.loads(part))
    return found


def flat(value: Any) -> list[float]:
    if isinstance(value, dict):
        return [number for entry in value.values() for number in flat(entry)]
    if isinstance(value, list):
        return [number for entry in value for number in flat(entry)]
    return [float(value)] if isinstance(value, int | float) else []
