"""Evidence packs as columns: a row a node, with the texts that they quote named once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import cached_property
from typing import Any, cast, overload

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Int
from numpy.typing import NDArray

from fedtag.client.evidence.account import ACCOUNT_TYPE, Account, account_of
from fedtag.client.evidence.packs import (
    EvidencePack,
    NodeId,
    SelectedChunk,
    SelectedNeighbour,
)

DECIMALS = 7  # a single-precision weight in [0, 1] holds no more
NEIGHBOUR = pa.struct({"row": pa.int32(), "hop": pa.int8(), "weight": pa.float32()})
CHUNK = pa.struct({"row": pa.int32(), "start": pa.int32(), "end": pa.int32(), "weight": pa.float32()})
_NAME = pa.dictionary(pa.int32(), pa.string())


def columns(node: pa.DataType) -> pa.Schema:
    """The columns of packs whose nodes are of a type, int64 or string; `docs/evidence.md` says what each means."""
    return pa.schema(
        {
            "node": node,
            "sha256": pa.binary(32),
            "kind": _NAME,
            "round": pa.int32(),
            "model": _NAME,
            "prediction": _NAME,
            "confidence": pa.float32(),
            "label": _NAME,
            "evidence_share": pa.float32(),
            "neighbours": pa.list_(NEIGHBOUR),
            "chunks": pa.list_(CHUNK),
            "account": ACCOUNT_TYPE,
        }
    )


class PackTable(Sequence[EvidencePack]):
    """Packs that are made when they are asked for.

    Args:
        table: of `columns`. The rows of nodes that have a pack come first, in the order of the packs; below them is
            what these mention otherwise, with nothing but node and sha256.
    """

    def __init__(self, table: pa.Table) -> None:
        self.table: pa.Table = table.combine_chunks()
        self._count = len(table) - table["kind"].null_count

    @classmethod
    def of(cls, packs: Sequence[EvidencePack]) -> PackTable:
        """The same packs as columns.

        Raises:
            ValueError: their nodes are both texts and numbers, or a digest is none.
        """
        return packs if isinstance(packs, cls) else cls(_table(packs))

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, place: int) -> EvidencePack: ...

    @overload
    def __getitem__(self, place: slice) -> tuple[EvidencePack, ...]: ...

    def __getitem__(self, place: int | slice) -> EvidencePack | tuple[EvidencePack, ...]:
        if isinstance(place, slice):
            return tuple(self._pack(row) for row in range(*place.indices(self._count)))
        if not -self._count <= place < self._count:
            raise IndexError(place)
        return self._pack(place % self._count)

    def __iter__(self) -> Iterator[EvidencePack]:
        return (self._pack(row) for row in range(self._count))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    __hash__ = None  # type: ignore[assignment]

    @cached_property
    def nodes(self) -> list[NodeId]:
        """Of every row, also those without a pack."""
        return cast("list[NodeId]", self.table["node"].to_pylist())

    @cached_property
    def models(self) -> frozenset[str]:
        """Fingerprints that the packs name."""
        return frozenset(self.table["model"].drop_null().unique().to_pylist())

    def find(self, node: str) -> EvidencePack | None:
        """The first pack of a node, named as text."""
        rows = (row for row in range(self._count) if str(self.nodes[row]) == node)
        row = next(rows, None)
        return None if row is None else self._pack(row)

    def with_accounts(self, accounts: Mapping[int, Account | None]) -> PackTable:
        """The same packs, some with the account that a language model gave of them.

        Args:
            accounts: by place of the pack.
        """
        column: list[Any] = [None] * len(self.table)
        for row, account in accounts.items():
            column[row] = None if account is None else asdict(account)
        at = self.table.schema.get_field_index("account")
        return PackTable(self.table.set_column(at, "account", pa.array(column, ACCOUNT_TYPE)))

    def speaks_of(self, nodes: set[str]) -> Bool[np.ndarray, " packs"]:
        """Which packs are of one of the nodes, named as text, or selected or quote one."""
        named = np.array([str(node) in nodes for node in self.nodes], bool)
        found = named[: self._count].copy()
        for part in (self._neighbours, self._chunks):
            np.logical_or.at(found, _owners(part), named[part["row"]])
        return found

    def only(self, kept: Bool[np.ndarray, " packs"]) -> PackTable:
        """Some of the packs; nothing of the others stays."""
        chosen = [pack for pack, stays in zip(self, kept.tolist(), strict=True) if stays]
        return PackTable(_table(chosen, self.table.schema.field("node").type))

    def _pack(self, row: int) -> EvidencePack:
        nodes, digests, alone = self.nodes, self._digests, self._single
        (near, near_bounds), (quoted, quoted_bounds) = self._lists
        return EvidencePack(
            node=nodes[row],
            neighbours=tuple(
                SelectedNeighbour(nodes[of], hop, weight)
                for of, hop, weight in near[near_bounds[row] : near_bounds[row + 1]]
            ),
            chunks=tuple(
                SelectedChunk(nodes[of], start, end, weight, digests[of])
                for of, start, end, weight in quoted[quoted_bounds[row] : quoted_bounds[row + 1]]
            ),
            account=self._accounts.get(row),
            **{name: column[row] for name, column in alone.items()},
        )

    @cached_property
    def _single(self) -> dict[str, list[Any]]:
        """Columns with one value a row."""
        names = ("kind", "round", "model", "prediction", "label")
        found = {name: self.table[name].to_pylist() for name in names}
        for name in ("confidence", "evidence_share"):
            column = self.table[name]
            valid = column.is_valid().to_numpy().tolist()
            values = rounded(column.fill_null(0).to_numpy())
            found[name] = [value if there else None for value, there in zip(values, valid, strict=True)]
        return found

    @cached_property
    def _digests(self) -> list[str]:
        return [(digest or b"").hex() for digest in self.table["sha256"].to_pylist()]

    @cached_property
    def _accounts(self) -> dict[int, Account | None]:
        column = self.table["account"]
        rows = np.flatnonzero(column.is_valid().to_numpy()).tolist()
        return {row: account_of(column[row].as_py()) for row in rows}

    @cached_property
    def _lists(self) -> list[tuple[list[tuple[Any, ...]], list[int]]]:
        """Neighbours and chunks of all packs as tuples, and where those of each row begin and end."""
        found = []
        for part in (self._neighbours, self._chunks):
            values = [
                rounded(part[name]) if name == "weight" else part[name].tolist()
                for name in part
                if name != "bounds"
            ]
            found.append((list(zip(*values, strict=True)), part["bounds"].tolist()))
        return found

    @cached_property
    def _neighbours(self) -> dict[str, NDArray[Any]]:
        return _entries(self.table["neighbours"])

    @cached_property
    def _chunks(self) -> dict[str, NDArray[Any]]:
        return _entries(self.table["chunks"])


def rounded(values: NDArray[Any]) -> list[float]:
    """Single-precision numbers in [0, 1] as those of seven decimals that they stand for."""
    return cast("list[float]", np.round(np.asarray(values, np.float64), DECIMALS).tolist())


def single(values: NDArray[Any]) -> NDArray[np.float32]:
    """Numbers in [0, 1], rounded to seven decimals, in single precision, which tells these apart."""
    return np.round(np.asarray(values, np.float64), DECIMALS).astype(np.float32)


def _entries(column: pa.ChunkedArray) -> dict[str, NDArray[Any]]:
    """The entries of a column of lists, one below the other, and where those of each row begin and end."""
    array = column.combine_chunks()
    lengths = array.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    flat = array.flatten()
    found = {field.name: flat.field(field.name).to_numpy(zero_copy_only=False) for field in flat.type}
    return found | {"bounds": np.concatenate([[0], np.cumsum(lengths)])}


def _owners(part: Mapping[str, NDArray[Any]]) -> Int[np.ndarray, " entries"]:
    bounds = part["bounds"]
    return np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))


def _table(packs: Sequence[EvidencePack], node: pa.DataType | None = None) -> pa.Table:
    """The columns of packs that are objects."""
    digest_of: dict[NodeId, str] = {}
    for pack in packs:
        for chunk in pack.chunks:
            digest_of.setdefault(chunk.node, chunk.sha256)
    rows = [(pack.node, digest_of.get(pack.node)) for pack in packs]
    place: dict[tuple[NodeId, str | None], int] = {}
    for row, key in enumerate(rows):
        place.setdefault(key, row)

    def row_of(of: NodeId, digest: str | None) -> int:
        if (of, digest) not in place:
            place[of, digest] = len(rows)
            rows.append((of, digest))
        return place[of, digest]

    near = [
        [
            {"row": row_of(one.node, digest_of.get(one.node)), "hop": one.hop, "weight": one.weight}
            for one in pack.neighbours
        ]
        for pack in packs
    ]
    quoted = [
        [
            {"row": row_of(one.node, one.sha256), "start": one.start, "end": one.end, "weight": one.weight}
            for one in pack.chunks
        ]
        for pack in packs
    ]
    gaps = [None] * (len(rows) - len(packs))
    texts = any(isinstance(of, str) for of, _ in rows)
    if texts and not all(isinstance(of, str) for of, _ in rows):
        raise ValueError("nodes are texts and numbers: give one type")
    values = {
        "node": [of for of, _ in rows],
        "sha256": [bytes.fromhex(digest) if digest else None for _, digest in rows],
        **{
            name: [getattr(pack, name) for pack in packs] + gaps
            for name in ("kind", "round", "model", "prediction", "confidence", "label", "evidence_share")
        },
        "neighbours": near + gaps,
        "chunks": quoted + gaps,
        "account": [None if pack.account is None else asdict(pack.account) for pack in packs] + gaps,
    }
    schema = columns(node or (pa.string() if texts else pa.int64()))
    return pa.table({field.name: pa.array(values[field.name], field.type) for field in schema}, schema)
