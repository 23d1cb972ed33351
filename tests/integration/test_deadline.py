"""A deadline ends local training, not the round: what was done until then counts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fedtag.deploy.cli import app
from fedtag.server.tracking.run_directory import RunDirectory

EPOCHS = 10**7
DEADLINE = 0.5
PINNED = ("--set", "privacy.secure-aggregation=true", "--set", "privacy.roster=true")


@pytest.mark.parametrize("privacy", [(), PINNED], ids=["plain", "secure"])
def test_endless_training_ends_in_time_and_counts_with_its_steps(
    privacy: tuple[str, ...], tmp_path: Path, write_feature_folder: Callable[..., Path]
) -> None:
    """The clients work one after the other, so that most replies come after the deadline of their exchange."""
    sources = [str(write_feature_folder(tmp_path / f"site-{k}", seed=k)) for k in range(3)]
    data = [argument for source in sources for argument in ("--data", source)]
    options = ("--rounds", "2", "--device", "cpu", "--out", str(tmp_path / "run"), *privacy)
    work = ("--deadline", str(DEADLINE), "--set", f"train.epochs={EPOCHS}")
    fednova = ("--set", "aggregation.normalise=fednova")
    result = CliRunner().invoke(app, ["simulate", "--method", "fedavg", *data, *options, *work, *fednova])
    assert result.exit_code == 0, result.stderr
    run = RunDirectory.open(tmp_path / "run")
    rows = run.read_clients()
    assert [(row.round, row.client) for row in rows] == [(t, f"site-{k}") for t in (1, 2) for k in range(3)]
    for row in rows:
        assert row.failed is None
        assert row.steps is not None
        assert 1 < row.steps < EPOCHS
        assert row.normaliser == row.steps
        assert row.weight == pytest.approx(1 / 3)
    assert [(row.clients_ok, row.clients_failed, row.empty) for row in run.read_rounds()] == [
        (3, 0, False)
    ] * 2
    assert run.read_config()["exchange"]["deadline"] == DEADLINE
    kinds = {row.kind for row in run.read_disclosures()}
    assert ("sign" in kinds) == ("masked" in kinds) == bool(privacy)
    assert ("update" in kinds) != bool(privacy)
