"""Evidence packs on the institution's disk: one Parquet file a round, see `docs/evidence.md`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as parquet

from fedtag.client.evidence.account import account_of
from fedtag.client.evidence.pack_table import PackTable, columns
from fedtag.client.evidence.packs import EvidencePack, Kind
from fedtag.client.site.whole_file import whole
from fedtag.common.errors import DataError, RunError

SCHEMA = 3
"""Version of the columns; a reader refuses any other."""
_VERSION = b"fedtag.evidence"
_FILE_NAME = re.compile(r"round-(\d{4,})\.parquet")
_ROWS = 1 << 16  # that are encoded at a time
_NUMBERS = (
    "confidence",
    "evidence_share",
    "neighbours.list.element.row",
    "neighbours.list.element.weight",
    "chunks.list.element.row",
    "chunks.list.element.start",
    "chunks.list.element.end",
    "chunks.list.element.weight",
)
_NAMES = ("kind", "model", "prediction", "label", "round", "neighbours.list.element.hop")


def round_file(folder: Path, round_number: int) -> Path:
    """Where the packs of a round lie."""
    return folder / f"round-{round_number:04d}.parquet"


def round_of(path: Path) -> int:
    """The round that the name of a file states."""
    return int(path.stem.removeprefix("round-"))


def write_packs(folder: Path, round_number: int, packs: Sequence[EvidencePack], durable: bool = True) -> Path:
    """Write the packs of one round to `folder/round-0012.parquet`, in the order given.

    `durable` is that of `write_whole`.

    Returns:
        The path of the file. The same packs give the same bytes.

    Raises:
        RunError: a pack belongs to another round, or a weight is not finite.
    """
    try:
        table = PackTable.of(packs)
    except ValueError as error:
        raise RunError(f"the evidence of round {round_number} cannot be written: {error}") from error
    odd = [
        number for number in table.table["round"].drop_null().unique().to_pylist() if number != round_number
    ]
    if odd:
        raise RunError(
            f"a pack belongs to round {odd[0]}, but is written under round {round_number}: "
            f"write it with its own round"
        )
    fault = _not_finite(table.table)
    if fault:
        raise RunError(f"{fault}: evidence is written from finite numbers only")
    schema = table.table.schema.with_metadata({_VERSION: str(SCHEMA).encode()})
    path = round_file(folder, round_number)
    with (
        whole(path, durable) as stream,
        parquet.ParquetWriter(
            stream,
            schema,
            compression="zstd",
            use_dictionary=list(_NAMES),
            use_byte_stream_split=list(_NUMBERS),
            write_statistics=False,
        ) as writer,
    ):
        writer.write_table(table.table.cast(schema), row_group_size=_ROWS)
    return path


def read_packs(path: Path) -> PackTable:
    """Read a file that `write_packs` wrote.

    Raises:
        RunError: the file is missing or cannot be read.
        DataError: it is damaged, or no evidence of this version.
    """
    try:
        with path.open("rb") as stream:
            table = parquet.read_table(stream)
    except OSError as error:
        raise RunError(
            f"the evidence file {path} cannot be read ({error.strerror}): give a round-NNNN.parquet of a "
            f"site's evidence folder"
        ) from error
    except pa.ArrowException as error:
        raise DataError([f"{path} is damaged ({error}): restore it or run the round again"]) from error
    fault = _fault(table)
    if fault:
        raise DataError(
            [f"{path} is no evidence of schema {SCHEMA} ({fault}): restore the file or run the round again"]
        )
    return PackTable(table.cast(columns(table.schema.field("node").type)))


def available_rounds(folder: Path) -> tuple[int, ...]:
    """The rounds that have a file in the folder, ascending; none if the folder does not exist."""
    if not folder.is_dir():
        return ()
    found = (_FILE_NAME.fullmatch(entry.name) for entry in folder.iterdir())
    return tuple(sorted(int(match.group(1)) for match in found if match))


def latest(folder: Path) -> Path:
    """The file of the last round in the folder.

    Raises:
        RunError: there is none.
    """
    rounds = available_rounds(folder)
    if not rounds:
        raise RunError(
            f"{folder} holds no evidence (no round-NNNN.parquet): give the evidence folder of a site that has "
            f"run a round with a method that keeps evidence"
        )
    return round_file(folder, rounds[-1])


def _fault(table: pa.Table) -> str:
    """What keeps a table from being packs; empty where nothing does."""
    version = (table.schema.metadata or {}).get(_VERSION, b"none").decode("utf-8", "replace")
    if version != str(SCHEMA):
        return f"schema {version}"
    odd = set(table.column_names) ^ set(columns(pa.string()).names)
    if odd:
        return f"missing or unknown columns: {', '.join(sorted(odd))}"
    node = table.schema.field("node").type
    wanted = columns(node)
    wrong = [field.name for field in wanted if table.schema.field(field.name).type != field.type]
    if wrong or node not in (pa.string(), pa.int64()):
        return f"{(wrong or ['node'])[0]} is of another type"
    return _gap(table) or _not_finite(table) or _unknown(table) or _stray(table)


def _gap(table: pa.Table) -> str:
    """Rows with a pack come first and have every column that a pack needs."""
    kinds = table["kind"].is_valid().to_numpy()
    count = int(kinds.sum())
    if not kinds[:count].all():
        return "rows without a pack stand among the packs"
    needed = ("round", "model", "prediction", "confidence", "neighbours", "chunks")
    short = [name for name in needed if table[name][:count].null_count]
    if short or table["node"].null_count:
        return f"{(short or ['node'])[0]} has gaps"
    for name in ("neighbours", "chunks"):
        column = table[name].combine_chunks()
        if pc.sum(column[count:].value_lengths()).as_py():
            return f"a row without a pack has {name}"
        entries = column.flatten()
        if entries.null_count or any(entries.field(field.name).null_count for field in entries.type):
            return f"an entry of the {name} has gaps"
    return ""


def _not_finite(table: pa.Table) -> str:
    for name, numbers in (
        ("confidence", table["confidence"]),
        ("evidence_share", table["evidence_share"]),
        ("a weight of the neighbours", _within(table, "neighbours", "weight")),
        ("a weight of the chunks", _within(table, "chunks", "weight")),
    ):
        if not np.isfinite(numbers.fill_null(0).to_numpy()).all():
            return f"{name} is not finite"
    return ""


def _unknown(table: pa.Table) -> str:
    odd = [kind for kind in table["kind"].drop_null().unique().to_pylist() if kind not in get_args(Kind)]
    if odd:
        return f"kind {odd[0]!r} is neither core nor scored"
    try:
        for record in table["account"].drop_null().to_pylist():
            account_of(record)
    except ValueError as error:
        return str(error)
    return ""


def _stray(table: pa.Table) -> str:
    """References to rows that are not there."""
    for name in ("neighbours", "chunks"):
        values = _within(table, name, "row").to_numpy()
        odd = (values < 0) | (values >= len(table))
        if odd.any():
            return f"row {int(values[odd][0])} of {name} is not among {len(table)} rows"
    return ""


def _within(table: pa.Table, name: str, field: str) -> pa.Array:
    return table[name].combine_chunks().flatten().field(field)
