"""A comparison takes runs that are there for those of the code that it is given, and no others."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import fedtag
from fedtag.client.methods.base import ClientMethod
from fedtag.common.config import RunConfig
from fedtag.comparison.own_code import digest_of, own_code
from fedtag.errors import RunError
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


@pytest.mark.usefixtures("handed_over")
def test_a_run_of_other_code_is_not_taken(write_feature_folder: Callable[..., Path], tmp_path: Path) -> None:
    graph = fedtag.Graph.from_folder(write_feature_folder(tmp_path / "data"))
    given: dict[str, Any] = {"seeds": 1, "clients": 2, "rounds": 1, "out": tmp_path / "compared"}
    first = fedtag.compare(graph, [method_spec("lasso", scaled(1.0))], **given).runs
    again = fedtag.compare(graph, [method_spec("lasso", scaled(1.0))], **given).runs
    assert first.equals(again)
    with pytest.raises(
        RunError, match="was run with other code of lasso; choose another out=, or delete that run"
    ):
        fedtag.compare(graph, [method_spec("lasso", scaled(-1.0))], **given)


def test_what_packages_bring_counts_by_settings_alone() -> None:
    assert own_code(RunConfig.from_flat({"method": "fedavg"})) == {}
