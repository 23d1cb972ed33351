"""Checkpoints that survive damage and refuse foreign settings."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from fedtag.common.errors import RunError
from fedtag.server.state.checkpoint import CheckpointFolder

SETTINGS = {"seed": 1, "train": {"learning-rate": 0.01, "epochs": 3}}


@pytest.fixture
def folder(tmp_path: Path) -> CheckpointFolder:
    return CheckpointFolder(tmp_path / "checkpoint", SETTINGS)


def save(folder: CheckpointFolder, *rounds: int) -> None:
    for number in rounds:
        tensors = {
            "w": torch.full((2, 3), float(number)),
            "step": torch.tensor(number),
            "none": torch.zeros(0),
        }
        folder.save(number, tensors, {"best": 0.1 * number, "clients": {"a": [1, None]}})


def test_round_trip(folder: CheckpointFolder) -> None:
    assert folder.load_latest() is None
    save(folder, 7)
    assert [path.name for path in folder.path.iterdir()] == ["round-0007.safetensors"]
    checkpoint = folder.load_latest()
    assert checkpoint is not None
    assert (checkpoint.round, checkpoint.note) == (7, None)
    assert checkpoint.state == {"best": 0.1 * 7, "clients": {"a": [1, None]}}
    assert torch.equal(checkpoint.tensors["w"], torch.full((2, 3), 7.0))
    assert checkpoint.tensors["step"].shape == ()


def test_equal_states_make_equal_files(tmp_path: Path) -> None:
    for name in ("a", "b"):
        save(CheckpointFolder(tmp_path / name, SETTINGS), 3)
    files = [(tmp_path / name / "round-0003.safetensors").read_bytes() for name in ("a", "b")]
    assert files[0] == files[1]


def test_only_the_last_two_stay(folder: CheckpointFolder) -> None:
    folder.path.mkdir()
    (folder.path / ".round-0001.safetensors.abc.tmp").write_bytes(b"left by a killed process")
    (folder.path / "notes.txt").write_bytes(b"not ours")
    save(folder, 9998, 9999, 10000)
    assert folder.places() == [(9999, 0), (10000, 0)]
    assert len(list(folder.path.iterdir())) == 3
    save(folder, 5)
    assert folder.places() == [(5, 0)]


def test_steps_before_a_round_have_files_of_their_own(folder: CheckpointFolder) -> None:
    for step in (1, 2, 3):
        folder.save(0, {}, {"step": step}, step)
    assert [path.name for path in sorted(folder.path.iterdir())] == [
        "round-0000-0002.safetensors",
        "round-0000-0003.safetensors",
    ]
    latest = folder.load_latest()
    assert latest is not None
    assert (latest.round, latest.state) == (0, {"step": 3})
    save(folder, 1)
    assert folder.places() == [(0, 3), (1, 0)]


@pytest.mark.parametrize("damage", ["cut", "emptied", "bit", "header"])
def test_a_damaged_file_falls_back(folder: CheckpointFolder, damage: str) -> None:
    save(folder, 1, 2)
    newest = folder.path / "round-0002.safetensors"
    content = bytearray(newest.read_bytes())
    if damage == "bit":
        content[-1] ^= 1
    elif damage == "header":
        content = content.replace(b"0.2", b"0.3")
    else:
        content = content[: len(content) // 2 if damage == "cut" else 0]
    newest.write_bytes(content)
    checkpoint = folder.load_latest()
    assert checkpoint is not None
    assert checkpoint.round == 1
    assert checkpoint.note is not None
    assert "round-0002.safetensors is damaged" in checkpoint.note
    assert "from round 1" in checkpoint.note
    (folder.path / "round-0001.safetensors").write_bytes(b"")
    with pytest.raises(RunError, match="no checkpoint is left, start the run anew"):
        folder.load_latest()


def test_foreign_settings_are_named(folder: CheckpointFolder) -> None:
    save(folder, 1)
    same = CheckpointFolder(folder.path, {"train": {"epochs": 3, "learning-rate": 0.01}, "seed": 1})
    assert same.load_latest() is not None
    other = CheckpointFolder(folder.path, {"seed": 1, "train": {"learning-rate": 0.1, "epochs": 3}})
    with pytest.raises(
        RunError, match=r"other settings \(train\.learning-rate was 0\.01, now 0\.1\); resume with"
    ):
        other.load_latest()


def test_a_checkpoint_of_another_release_is_refused(
    folder: CheckpointFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("fedtag.server.state.checkpoint.SCHEMA", "1")
        save(folder, 1)
    with pytest.raises(RunError, match="has schema 1, this fedtag reads 6; resume with the same version"):
        folder.load_latest()


def test_state_must_be_finite_json(folder: CheckpointFolder) -> None:
    for state in ({"loss": float("nan")}, {"tensor": torch.ones(1)}):
        with pytest.raises(RunError, match="the state of round 1 cannot be written as JSON"):
            folder.save(1, {}, state)
    assert folder.places() == []


def test_a_failed_rename_keeps_the_earlier_checkpoints(
    folder: CheckpointFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(folder, 1, 2)

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        save(folder, 3)
    assert [path.name for path in sorted(folder.path.iterdir())] == [
        "round-0001.safetensors",
        "round-0002.safetensors",
    ]
