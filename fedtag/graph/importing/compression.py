"""Compressed files, and files that are zip files inside, none of which may fill a disk or a memory."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import BinaryIO, cast

import pyarrow as pa

from fedtag.client.data.reading.forms import COPY_AGAIN, CUT_OFF, form_of
from fedtag.client.site.storage import FULL
from fedtag.graph.importing.source import refused

CHUNK = 2**20
OPENERS: Mapping[str, Callable[[Path], BinaryIO]] = {
    ".gz": lambda path: cast(BinaryIO, gzip.GzipFile(path)),
    ".bz2": lambda path: cast(BinaryIO, bz2.BZ2File(path)),
    ".xz": lambda path: cast(BinaryIO, lzma.LZMAFile(path)),  # noqa: SIM115 (closed where it is read)
    ".zst": lambda path: pa.input_stream(str(path), compression="zstd"),
    ".zip": lambda path: _only_member(path),
}
OF_MAC = "__MACOSX/"
"""Where a Mac's zip files keep icons and the like."""
DAMAGED = (OSError, EOFError, zlib.error, lzma.LZMAError, zipfile.BadZipFile, pa.ArrowException)
"""Raised of what is no whole compressed file."""
MOST_LAYERS = 3
"""Compressions inside one another, as of a file that a server packed once more on its way."""
SMALL, MOST_GROWTH = 2**28, 200
"""Bytes that any file may unpack to, and how many times its size those may be beyond."""


def unpacked(path: Path, scratch: Path) -> tuple[Path, tuple[str, ...]]:
    """A file without its compression, and what that was.

    Raises:
        DataError: it is cut off or damaged, or a zip file of several files.
    """
    plain, remarks = path, list[str]()
    while suffix := _packing(plain, inside=bool(remarks)):
        if len(remarks) == MOST_LAYERS:
            raise refused(path.name, f"is compressed more than {MOST_LAYERS} times", "unpack it yourself")
        plain = _without(plain, suffix, path, scratch)
        remarks.append(f"unpacked ({suffix[1:]})")
    return plain, tuple(remarks)


def _packing(path: Path, inside: bool) -> str:
    """The ending of files that are packed as this one is; empty where it is not, or a zip file inside."""
    form = form_of(path)
    suffix = "" if form is None or not form.suffixes else form.suffixes[-1]
    return suffix if suffix in OPENERS and not (inside and suffix == ".zip") else ""


def _without(packed: Path, suffix: str, path: Path, scratch: Path) -> Path:
    """A file without one compression; what is wrong with it is said of `path`, which the user knows."""
    copy = scratch / f"unpacked-{len(list(scratch.iterdir()))}-{path.stem}"
    try:
        with OPENERS[suffix](packed) as stream, copy.open("wb") as plain:
            while chunk := stream.read(CHUNK):
                plain.write(chunk)
                _check_growth(path, plain.tell())
    except DAMAGED as error:
        if isinstance(error, OSError) and error.errno in FULL:
            raise
        raise refused(path.name, CUT_OFF, COPY_AGAIN) from error
    return copy


def _only_member(path: Path) -> BinaryIO:
    archive = zipfile.ZipFile(path)
    names = [name for name in archive.namelist() if not name.endswith("/") and not name.startswith(OF_MAC)]
    if len(names) != 1:
        listed = ", ".join(names[:5]) or "nothing"
        raise refused(path.name, f"is a zip file of {len(names)} files ({listed})", "unpack it, and name one")
    try:
        return cast(BinaryIO, archive.open(names[0]))
    except RuntimeError as error:
        # It has a password, or was packed in a way that is not known.
        raise refused(
            path.name, f"cannot be unpacked ({error})", "unpack it, and name the file in it"
        ) from error


def _check_growth(path: Path, size: int) -> None:
    """Raise `DataError` where a small file fills a disk."""
    if size > SMALL and size > MOST_GROWTH * path.stat().st_size:
        what = f"is more than {MOST_GROWTH} times as large unpacked, as no table is"
        raise refused(path.name, what, "check it, and unpack it yourself")


def check_members(path: Path) -> None:
    """Raise `DataError` where a file that is a zip file inside is damaged, or small and fills a memory."""
    damaged: object = None
    try:
        with zipfile.ZipFile(path) as archive:
            _check_growth(path, sum(one.file_size for one in archive.infolist()))
            # Whoever reads on may not hold to the sizes that were stated; content beyond them fails this.
            damaged = archive.testzip()
    except (*DAMAGED, RuntimeError) as error:
        damaged = error
    if damaged is not None:
        raise refused(path.name, CUT_OFF, COPY_AGAIN)
