"""One small table of papers, written in every form that is read."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
import sqlite3
import struct
import zipfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from xml.sax.saxutils import escape

import networkx as nx
import pyarrow as pa
import pyarrow.parquet as parquet

COLUMNS = ("paper", "abstract", "field")
PAPERS = tuple(
    (
        f"p{number:03}",
        f'Über Häfen, Teil {number}; "mit" {"Küste" if number % 2 else "Licht"}\nund mehr',
        ("Häfen", "Optik", None)[number % 3],
    )
    for number in range(30)
)
CITATIONS = tuple((f"p{number:03}", f"p{(number * 7 + 3) % 30:03}") for number in range(30))
ENDS = ("citing", "cited")

Rows = Sequence[Sequence[object]]


def delimited(
    separator: str, encoding: str = "utf-8", before: str = "", end: str = "\n"
) -> Callable[[Path, Sequence[str], Rows], None]:
    def write(path: Path, columns: Sequence[str], rows: Rows) -> None:
        text = io.StringIO(newline="")
        writer = csv.writer(text, delimiter=separator, lineterminator=end)
        writer.writerow(columns)
        writer.writerows(["" if value is None else value for value in row] for row in rows)
        path.write_bytes((before + text.getvalue()).encode(encoding))

    return write


def packed(pack: Callable[[bytes], bytes]) -> Callable[[Path, Sequence[str], Rows], None]:
    def write(path: Path, columns: Sequence[str], rows: Rows) -> None:
        delimited(";", "latin-1")(path, columns, rows)
        path.write_bytes(pack(path.read_bytes()))

    return write


def zipped(content: bytes) -> bytes:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        archive.writestr("table.csv", content)
    return held.getvalue()


def zstandard(content: bytes) -> bytes:
    return pa.compress(content, codec="zstd", asbytes=True)


def objects(columns: Sequence[str], rows: Rows) -> list[Mapping[str, object]]:
    return [dict(zip(columns, row, strict=True)) for row in rows]


def json_lines(path: Path, columns: Sequence[str], rows: Rows) -> None:
    lines = [json.dumps(row, ensure_ascii=False) for row in objects(columns, rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def json_array(path: Path, columns: Sequence[str], rows: Rows) -> None:
    path.write_text(json.dumps(objects(columns, rows), indent=1), encoding="utf-8")


def parquet_file(path: Path, columns: Sequence[str], rows: Rows) -> None:
    parquet.write_table(pa.table(dict(zip(columns, map(list, zip(*rows, strict=True)), strict=True))), path)


def database(path: Path, columns: Sequence[str], rows: Rows) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(f"CREATE TABLE t ({', '.join(columns)})")
        connection.executemany(f"INSERT INTO t VALUES ({', '.join('?' * len(columns))})", rows)


def workbook(path: Path, columns: Sequence[str], rows: Rows) -> None:
    """A workbook of one sheet, as small as the standard lets it be."""
    cells = [
        "".join(
            '<c t="inlineStr"><is><t xml:space="preserve">' + escape(str(value)) + "</t></is></c>"
            if isinstance(value, str)
            else f"<c><v>{value}</v></c>"
            if value is not None
            else "<c/>"
            for value in row
        )
        for row in (columns, *rows)
    ]
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    package = "http://schemas.openxmlformats.org/package/2006"
    kind = "application/vnd.openxmlformats-officedocument.spreadsheetml"
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{package}/content-types"><Default Extension="rels" '
        'ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        f'<Override PartName="/xl/workbook.xml" ContentType="{kind}.sheet.main+xml"/>'
        f'<Override PartName="/xl/worksheets/sheet1.xml" ContentType="{kind}.worksheet+xml"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{package}/relationships"><Relationship Id="r1" '
        f'Type="{office}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{package}/relationships"><Relationship Id="r1" '
        f'Type="{office}/worksheet" Target="worksheets/sheet1.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{main}" xmlns:r="{office}"><sheets>'
        '<sheet name="Papers" sheetId="1" r:id="r1"/></sheets></workbook>',
        "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{main}"><sheetData>'
        + "".join(f"<row>{row}</row>" for row in cells)
        + "</sheetData></worksheet>",
    }
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, f'<?xml version="1.0" encoding="UTF-8"?>{content}')


def opendocument(path: Path, columns: Sequence[str], rows: Rows) -> None:
    """A spreadsheet of OpenDocument with one sheet, as small as the standard lets it be."""
    spaces = " ".join(
        f'xmlns:{one}="urn:oasis:names:tc:opendocument:xmlns:{one}:1.0"'
        for one in ("office", "table", "text")
    )

    def cell(value: object) -> str:
        if value is None:
            return "<table:table-cell/>"
        if not isinstance(value, str):
            return f'<table:table-cell office:value-type="float" office:value="{value}"/>'
        lines = "".join(f"<text:p>{escape(line)}</text:p>" for line in value.split("\n"))
        return f'<table:table-cell office:value-type="string">{lines}</table:table-cell>'

    body = "".join(
        f"<table:table-row>{''.join(map(cell, row))}</table:table-row>" for row in (columns, *rows)
    )
    kind = "application/vnd.oasis.opendocument.spreadsheet"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("mimetype", kind)
        archive.writestr(
            "META-INF/manifest.xml",
            '<manifest:manifest xmlns:manifest="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0">'
            f'<manifest:file-entry manifest:full-path="/" manifest:media-type="{kind}"/></manifest:manifest>',
        )
        archive.writestr(
            "content.xml",
            f'<office:document-content {spaces}><office:body><office:spreadsheet><table:table table:name="Papers">'
            f"{body}</table:table></office:spreadsheet></office:body></office:document-content>",
        )


def old_workbook(path: Path, columns: Sequence[str], rows: Rows) -> None:
    """A workbook of Excel 97 (BIFF8) with one sheet, in a compound file of one stream ([MS-XLS], [MS-CFB])."""

    def record(kind: int, content: bytes) -> bytes:
        return struct.pack("<HH", kind, len(content)) + content

    def string(text: str, count: str) -> bytes:
        return struct.pack(count, len(text)) + b"\x01" + text.encode("utf-16-le")

    def cell(row: int, column: int, value: object) -> bytes:
        place = struct.pack("<HHH", row, column, 0)
        if isinstance(value, str):
            return record(0x0204, place + string(value, "<H"))
        return b"" if value is None else record(0x0203, place + struct.pack("<d", value))

    begin, end = (
        (lambda kind: record(0x0809, struct.pack("<HHHHII", 0x600, kind, 0, 0, 0, 0))),
        record(0x0A, b""),
    )
    sheet = begin(0x10) + b"".join(
        cell(row, column, value)
        for row, values in enumerate((columns, *rows))
        for column, value in enumerate(values)
    )
    name = string("Papers", "<B")
    first = len(begin(0x05)) + 4 + 6 + len(name) + len(end)
    stream = begin(0x05) + record(0x85, struct.pack("<IH", first, 0) + name) + end + sheet + end
    path.write_bytes(compound(stream))


def compound(stream: bytes) -> bytes:
    """A compound file that holds one stream, called Workbook: its table of sectors, its directory, its content."""
    # Streams of less than 4 KiB would lie elsewhere.
    stream = stream.ljust(4096, b"\0")
    sectors = -(-len(stream) // 512)
    none, last = 0xFFFFFFFF, 0xFFFFFFFE
    assert sectors + 2 <= 128, "the table is one sector"
    table = [0xFFFFFFFD, last, *range(3, sectors + 2), last]

    def entry(name: str, kind: int, child: int, start: int, size: int) -> bytes:
        written = f"{name}\0".encode("utf-16-le") if name else b""
        links = struct.pack("<HBBIII", len(written), kind, 1, none, none, child)
        return written.ljust(64, b"\0") + links + bytes(36) + struct.pack("<IQ", start, size)

    head = bytes.fromhex("d0cf11e0a1b11ae1") + bytes(16) + struct.pack("<HHHHH", 0x3E, 3, 0xFFFE, 9, 6)
    head += bytes(6) + struct.pack("<IIIIIIIII", 0, 1, 1, 0, 4096, last, 0, last, 0)
    head += struct.pack("<109I", 0, *[none] * 108)
    entries = entry("Root Entry", 5, 1, last, 0) + entry("Workbook", 2, none, 2, len(stream))
    entries += entry("", 0, none, 0, 0) * 2
    padded = struct.pack("<128I", *table, *[none] * (128 - len(table)))
    return head + padded + entries + stream.ljust(sectors * 512, b"\0")


def network() -> nx.Graph:
    graph = nx.Graph()
    for paper, abstract, field in PAPERS:
        graph.add_node(paper, abstract=abstract, **({"field": field} if field else {}))
    graph.add_edges_from(CITATIONS)
    return graph


TABLES: Mapping[str, tuple[str, Callable[[Path, Sequence[str], Rows], None]]] = {
    "commas": ("t.csv", delimited(",")),
    "semicolons": ("t.csv", delimited(";")),
    "tabs": ("t.tsv", delimited("\t")),
    "bars": ("t.txt", delimited("|")),
    "tildes": ("t.txt", delimited("~")),
    "returns": ("t.csv", delimited(",", end="\r\n")),
    "marked": ("t.csv", delimited(",", "utf-8-sig")),
    "utf-16": ("t.csv", delimited(";", "utf-16")),
    "utf-16 without a mark": ("t.csv", delimited(";", "utf-16-le")),
    "latin-1": ("t.csv", delimited(";", "latin-1")),
    "sep line": ("t.csv", delimited(";", before="sep=;\n")),
    "comments": ("t.csv", delimited(",", before="# export; of, all\n# 2024\n")),
    "gzip": ("t.csv.gz", packed(gzip.compress)),
    "bzip2": ("t.csv.bz2", packed(bz2.compress)),
    "xz": ("t.csv.xz", packed(lzma.compress)),
    "zstd": ("t.csv.zst", packed(zstandard)),
    "zip": ("t.zip", packed(zipped)),
    "misnamed": ("t.csv", parquet_file),
    "json lines": ("t.jsonl", json_lines),
    "json array": ("t.json", json_array),
    "parquet": ("t.parquet", parquet_file),
    "workbook": ("t.xlsx", workbook),
    "old workbook": ("t.xls", old_workbook),
    "opendocument": ("t.ods", opendocument),
    "sqlite": ("t.db", database),
}
NETWORKS: Mapping[str, Callable[[nx.Graph, Path], None]] = {
    "graphml": nx.write_graphml,
    "gexf": nx.write_gexf,
    "gml": nx.write_gml,
}
