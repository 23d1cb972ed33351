"""What a file is, by its content first and its name second: the tables that it holds."""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from pathlib import Path

from fedtag.client.data.reading.forms import SHEETS, WORKBOOK, form_of
from fedtag.graph.importing.arrow_file import parquet_source
from fedtag.graph.importing.compression import check_members, unpacked
from fedtag.graph.importing.database import stored_tables
from fedtag.graph.importing.delimited import delimited_source
from fedtag.graph.importing.json_text import json_tables
from fedtag.graph.importing.network_file import READERS, XML, network_tables, xml_suffix
from fedtag.graph.importing.plain_text import plain_text
from fedtag.graph.importing.source import Source, refused
from fedtag.graph.importing.workbook import sheets

TABLE_MARK = "#"
"""Between a file and the name of a table in it."""


@dataclass(frozen=True)
class Place:
    """Where a table is.

    Args:
        path: of the file.
        table: its name there; empty where the file holds one, or nobody chose.
    """

    path: Path
    table: str

    def __str__(self) -> str:
        return f"{self.path.absolute()}{TABLE_MARK if self.table else ''}{self.table}"

    @classmethod
    def of(cls, text: str) -> Place:
        """A path, or `PATH#TABLE`.

        Raises:
            DataError: there is no such file.
        """
        marks = [place for place, sign in enumerate(text) if sign == TABLE_MARK]
        for end in (len(text), *marks):
            if Path(text[:end]).is_file():
                return cls(Path(text[:end]), text[end + 1 :])
        what = "is a folder" if Path(text).is_dir() else "there is no such file"
        raise refused(text, what, "name a file, or a table in one as FILE#TABLE")


def tables_of(path: Path, scratch: Path, encoding: str = "", separator: str = "") -> list[Source]:
    """The tables of a file.

    Args:
        path: of the file.
        scratch: folder for what is unpacked or encoded anew.
        encoding, separator: of text; found out where they are empty.

    Raises:
        DataError: it is of no form that is read, damaged, or not what its name says.
    """
    try:
        return _tables(path, scratch, encoding, separator)
    except OSError as error:
        raise refused(
            path.name, f"cannot be read ({error})", "check that the file is whole and readable"
        ) from error


def _tables(path: Path, scratch: Path, encoding: str, separator: str) -> list[Source]:
    file = path.name
    plain, packed = unpacked(path, scratch)
    form = form_of(plain)
    if form is not None:
        suffix = form.suffixes[0] if form.suffixes else ""
        if suffix == ".parquet":
            return [parquet_source(plain, file)]
        if suffix == ".db":
            return stored_tables(plain, file)
        if form in (WORKBOOK, SHEETS):
            check_members(plain)
        if form in (WORKBOOK, SHEETS) or suffix == ".xls":
            return sheets(plain, file)
        raise refused(file, form.what, form.remedy)
    if not plain.stat().st_size:
        raise refused(file, "the file is empty", "write a header line with the column names")
    kind = plain.suffix.lower()
    if kind in XML.values() or _is_xml(plain):
        # XML states its own encoding.
        return network_tables(plain, file, xml_suffix(plain, file))
    text = plain_text(plain, file, scratch, encoding)
    found = (*packed, *text.found)
    with text.path.open(encoding="utf-8-sig") as lines:
        start = next((line for line in lines if line.strip()), "").lstrip()
    if start.startswith(("{", "[")):
        return json_tables(text.path, file, found)
    if kind in READERS:
        return network_tables(text.path, file, kind)
    return [delimited_source(text.path, file, found, separator)]


def _is_xml(path: Path) -> bool:
    """Whether a file begins as XML does, in UTF-8 or UTF-16."""
    with path.open("rb") as content:
        start = content.read(64)
    for mark in (codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        start = start.removeprefix(mark)
    return start.replace(b"\0", b"").lstrip().startswith(b"<")
