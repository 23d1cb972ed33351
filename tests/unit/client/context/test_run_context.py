from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from fedtag.client.context.memory import PastMemory
from fedtag.client.context.run_context import RunContext
from fedtag.client.run.site_run import SiteRun
from fedtag.client.site.site import Site
from fedtag.client.site.state import Remembered
from fedtag.common.config import RunConfig
from fedtag.common.errors import DataError
from fedtag.common.methods.da_dfgas.settings import DaDfgasConfig
from fedtag.common.wire.records import Content
from tests.exchanges import context_of


@pytest.fixture
def open_site(tmp_path: Path, write_feature_folder: Callable[..., Path]) -> Callable[..., SiteRun]:
    folder = write_feature_folder(tmp_path / "site", 15)

    def build(method: str = "fedavg", **changes: Any) -> SiteRun:
        config = RunConfig.from_flat({"method": method, **changes})
        return SiteRun(Site("site", folder, tmp_path / "work", tmp_path / "cache", "cpu"), config)

    return build


def test_the_deadline_counts_from_now(
    open_site: Callable[..., SiteRun], monkeypatch: pytest.MonkeyPatch
) -> None:
    site = open_site()
    monkeypatch.setattr("fedtag.client.context.run_context.time.monotonic", lambda: 50.0)
    limited = context_of(site, content=Content({}, {"training_seconds": 2.5}))
    assert limited.training_deadline() == 52.5
    assert context_of(site).training_deadline() is None


def test_a_method_gets_its_own_settings(open_site: Callable[..., SiteRun]) -> None:
    assert context_of(open_site()).settings is None
    own = context_of(open_site("da_dfgas", **{"da_dfgas.cells": 3})).settings
    assert isinstance(own, DaDfgasConfig)
    assert own.cells == 3


def test_cached_values_belong_to_data_settings_and_run(open_site: Callable[..., SiteRun]) -> None:
    site, other = open_site(), open_site(seed=1)
    data = site.data
    contexts = [context_of(site), context_of(site, 2), context_of(site, run="other"), context_of(other)]
    found = [context.cached(data, "x", lambda: object()) for context in contexts]
    assert found[0] is found[1]
    assert len(set(map(id, found))) == 3
    assert contexts[0].cached(data.with_features(data.graph.x), "x", lambda: None) is None


def test_draws_depend_on_seed_and_purpose(open_site: Callable[..., SiteRun]) -> None:
    def drawn(context: RunContext[Any], *purpose: str | int) -> float:
        return float(torch.rand((), generator=context.generator(*purpose)))

    one, again, other = (context_of(open_site(seed=seed)) for seed in (0, 0, 1))
    assert drawn(one, "a", 1) == drawn(again, "a", 1)
    assert len({drawn(one, "a", 1), drawn(one, "a", 2), drawn(other, "a", 1)}) == 3


def test_what_is_derived_is_kept_for_the_run_and_for_predictions_after_it(
    open_site: Callable[..., SiteRun], tmp_path: Path
) -> None:
    site = open_site()

    def built(value: float) -> Remembered:
        return Remembered({"x": torch.tensor([value])}, {})

    def of(run: str, value: float) -> float:
        return float(context_of(site, run=run).memory.derived("x", lambda: built(value)).tensors["x"])

    assert [of("run", 1.0), of("run", 2.0), of("other", 3.0)] == [1.0, 1.0, 3.0]
    after = PastMemory(site.site.state).derived("x", lambda: built(4.0))
    assert float(after.tensors["x"]) == 3.0
    assert float(PastMemory().derived("x", lambda: built(5.0)).tensors["x"]) == 5.0
    with pytest.raises(DataError, match="keeps no 'y' of any run: give the workspace"):
        PastMemory(site.site.state).derived("y", lambda: built(6.0))
