from __future__ import annotations

import gc
import os
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fedtag.client.run.site_run import SiteRun
from fedtag.client.worker.open_runs import OpenRuns
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
def opened(monkeypatch: pytest.MonkeyPatch) -> list[weakref.ref[SiteRun]]:
    """The runs that were opened."""
    found: list[weakref.ref[SiteRun]] = []
    begin = SiteRun.__init__

    def noted(one: SiteRun, *arguments: Any) -> None:
        found.append(weakref.ref(one))
        begin(one, *arguments)

    monkeypatch.setattr(SiteRun, "__init__", noted)
    return found


def alive(opened: list[weakref.ref[SiteRun]]) -> list[bool]:
    gc.collect()
    return [reference() is not None for reference in opened]


def test_a_run_is_opened_once(node: dict[str, Any], opened: list[weakref.ref[SiteRun]]) -> None:
    runs = OpenRuns()
    first = runs.respond(instruction("a"), FLAT, node)
    again = runs.respond(instruction("a"), FLAT, node)
    assert len(opened) == 1
    assert first.content.tensors.keys() == again.content.tensors.keys()
    assert all(
        (first.content.tensors[name] == again.content.tensors[name]).all() for name in first.content.tensors
    )


def test_the_one_not_used_for_longest_goes(node: dict[str, Any], opened: list[weakref.ref[SiteRun]]) -> None:
    runs = OpenRuns(most=2)
    for run in ("a", "b", "a", "c"):
        runs.respond(instruction(run), FLAT, node)
    assert alive(opened) == [True, False, True]


def test_other_settings_are_another_run(node: dict[str, Any], opened: list[weakref.ref[SiteRun]]) -> None:
    runs = OpenRuns()
    small = runs.respond(instruction("a"), FLAT, node)
    large = runs.respond(instruction("a"), {**FLAT, "model.hidden": 8}, node)
    assert len(opened) == 2
    assert {small.content.tensors[name].shape for name in small.content.tensors} != {
        large.content.tensors[name].shape for name in large.content.tensors
    }


def test_changed_data_are_read_anew(node: dict[str, Any], opened: list[weakref.ref[SiteRun]]) -> None:
    runs = OpenRuns()
    runs.respond(instruction("a"), FLAT, node)
    nodes = Path(node["data"]) / "nodes.csv"
    os.utime(nodes, ns=(1, 1))
    runs.respond(instruction("a"), FLAT, node)
    assert alive(opened) == [False, True]


def test_vanished_data_are_told_although_they_are_in_memory(node: dict[str, Any]) -> None:
    runs = OpenRuns()
    runs.respond(instruction("a"), FLAT, node)
    Path(node["data"]).rename(Path(node["data"]).with_name("elsewhere"))
    with pytest.raises(ConfigError, match="does not exist"):
        runs.respond(instruction("a"), FLAT, node)


def test_what_fails_is_not_kept(node: dict[str, Any]) -> None:
    runs = OpenRuns()
    (Path(node["data"]) / "edges.csv").write_text("src,dst\n0,99\n")
    with pytest.raises(DataError):
        runs.respond(instruction("a"), FLAT, node)
    assert len(runs) == 0


def test_memory_is_given_back(node: dict[str, Any], opened: list[weakref.ref[SiteRun]]) -> None:
    runs = OpenRuns()
    runs.respond(instruction("a"), FLAT, node)
    runs.respond(instruction("b"), FLAT, node)
    assert not runs.some_closed
    runs.respond(instruction("b", "close"), FLAT, node)
    assert runs.some_closed
    runs.drop(closed_only=True)
    assert alive(opened) == [True, False]
    runs.drop()
    assert alive(opened) == [False, False]
