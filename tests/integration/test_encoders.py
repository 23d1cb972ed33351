"""An encoder is its content: sites of one run have the same, and what was trained with one is used with no other."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from fedtag.client.run.site_run import SiteRun
from fedtag.client.run.snapshot import keep_features
from fedtag.client.site.site import Site
from fedtag.client.text.encoder import Encoder
from fedtag.common.config import RunConfig
from fedtag.common.config.run_config import without_foreign
from fedtag.common.errors import ProtocolError
from fedtag.deploy.cli import app
from fedtag.server.run.rounds import Rounds
from fedtag.server.state.checkpoint import CheckpointFolder
from fedtag.server.state.run_state import RunState
from fedtag.server.tracking.run_directory import RunDirectory
from tests.encoders import save_tiny_encoder
from tests.tiny import TINY, MeddlingGrid, Notes

NAME = "tiny"
WriteFolder = Callable[..., Path]


def fedtag(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def encoders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two of one name and other weights."""
    place = tmp_path_factory.mktemp("encoders")
    one, other = (
        save_tiny_encoder(place / which / NAME, seed) for seed, which in enumerate(("one", "other"))
    )
    return one, other


def texts(path: Path, write: WriteFolder, seed: int) -> Path:
    folder = write(path, nodes=24, seed=seed)
    (folder / "features.npy").unlink()
    return folder


def test_a_site_with_other_weights_under_the_name_is_refused_with_both_digests(
    encoders: tuple[Path, Path], tmp_path: Path, write_feature_folder: WriteFolder
) -> None:
    one, other = (Encoder(str(path)).revision for path in encoders)
    assert one != other
    flat = {**TINY, "clients": 3, "rounds": 1, "text.encoder": NAME, "exchange.quorum": 0.5}
    config = RunConfig.from_flat(without_foreign(flat))
    sites = [
        Site(
            f"site-{place}",
            texts(tmp_path / f"data-{place}", write_feature_folder, place),
            tmp_path / f"site-{place}",
            tmp_path / "cache",
            "cpu",
            models=(encoders[place == 1].parent,),
        )
        for place in range(3)
    ]
    directory, notes = RunDirectory(tmp_path / "run"), Notes()
    grid = MeddlingGrid([SiteRun(site, config) for site in sites])
    summary = Rounds(grid, config, directory, notes, report=False).run()
    assert summary.clients == 2
    (refusal,) = {row.failed for row in directory.read_clients() if row.failed}
    assert f"its features (encoder SHA-256 {other}, 16 dimensions) are not the federation's" in refusal
    assert f"(encoder SHA-256 {one}, 16): use the same encoder everywhere, with the same files" in refusal
    # Introduction, checkpoint, model.json and card say the same.
    told = {
        crossed.reply.content.values["introduction"]["features"]
        for exchange in grid.exchanges
        for crossed in exchange
        if crossed.reply is not None and "introduction" in crossed.reply.content.values
    }
    assert told == {f"encoder SHA-256 {one}", f"encoder SHA-256 {other}"}
    restored = RunState.load(CheckpointFolder(directory.path / "checkpoint", config.decisive()))
    assert restored is not None
    assert restored[0].agreement is not None
    assert restored[0].agreement.features == f"encoder SHA-256 {one}"
    assert directory.read_model_card()["features"] == f"encoder SHA-256 {one}"
    card = (directory.path / "README.md").read_text()
    assert f"| Features | texts by the encoder {NAME}, SHA-256 {one} |" in card
    assert f"made by the encoder `{NAME}`" in card


def test_a_run_goes_on_with_the_encoder_that_it_began_with(tmp_path: Path) -> None:
    site = Site("site", tmp_path, tmp_path, tmp_path)
    keep_features(site, "run", "encoder SHA-256 aa")
    keep_features(site, "run", "encoder SHA-256 aa")
    keep_features(site, "next", "encoder SHA-256 bb")
    with pytest.raises(ProtocolError, match=r"SHA-256 bb, and in this run before from .* aa: restore"):
        keep_features(site, "run", "encoder SHA-256 bb")


def test_a_model_is_used_with_the_encoder_that_it_was_trained_with_alone(
    encoders: tuple[Path, Path],
    tmp_path: Path,
    write_feature_folder: WriteFolder,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FEDTAG_CACHE", str(tmp_path / "cache"))
    place = shutil.copytree(encoders[0], tmp_path / "models" / NAME)
    folder, run = texts(tmp_path / "data", write_feature_folder, 0), tmp_path / "run"
    options = ("--data", folder, "--clients", 2, "--rounds", 1, "--set", f"text.encoder={place}")
    trained = fedtag("simulate", "--method", "dance", *options, "--out", run)
    assert trained.exit_code == 0, trained.stderr
    fitting = fedtag("predict", run, folder, "--out", tmp_path / "good.parquet")
    assert fitting.exit_code == 0, fitting.stderr
    one, other = (Encoder(str(path)).revision for path in encoders)
    shutil.rmtree(place)
    shutil.copytree(encoders[1], place)
    before = sorted(run.rglob("*"))
    commands = (
        ("predict", run, folder, "--out", tmp_path / "bad.parquet"),
        ("audit", run, "--faithfulness"),
        ("privacy-audit", run),
        ("simulate", "--method", "dance", *options, "--from", run, "--out", tmp_path / "next"),
    )
    for command in commands:
        refused = fedtag(*command)
        assert refused.exit_code == 2, (command[0], refused.output)
        assert one in refused.stderr, command[0]
        assert other in refused.stderr, command[0]
    assert sorted(run.rglob("*")) == before
    assert not (tmp_path / "bad.parquet").exists()
    assert not (tmp_path / "next").exists()


def test_features_of_a_folder_name_no_encoder(tmp_path: Path, write_feature_folder: WriteFolder) -> None:
    folder, run = write_feature_folder(tmp_path / "data", nodes=24), tmp_path / "run"
    options = ("--data", folder, "--clients", 2, "--rounds", 1, "--out", run)
    assert fedtag("simulate", "--method", "fedavg", *options).exit_code == 0
    assert RunDirectory.open(run).read_model_card()["features"] == "features.npy"
    card = (run / "README.md").read_text()
    assert "| Features | features.npy of each institution, made by no encoder of the run |" in card
    assert "made by the encoder" not in card
