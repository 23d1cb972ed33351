from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fedtag.client.context.session import Session
from fedtag.client.site.site import Site
from fedtag.common.config import RunConfig
from fedtag.common.errors import ConfigError, DataError
from fedtag.common.models.parameters import fingerprint
from fedtag.common.wire.records import Content, Instruction, Reply

SECOND = {"evaluate": True, "evaluate_local": True, "introduce": True}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, write_feature_folder: Callable[..., Path]) -> Path:
    return write_feature_folder(tmp_path_factory.mktemp("session") / "site")


@pytest.fixture
def open_session(folder: Path, tmp_path: Path) -> Callable[..., Session]:
    def build(method: str = "fedavg", work: str = "work", **changes: Any) -> Session:
        config = RunConfig.from_flat({"method": method, "ratio": 0.2, "model.hidden": 8, **changes})
        return Session(Site("site", folder, tmp_path / work, tmp_path / "cache", "cpu"), config)

    return build


def instruct(step: int, phase: str = "train", run: str = "run", **values: Any) -> Instruction:
    return Instruction(run, step, step, phase, Content({}, {**SECOND, **values}))


def outcome(reply: Reply) -> tuple[str, Any]:
    return fingerprint(reply.content.tensors), reply.content.values.get("training")


def test_a_reply_belongs_to_its_instruction_and_introduces_its_site(
    open_session: Callable[..., Session],
) -> None:
    reply = open_session().respond(instruct(3))
    assert (reply.run, reply.step, reply.round, reply.phase, reply.client) == ("run", 3, 3, "train", "site")
    assert reply.content.values["introduction"] == {
        "classes": ["a", "b", "c"],
        "dimension": 8,
        "features": "features.npy",
        "encoded_chunks": 0,
        "encoded_tokens": 0,
    }
    assert reply.content.values["sizes"] == {
        "nodes": 60,
        "train_nodes": 36,
        "val_nodes": 12,
        "test_nodes": 12,
    }
    assert reply.content.values["seconds"]["train"] > 0
    known = open_session().respond(instruct(3, introduce=False))
    assert "introduction" not in known.content.values


def test_durations_are_those_of_one_message(open_session: Callable[..., Session]) -> None:
    session = open_session()
    first, second = (session.respond(instruct(step)).content.values["seconds"] for step in (1, 2))
    assert "load" in first
    assert "load" not in second


@pytest.mark.parametrize("method", ["fedavg", "isolated", "dance"])
def test_a_warm_session_and_new_processes_answer_alike(
    method: str, open_session: Callable[..., Session]
) -> None:
    changes = {"dance.core-refresh": 2, "dance.text-refresh": 0}
    warm = open_session(method, "warm", **changes)
    steps = [instruct(step) for step in (1, 2, 3)]
    kept = [outcome(warm.respond(step)) for step in steps]
    fresh = [outcome(open_session(method, "fresh", **changes).respond(step)) for step in steps]
    assert kept == fresh
    # The state counts: another run starts anew.
    again = outcome(warm.respond(instruct(3, run="other")))
    if method != "dance":
        assert (again == kept[2]) == (method == "fedavg")


@pytest.mark.parametrize("method", ["isolated", "dance"])
def test_a_repeated_step_gives_the_same_answer(method: str, open_session: Callable[..., Session]) -> None:
    session = open_session(method, **{"dance.core-refresh": 0, "dance.text-refresh": 2})
    first = [outcome(session.respond(instruct(step))) for step in (1, 2, 3)]
    assert [outcome(session.respond(instruct(step))) for step in (2, 3)] == first[1:]


def test_inductive_training_does_not_see_edges_of_test_nodes(open_session: Callable[..., Session]) -> None:
    session = open_session(**{"train.inductive": True})
    hidden = session.graph.test_mask
    ends = session.training_graph.edge_index
    assert not bool(hidden[ends].any())
    assert ends.shape[1] < session.graph.edge_index.shape[1]
    assert session.adjacency.edge_index.shape[1] > session.training_adjacency.edge_index.shape[1]
    plain = open_session()
    assert plain.training_graph is plain.graph
    assert plain.training_adjacency is plain.adjacency


@pytest.mark.parametrize("view", ["document", "chunks", "both"])
def test_given_features_are_the_document_and_one_chunk_of_unit_length(
    view: str, folder: Path, open_session: Callable[..., Session]
) -> None:
    session = open_session(**{"text.view": view})
    features = torch.from_numpy(np.load(folder / "features.npy"))
    unit = features / features.norm(dim=1, keepdim=True)
    expected = {"document": features, "chunks": unit, "both": (features + unit) / 2}[view]
    torch.testing.assert_close(session.graph.x, expected)
    assert session.bank_source == "features.npy"


def test_kept_values_are_built_once(open_session: Callable[..., Session]) -> None:
    session, built = open_session(), []
    for _ in range(2):
        session.kept("x", lambda: built.append(1))
    assert built == [1]


def test_an_unknown_method_is_refused(open_session: Callable[..., Session]) -> None:
    for method in ("no_such", "registry"):
        with pytest.raises(ConfigError, match="is unknown on this site"):
            open_session(method).respond(instruct(1))


def test_a_broken_folder_is_explained(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    site = Site("site", tmp_path / "empty", tmp_path, tmp_path, "cpu")
    with pytest.raises(DataError):
        Session(site, RunConfig.from_flat({"method": "fedavg"})).respond(instruct(1))
