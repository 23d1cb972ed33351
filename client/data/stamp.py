"""What a data folder holds, told apart from what it held before."""

from __future__ import annotations

import hashlib
from pathlib import Path

from fedtag.client.data.assembly import FOLDER_FEATURES
from fedtag.client.data.metadata import META_FILES
from fedtag.client.data.reading.files import table_files
from fedtag.common.secure.canonical import canonical

FILES = (
    *META_FILES,
    *table_files("nodes"),
    *table_files("edges"),
    *table_files("cross_edges"),
    FOLDER_FEATURES,
)
"""Of which `read_folder` reads those that are there."""

Stamp = tuple[tuple[str, int, int], ...]


def stamp_of(folder: Path) -> Stamp:
    """Name, size and time of each file of the data; files beside them, which a site may write, do not count."""
    files = [(name, (folder / name).stat()) for name in FILES if (folder / name).is_file()]
    return tuple(sorted((name, found.st_size, found.st_mtime_ns) for name, found in files))


def data_digest(folder: Path) -> str:
    """SHA-256 (hex) over names and contents of the files of the data."""
    digest = hashlib.sha256()
    for name in sorted(FILES):
        path = folder / name
        if path.is_file():
            with path.open("rb") as file:
                digest.update(canonical(name, hashlib.file_digest(file, "sha256").digest()))
    return digest.hexdigest()
