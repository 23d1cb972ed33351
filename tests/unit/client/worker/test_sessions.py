from __future__ import annotations

import gc
import os
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fedtag.client.context.session import Session
from fedtag.client.worker.sessions import Sessions
from fedtag.common.config import RunConfig
from fedtag.common.errors import ConfigError, DataError
from fedtag.common.wire.records import Content, Instruction

FLAT = RunConfig.from_flat(
    {"method": "fedavg", "model.hidden": 4, "train.epochs": 1, "device": "cpu"}
).to_flat()


def instruction(run: str, phase: str = "train") -> Instruction:
    return Instruction(run, 1, 1, phase, Content())


@pytest.fixture
def node(write_feature_folder: Callable[..., Path], tmp_path: Path) -> dict[str, Any]:
    return {
        "data": str(write_feature_folder(tmp_path / "data", nodes=24)),
        "workspace": str(tmp_path / "own"),
    }


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[weakref.ref[Session]]:
    """The sessions that were opened."""
    found: list[weakref.ref[Session]] = []
    begin = Session.__init__

    def noted(session: Session, *arguments: Any) -> None:
        found.append(weakref.ref(session))
        begin(session, *arguments)

    monkeypatch.setattr(Session, "__init__", noted)
    return found


def alive(opened: list[weakref.ref[Session]]) -> list[bool]:
    gc.collect()
    return [reference() is not None for reference in opened]


def test_a_run_keeps_its_session(node: dict[str, Any], opened: list[weakref.ref[Session]]) -> None:
    sessions = Sessions()
    first = sessions.respond(instruction("a"), FLAT, node)
    again = sessions.respond(instruction("a"), FLAT, node)
    assert len(opened) == 1
    assert first.content.tensors.keys() == again.content.tensors.keys()
    assert all(
        (first.content.tensors[name] == again.content.tensors[name]).all() for name in first.content.tensors
    )


def test_the_one_not_used_for_longest_goes(node: dict[str, Any], opened: list[weakref.ref[Session]]) -> None:
    sessions = Sessions(most=2)
    for run in ("a", "b", "a", "c"):
        sessions.respond(instruction(run), FLAT, node)
    assert alive(opened) == [True, False, True]


def test_other_settings_are_another_session(node: dict[str, Any], opened: list[weakref.ref[Session]]) -> None:
    sessions = Sessions()
    small = sessions.respond(instruction("a"), FLAT, node)
    large = sessions.respond(instruction("a"), {**FLAT, "model.hidden": 8}, node)
    assert len(opened) == 2
    assert {small.content.tensors[name].shape for name in small.content.tensors} != {
        large.content.tensors[name].shape for name in large.content.tensors
    }


def test_changed_data_are_read_anew(node: dict[str, Any], opened: list[weakref.ref[Session]]) -> None:
    sessions = Sessions()
    sessions.respond(instruction("a"), FLAT, node)
    nodes = Path(node["data"]) / "nodes.csv"
    os.utime(nodes, ns=(1, 1))
    sessions.respond(instruction("a"), FLAT, node)
    assert alive(opened) == [False, True]


def test_vanished_data_are_told_although_they_are_in_memory(node: dict[str, Any]) -> None:
    sessions = Sessions()
    sessions.respond(instruction("a"), FLAT, node)
    Path(node["data"]).rename(Path(node["data"]).with_name("elsewhere"))
    with pytest.raises(ConfigError, match="does not exist"):
        sessions.respond(instruction("a"), FLAT, node)


def test_a_session_that_fails_is_not_kept(node: dict[str, Any]) -> None:
    sessions = Sessions()
    (Path(node["data"]) / "edges.csv").write_text("src,dst\n0,99\n")
    with pytest.raises(DataError):
        sessions.respond(instruction("a"), FLAT, node)
    assert len(sessions) == 0


def test_memory_is_given_back(node: dict[str, Any], opened: list[weakref.ref[Session]]) -> None:
    sessions = Sessions()
    sessions.respond(instruction("a"), FLAT, node)
    sessions.respond(instruction("b"), FLAT, node)
    assert not sessions.some_closed
    sessions.respond(instruction("b", "close"), FLAT, node)
    assert sessions.some_closed
    sessions.drop(closed_only=True)
    assert alive(opened) == [True, False]
    sessions.drop()
    assert alive(opened) == [False, False]
