"""A run goes on with the code that it was begun with; a comparison takes no run of other code for its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fedtag
from fedtag.client.methods.base import ClientMethod
from fedtag.common.config import RunConfig
from fedtag.errors import RunError
from fedtag.runs.own_code import digest_of, own_code
from fedtag.server.run.rounds import Rounds
from tests.objects import method_spec


def scaled(by: float) -> ClientMethod[None]:
    class Scaled(ClientMethod[None]):
        """Another name for what a person tries."""

        def loss(self, model: Any, examples: Any, generator: Any) -> Callable[[], Any]:
            plain = super().loss(model, examples, generator)
            return lambda: plain() * by

    return Scaled()


def test_what_code_does_tells_versions_apart() -> None:
    assert digest_of(scaled(1.0)) == digest_of(scaled(1.0))
    assert digest_of(scaled(1.0)) != digest_of(scaled(-1.0)), "what a function closes over"

    def one(value: int, more: int = 1) -> int:
        return value + more

    def same(value: int, more: int = 1) -> int:
        """What is written about it is nothing that it does."""
        return value + more

    def other(value: int, more: int = 2) -> int:
        return value + more

    def named(value: int) -> int:
        return value + len(CONSTANT)

    assert digest_of(one) == digest_of(same)
    assert digest_of(one) != digest_of(other), "defaults"
    before = digest_of(named)
    globals()["CONSTANT"] = (1, 2)
    assert digest_of(named) != before, "what a function names in its module"


CONSTANT = "x"


def test_where_a_class_stands_in_its_file_is_nothing_that_it_does() -> None:
    """As Python 3.13 and later note in the class itself."""
    first, later = (
        type("Method", (ClientMethod,), {"__module__": "own", "__firstlineno__": line, "kept": 1})
        for line in (1, 90)
    )
    other = type("Method", (ClientMethod,), {"__module__": "own", "__firstlineno__": 1, "kept": 2})
    assert digest_of(first) == digest_of(later)
    assert digest_of(first) != digest_of(other)


@pytest.mark.usefixtures("handed_over")
def test_a_run_of_other_code_is_not_taken(write_feature_folder: Callable[..., Path], tmp_path: Path) -> None:
    graph = fedtag.Graph.from_folder(write_feature_folder(tmp_path / "data"))
    given: dict[str, Any] = {"seeds": 1, "clients": 2, "rounds": 1, "out": tmp_path / "compared"}
    first = fedtag.compare(graph, [method_spec("lasso", scaled(1.0))], **given).runs
    again = fedtag.compare(graph, [method_spec("lasso", scaled(1.0))], **given).runs
    assert first.equals(again)
    with pytest.raises(
        RunError, match="was run with other code of lasso: choose another out=, or delete that run"
    ):
        fedtag.compare(graph, [method_spec("lasso", scaled(-1.0))], **given)


@pytest.mark.usefixtures("handed_over")
def test_a_stopped_run_goes_on_with_its_code_alone(
    write_feature_folder: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = fedtag.Graph.from_folder(write_feature_folder(tmp_path / "data"))
    out, plain = tmp_path / "run", Rounds._round

    def stopped(self: Rounds, number: int, trackers: Any) -> None:
        if number == 2:
            raise KeyboardInterrupt
        plain(self, number, trackers)

    with monkeypatch.context() as patch:
        patch.setattr(Rounds, "_round", stopped)
        with pytest.raises(KeyboardInterrupt):
            fedtag.simulate(graph, method=method_spec("lasso", scaled(1.0)), clients=2, rounds=3, out=out)
    before = {path: path.read_bytes() for path in out.rglob("*") if path.is_file()}
    refused = r"run was run with other code of lasso: go on with that code, or start a new run"
    with pytest.raises(RunError, match=refused):
        fedtag.open_run(out, method_spec("lasso", scaled(-1.0))).resume(progress=False)
    assert {path: path.read_bytes() for path in out.rglob("*") if path.is_file()} == before
    run = fedtag.open_run(out, method_spec("lasso", scaled(1.0))).resume(progress=False)
    assert run.finished
    with pytest.raises(RunError, match=refused):
        fedtag.open_run(out, method_spec("lasso", scaled(-1.0))).resume(rounds=4, progress=False)
    longer = fedtag.open_run(out, method_spec("lasso", scaled(1.0))).resume(rounds=4, progress=False)
    assert len(longer.rounds) == 4
    with pytest.raises(RunError, match=refused.removeprefix("run was ")):
        fedtag.open_run(longer.path, method_spec("lasso", scaled(2.0))).resume(rounds=5, progress=False)


def test_what_packages_bring_counts_by_settings_alone() -> None:
    assert own_code(RunConfig.from_flat({"method": "fedavg"})) == {}
