"""A model is its files: which they are, their SHA-256, and what is wrong where they are not whole."""

from __future__ import annotations

import hashlib
import json
import zipfile
from functools import lru_cache
from pathlib import Path

from fedtag.client.data.reading.forms import COPY_AGAIN, CUT_OFF, ZIP, form_of
from fedtag.common.errors import WeightsError

_CONFIGURATION = ("*.json", "*.txt", "*.model", "*.jinja")
_WEIGHTS = ("*.safetensors", "*.gguf")
_PICKLED = ("pytorch_model*.bin",)
CONFIGURED = [*_CONFIGURATION, *_WEIGHTS]
"""Patterns of a model's files, as a hub knows them."""
CONFIGURED_PICKLED = [*_CONFIGURATION, *_PICKLED]
"""The same of models whose weights are there in PyTorch's own form alone."""


def weight_files(folder: Path) -> list[Path]:
    """The files with weights in a model folder, sorted by name; of two forms of the same, the one that is loaded."""
    found = _matching(folder, _WEIGHTS)
    loaded = {path.parent for path in found}
    return sorted([*found, *(path for path in _matching(folder, _PICKLED) if path.parent not in loaded)])


def model_files(folder: Path) -> list[Path]:
    """Weights, tokeniser, pooling and configuration of a model folder; what a download leaves beside them is hidden."""
    return sorted({*_matching(folder, _CONFIGURATION), *weight_files(folder)})


def folder_revision(folder: Path) -> str:
    """A SHA-256 of weights, tokeniser, pooling and configuration by content: equal models, equal revision.

    Raises:
        WeightsError: a file is a Git LFS pointer, cut off or something else than its name says.
    """
    digest = hashlib.sha256()
    for path in model_files(folder):
        relative = path.relative_to(folder).as_posix()
        digest.update(f"{relative}\0{file_digest(path)}\0".encode())
    return digest.hexdigest()


def file_digest(path: Path) -> str:
    """The SHA-256 of a file of a model, in hexadecimal; computed once a process, as long as size and time stay.

    Raises:
        WeightsError: as for `folder_revision`.
    """
    found = path.stat()
    return _digest(path, found.st_size, found.st_mtime_ns)


@lru_cache(maxsize=1024)
def _digest(path: Path, size: int, changed: int) -> str:
    if fault := _fault(path):
        raise WeightsError(f"{path} {fault[0]}: {fault[1]}")
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _fault(path: Path) -> tuple[str, str] | None:
    """What a file is instead of what its name says, and the remedy."""
    form = form_of(path)
    if form is not None and form.start != ZIP:
        return form.what, form.remedy
    return None if _is_whole(path) else (CUT_OFF, COPY_AGAIN)


def _is_whole(path: Path) -> bool:
    if path.suffix == ".safetensors":
        return _holds_all_tensors(path)
    if path.suffix == ".bin":
        # An archive has its table of contents at the end; a bare pickle, as PyTorch once wrote, tells nothing.
        with path.open("rb") as file:
            return path.stat().st_size > 0 and (file.read(len(ZIP)) != ZIP or zipfile.is_zipfile(file))
    if path.suffix == ".json":
        try:
            json.loads(path.read_bytes())
        except (ValueError, RecursionError):
            return False
    return True


def _holds_all_tensors(path: Path) -> bool:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, "pt"):
            return True
    except SafetensorError:
        return False


def _matching(folder: Path, patterns: tuple[str, ...]) -> list[Path]:
    found = [path for pattern in patterns for path in folder.rglob(pattern) if path.is_file()]
    return [
        path for path in found if not any(part.startswith(".") for part in path.relative_to(folder).parts)
    ]
