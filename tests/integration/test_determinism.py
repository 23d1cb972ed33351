"""Same seed, same machine, same bytes; the order of sites and the number of threads decide nothing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import safetensors.torch
import torch

if TYPE_CHECKING:
    from tests.integration.conftest import Federated

Federate = Callable[..., "Federated"]
MEASURED = {"seconds", "seconds_by_phase", "bytes_up", "bytes_down"}


def rows_of(run: Federated) -> list[dict[str, object]]:
    """The rounds without durations, and without bytes, in which the digits of durations count."""
    return [
        {name: value for name, value in vars(row).items() if name not in MEASURED}
        for row in run.directory.read_rounds()
    ]


def model_bytes(run: Federated) -> bytes:
    return (run.directory.path / "model.safetensors").read_bytes()


def evidence_bytes(run: Federated) -> dict[str, bytes]:
    return {
        str(file.relative_to(site.evidence)) + site.name: file.read_bytes()
        for site in run.sites
        for file in sorted(site.evidence.rglob("*.parquet"))
    }


def test_same_seed_gives_the_same_bytes(
    dance_run: Federated, dance_settings: dict[str, object], run_federation: Federate, tmp_path: Path
) -> None:
    again = run_federation(tmp_path / "run", dance_settings)
    assert model_bytes(again) == model_bytes(dance_run)
    assert rows_of(again) == rows_of(dance_run)
    assert evidence_bytes(again) == evidence_bytes(dance_run)
    for first, second in zip(dance_run.directory.read_rounds(), again.directory.read_rounds(), strict=True):
        assert abs(first.bytes_up - second.bytes_up) < 100
        assert abs(first.bytes_down - second.bytes_down) < 100


def test_another_seed_gives_another_model(
    dance_run: Federated, dance_settings: dict[str, object], run_federation: Federate, tmp_path: Path
) -> None:
    other = run_federation(tmp_path / "run", {**dance_settings, "seed": 1, "rounds": 1})
    assert model_bytes(other) != model_bytes(dance_run)


@pytest.mark.parametrize("method", ["fedavg", "dance"])
def test_order_of_sites_changes_nothing(
    dance_settings: dict[str, object], run_federation: Federate, tmp_path: Path, method: str
) -> None:
    settings = {**dance_settings, "method": method, "rounds": 3}
    forward = run_federation(tmp_path / "forward", settings)
    backward = run_federation(
        tmp_path / "backward", settings, order=lambda sessions: tuple(reversed(sessions))
    )
    assert model_bytes(forward) == model_bytes(backward)
    assert rows_of(forward) == rows_of(backward)


@pytest.mark.parametrize(("optimizer", "tolerance"), [("sgd", 1e-5), ("adam", 1e-2)])
def test_threads_change_rounding_only(
    dance_settings: dict[str, object],
    run_federation: Federate,
    tmp_path: Path,
    optimizer: str,
    tolerance: float,
) -> None:
    """Adam divides by the gradient's own size, so that rounding in a tiny gradient moves a weight by up to a step."""
    settings = {**dance_settings, "rounds": 2, "train.optimizer": optimizer}
    one = run_federation(tmp_path / "one", settings)
    torch.set_num_threads(2)
    try:
        two = run_federation(tmp_path / "two", settings, sites=one.sites)
    finally:
        torch.set_num_threads(1)
    alone, together = (safetensors.torch.load(model_bytes(run)) for run in (one, two))
    assert alone.keys() == together.keys()
    for name in alone:
        torch.testing.assert_close(alone[name], together[name], atol=tolerance, rtol=0)


def test_links_by_an_index_are_the_same_again_and_the_summary_names_it(
    dance_run: Federated, dance_settings: dict[str, object], run_federation: Federate, tmp_path: Path
) -> None:
    assert dance_run.summary.link_candidates == "exact"
    settings = {**dance_settings, "rounds": 2, "dance.exact-core": 1, "dance.two-hop-paths": 1}
    first, again = (run_federation(tmp_path / name, settings) for name in ("first", "again"))
    assert first.summary.link_candidates == "approximate"
    assert model_bytes(first) == model_bytes(again)
    assert rows_of(first) == rows_of(again)
    cores = {row.client: row.condensation["core"] for row in first.directory.read_clients()}
    most = max(size for size in cores.values() if size is not None) - 1
    mixed = run_federation(tmp_path / "mixed", {**settings, "dance.exact-core": most})
    above = sum(size is not None and size > most for size in cores.values())
    assert mixed.summary.link_candidates == f"approximate at {above} of {len(cores)} clients"
    induced = run_federation(tmp_path / "induced", {**settings, "rounds": 1, "dance.topology": "induced"})
    assert induced.summary.link_candidates is None
