from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fedtag.client.run import site_run
from fedtag.client.run.recorded import Recorded
from fedtag.client.run.site_run import SiteRun
from fedtag.client.site.register import Register
from fedtag.client.site.site import Site
from fedtag.common.audit_log.verification import lines_of
from fedtag.common.config import RunConfig
from fedtag.common.config.run_config import without_foreign
from fedtag.common.errors import DataError, ProtocolError
from fedtag.common.models.parameters import fingerprint
from fedtag.common.wire.protocol import installed_release
from fedtag.common.wire.records import Content, Instruction, Reply

SECOND = {"evaluate": True, "evaluate_local": True, "introduce": True}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, write_feature_folder: Callable[..., Path]) -> Path:
    return write_feature_folder(tmp_path_factory.mktemp("run") / "site")


@pytest.fixture
def open_site(folder: Path, tmp_path: Path) -> Callable[..., SiteRun]:
    def build(method: str = "fedavg", work: str = "work", **changes: Any) -> SiteRun:
        flat = {"method": method, "ratio": 0.2, "model.hidden": 8, **changes}
        config = RunConfig.from_flat(without_foreign(flat))
        return SiteRun(Site("site", folder, tmp_path / work, tmp_path / "cache", "cpu"), config)

    return build


def instruct(step: int, phase: str = "train", run: str = "run", **values: Any) -> Instruction:
    return Instruction(run, step, step, phase, Content({}, {**SECOND, **values}))


def outcome(reply: Reply) -> tuple[str, Any]:
    return fingerprint(reply.content.tensors), reply.content.values.get("training")


def test_a_reply_belongs_to_its_instruction_and_introduces_its_site(
    open_site: Callable[..., SiteRun],
) -> None:
    reply = open_site().respond(instruct(3))
    assert (reply.run, reply.step, reply.round, reply.phase, reply.client) == ("run", 3, 3, "train", "site")
    assert reply.content.values["introduction"] == {
        "classes": ["a", "b", "c"],
        "dimension": 8,
        "features": "features.npy",
        "packages": {"fedtag": installed_release()},
        "split": "given",
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
    known = open_site().respond(instruct(3, introduce=False))
    assert "introduction" not in known.content.values


def test_durations_are_those_of_one_message(open_site: Callable[..., SiteRun]) -> None:
    site = open_site()
    first, second = (site.respond(instruct(step)).content.values["seconds"] for step in (1, 2))
    assert "load" in first
    assert "load" not in second


@pytest.mark.parametrize("method", ["fedavg", "isolated", "dance"])
def test_a_warm_site_and_new_processes_answer_alike(method: str, open_site: Callable[..., SiteRun]) -> None:
    changes = {"dance.core-refresh": 2, "dance.text-refresh": 0}
    warm = open_site(method, "warm", **changes)
    steps = [instruct(step) for step in (1, 2, 3)]
    kept = [outcome(warm.respond(step)) for step in steps]
    fresh = [outcome(open_site(method, "fresh", **changes).respond(step)) for step in steps]
    assert kept == fresh
    # The state counts: another run starts anew.
    again = outcome(warm.respond(instruct(3, run="other")))
    if method != "dance":
        assert (again == kept[2]) == (method == "fedavg")


@pytest.mark.parametrize("method", ["isolated", "dance"])
def test_a_repeated_step_gives_the_same_answer(method: str, open_site: Callable[..., SiteRun]) -> None:
    site = open_site(method, **{"dance.core-refresh": 0, "dance.text-refresh": 2})
    first = [outcome(site.respond(instruct(step))) for step in (1, 2, 3)]
    assert [outcome(site.respond(instruct(step))) for step in (2, 3)] == first[1:]


def test_a_broken_folder_is_explained(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    site = Site("site", tmp_path / "empty", tmp_path, tmp_path, "cpu")
    with pytest.raises(DataError):
        SiteRun(site, RunConfig.from_flat({"method": "fedavg"})).respond(instruct(1))


@pytest.mark.parametrize("failing", ["enter", "sweep", "began"])
def test_a_run_that_could_not_be_noted_is_noted_with_the_next_message(
    failing: str, open_site: Callable[..., SiteRun], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*arguments: object, **options: object) -> None:
        raise OSError(5, "Input/output error")

    place = {"enter": Register, "sweep": site_run, "began": Recorded}[failing]
    with monkeypatch.context() as patch:
        patch.setattr(place, failing, full)
        with pytest.raises(OSError, match="Input/output"):
            open_site().respond(instruct(1))
    site = open_site()
    site.respond(instruct(1))
    site.respond(instruct(2))
    audit = site.site.workspace / "audit"
    assert [line.facts["run"] for line in lines_of(audit) if line.event == "started"] == ["run"]
    node = site.data.text_graph.node_ids[0]
    assert [part.run for part in Register(site.site).runs_of(node)] == ["run"]


def test_an_exchange_that_nobody_knows_is_refused(open_site: Callable[..., SiteRun]) -> None:
    with pytest.raises(ProtocolError, match="exchange 'other' is unknown here: install the same fedtag"):
        open_site().respond(instruct(1, "other"))
