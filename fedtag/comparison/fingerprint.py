"""Which version of its data a run was made with."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

from fedtag.client.data.pydocs import is_pydocs, packages_of
from fedtag.common.config.places import SEPARATOR
from fedtag.common.errors import DataError

STEMS = ("nodes", "edges", "cross_edges", "features", "meta", "tag")
"""The files of a data folder that are read, without their suffixes."""


def fingerprint_of(source: str) -> str:
    """SHA-256 over what a source holds, in hexadecimal.

    A folder counts by names and contents of its own files, a .npz by its content, several sources by all
    of them in their order, pydocs by the versions of its packages, and a public set by its name.

    Args:
        source: as for `fedtag simulate`; several are joined by semicolons.

    Raises:
        DataError: a file cannot be read.
    """
    digest = hashlib.sha256()
    for one in (part.strip() for part in source.split(SEPARATOR)):
        for part in parts_of(one):
            content = part.encode("utf-8", "surrogatepass")
            digest.update(len(content).to_bytes(8, "big") + content)
    return digest.hexdigest()


def parts_of(source: str) -> list[str]:
    """What tells one version of a source from another."""
    path = Path(source)
    if is_pydocs(source):
        return [source.partition(":")[0], *versions(packages_of(source))]
    if path.is_dir():
        files = sorted(file for file in path.iterdir() if file.stem in STEMS and file.is_file())
        return ["folder", *(part for file in files for part in (file.name, content_of(file)))]
    if path.is_file():
        return ["file", content_of(path)]
    return ["name", source.lower()]


def content_of(file: Path) -> str:
    """SHA-256 of a file, read in pieces."""
    try:
        with file.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise DataError(f"{file} cannot be read ({error.strerror}); check its permissions.") from error


def versions(packages: Iterable[str]) -> list[str]:
    """Packages with what is installed of them; those of Python itself have its version."""
    distributions = metadata.packages_distributions()
    found = []
    for package in packages:
        names = sorted(set(distributions.get(package.partition(".")[0], ())))
        installed = [f"{name} {metadata.version(name)}" for name in names]
        found.append(f"{package}: {', '.join(installed) or 'Python ' + platform.python_version()}")
    return found
