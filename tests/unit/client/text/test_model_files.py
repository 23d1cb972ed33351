"""The digest of a model, against SHA-256 by hand; files that are not what they are called."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from fedtag.client.text.encoder import Encoder
from fedtag.client.text.language_model import LanguageModel
from fedtag.client.text.model_files import folder_revision, model_files, weight_files
from fedtag.common.errors import WeightsError
from tests.encoders import save_tiny_encoder

POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny_encoder(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def copy(model: Path, tmp_path: Path) -> Path:
    return shutil.copytree(model, tmp_path / "copy")


def test_the_digest_is_that_of_names_and_contents(model: Path) -> None:
    files = sorted(path for path in model.rglob("*") if path.is_file())
    assert {path.name for path in files} >= {"model.safetensors", "tokenizer.json", "modules.json"}
    digest = hashlib.sha256()
    for path in files:
        content = hashlib.sha256(path.read_bytes()).hexdigest()
        digest.update(f"{path.relative_to(model).as_posix()}\0{content}\0".encode())
    assert folder_revision(model) == Encoder(str(model)).revision == digest.hexdigest()


@pytest.mark.parametrize(
    "name", ["model.safetensors", "tokenizer.json", "1_Pooling/config.json", "config.json"]
)
def test_weights_tokeniser_and_pooling_are_the_encoder(copy: Path, name: str) -> None:
    before = Encoder(str(copy)).revision
    path = copy / name
    content = path.read_bytes()
    # As long as it was, so that its size does not tell.
    changed = (
        content[:-1] + bytes([content[-1] ^ 1])
        if name.endswith("tensors")
        else content.replace(b"1", b"2", 1)
    )
    path.write_bytes(changed)
    assert path.stat().st_size == len(content)
    assert Encoder(str(copy)).revision != before
    path.write_bytes(content)
    assert Encoder(str(copy)).revision == before


def test_what_no_model_is_made_of_does_not_count(copy: Path, model: Path) -> None:
    (copy / "README.md").write_text("about")
    hidden = copy / ".cache" / "huggingface"
    hidden.mkdir(parents=True)
    (hidden / "download.json").write_text("{}")
    # Of two forms of the same weights the safe one is loaded.
    (copy / "pytorch_model.bin").write_bytes(b"PK\x03\x04 cut")
    assert folder_revision(copy) == folder_revision(model)
    assert [path.name for path in weight_files(copy)] == ["model.safetensors"]
    (copy / "model.safetensors").unlink()
    assert [path.name for path in weight_files(copy)] == ["pytorch_model.bin"]


def test_a_file_is_read_once_a_process(copy: Path) -> None:
    before = folder_revision(copy)
    weights = copy / "model.safetensors"
    content, times = weights.read_bytes(), weights.stat()
    weights.write_bytes(bytes(len(content)))
    os.utime(weights, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert folder_revision(copy) == before, "size and time are those of before"
    os.utime(weights, ns=(times.st_atime_ns, times.st_mtime_ns + 1))
    with pytest.raises(WeightsError):
        folder_revision(copy)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-5])


def pointer(path: Path) -> None:
    path.write_bytes(POINTER)


def page(path: Path) -> None:
    path.write_bytes(b"<!DOCTYPE html><title>Log in</title>")


@pytest.mark.parametrize("kind", [Encoder, LanguageModel])
@pytest.mark.parametrize(
    ("damage", "name", "told"),
    [
        (
            pointer,
            "model.safetensors",
            "is a Git LFS pointer, not the file itself: fetch it with git lfs pull",
        ),
        (pointer, "tokenizer.json", "is a Git LFS pointer, not the file itself: fetch it with git lfs pull"),
        (cut, "model.safetensors", "is cut off or damaged: copy or download it again"),
        (cut, "tokenizer.json", "is cut off or damaged: copy or download it again"),
        (page, "model.safetensors", "is a web page: download the file itself"),
    ],
)
def test_files_that_are_not_what_they_are_called_are_named(
    kind: Callable[[str], Encoder | LanguageModel],
    damage: Callable[[Path], None],
    name: str,
    told: str,
    copy: Path,
) -> None:
    damage(copy / name)
    with pytest.raises(WeightsError) as caught:
        _ = kind(str(copy)).revision
    assert str(caught.value) == f"{copy / name} {told}"


def test_weights_of_pytorch_that_are_cut_are_called_so(copy: Path) -> None:
    (copy / "model.safetensors").unlink()
    weights = copy / "pytorch_model.bin"
    torch.save({"w": torch.zeros(300)}, weights)
    assert folder_revision(copy)
    cut(weights)
    with pytest.raises(WeightsError, match=r"pytorch_model.bin is cut off or damaged"):
        folder_revision(copy)
    assert weights in model_files(copy)
