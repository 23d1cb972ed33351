"""What a file is by its first bytes, where its name says something else."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path

from fedtag.client.data.problems import Problems

CUT_OFF = "is cut off or damaged"
COPY_AGAIN = "copy or download it again"
THROUGH_IMPORT = "make the folder with `fedtag import`, which reads it as it is"


@dataclass(frozen=True)
class Form:
    """A kind of file.

    Args:
        what: said of a file that is one.
        remedy: where another kind was expected.
        suffixes: of files that may be one.
        start: of its content.
    """

    what: str
    remedy: str
    suffixes: tuple[str, ...]
    start: bytes


FORMS = (
    Form(
        "is a Git LFS pointer, not the file itself",
        "fetch it with git lfs pull",
        (),
        b"version https://git-lfs",
    ),
    Form("is a Parquet file", "give it the ending .parquet", (".parquet",), b"PAR1"),
    Form("is a NumPy array", "give it the ending .npy", (".npy",), b"\x93NUMPY"),
    Form("is compressed (gzip)", f"unpack it with gunzip, or {THROUGH_IMPORT}", (".gz",), b"\x1f\x8b"),
    Form("is compressed (zstd)", f"unpack it, or {THROUGH_IMPORT}", (".zst",), b"\x28\xb5\x2f\xfd"),
    Form("is compressed (bzip2)", f"unpack it, or {THROUGH_IMPORT}", (".bz2",), b"BZh"),
    Form("is compressed (xz)", f"unpack it, or {THROUGH_IMPORT}", (".xz",), b"\xfd7zXZ"),
    Form("is an SQLite database", THROUGH_IMPORT, (".db", ".sqlite", ".sqlite3"), b"SQLite format 3\x00"),
    Form("is an old Excel workbook", f"save it as CSV, or {THROUGH_IMPORT}", (".xls",), b"\xd0\xcf\x11\xe0"),
    Form("is an HDF5 file", "write it as Parquet or CSV", (".h5", ".hdf5"), b"\x89HDF"),
    Form("is a PDF document", "give the data", (".pdf",), b"%PDF"),
    Form("is a web page", "download the file itself", (".html",), b"<!doctype html"),
    Form("is a web page", "download the file itself", (".html",), b"<html"),
)
ZIP = b"PK\x03\x04"
WORKBOOK = Form(
    "is an Excel workbook (a spreadsheet)", f"save it as CSV, or {THROUGH_IMPORT}", (".xlsx", ".xlsm"), ZIP
)
SHEETS = Form("is an OpenDocument spreadsheet", f"save it as CSV, or {THROUGH_IMPORT}", (".ods",), ZIP)
ARCHIVE = Form("is a zip file", "unpack it", (".npz", ".pt", ".zip"), ZIP)


def form_of(path: Path) -> Form | None:
    """What a file is by its content; None where that says nothing, as of text.

    Raises:
        OSError: it cannot be read.
    """
    with path.open("rb") as file:
        start = file.read(64)
    if start.startswith(ZIP):
        try:
            with zipfile.ZipFile(path) as archive:
                names = archive.namelist()
        except zipfile.BadZipFile:
            return ARCHIVE
        if any(name.startswith("xl/") for name in names):
            return WORKBOOK
        return SHEETS if "content.xml" in names else ARCHIVE
    return next((form for form in FORMS if start.lower().startswith(form.start.lower())), None)


def is_named_rightly(path: Path, problems: Problems) -> bool:
    """Whether a file may be what its name says; what it is otherwise is reported.

    Raises:
        OSError: it cannot be read.
    """
    form = form_of(path)
    if form is None or path.suffix.lower() in form.suffixes:
        return True
    problems.add(path.name, form.what, form.remedy)
    return False
