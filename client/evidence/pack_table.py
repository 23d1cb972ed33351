"""Evidence packs as columns: a row a node, with the texts that they quote named once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import cached_property
from itertools import pairwise
from typing import Any, cast, overload

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Bool, Float, Int
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
_AT_ONCE = 4096  # packs that are made together, where all are read
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
            return tuple(self[row] for row in range(*place.indices(self._count)))
        if not -self._count <= place < self._count:
            raise IndexError(place)
        return self._made(place % self._count, 1)[0]

    def __iter__(self) -> Iterator[EvidencePack]:
        for begin in range(0, self._count, _AT_ONCE):
            yield from self._made(begin, min(_AT_ONCE, self._count - begin))

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
        named = self.table["node"][: self._count].cast(pa.string())
        row = pc.index(named, pa.scalar(node, pa.string())).as_py()
        return None if row < 0 else self[row]

    def codes(self, name: str, whole: bool = False) -> tuple[Int[np.ndarray, " rows"], list[str]]:
        """A column of names as places among those that are there, in order of appearance; -1 where there is none.

        Of the packs, or of every row if `whole`.
        """
        column = self.table[name] if whole else self.table[name][: self._count]
        encoded = column.cast(pa.string()).combine_chunks().dictionary_encode()
        codes = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        return codes.astype(np.int64), encoded.dictionary.to_pylist()

    def numbers(self, name: str) -> Float[np.ndarray, " packs"]:
        """A column of numbers in [0, 1], NaN where there is none."""
        values = self.table[name][: self._count].to_numpy().astype(np.float64)
        return np.round(values, DECIMALS)

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
        for part in (self.neighbours, self.chunks):
            found[owners(part)[named[part["row"]]]] = True
        return found

    def only(self, kept: Bool[np.ndarray, " packs"]) -> PackTable:
        """Some of the packs; nothing of the others stays."""
        chosen = [pack for pack, stays in zip(self, kept.tolist(), strict=True) if stays]
        return PackTable(_table(chosen, self.table.schema.field("node").type))

    @cached_property
    def neighbours(self) -> dict[str, NDArray[Any]]:
        """Columns of all packs' neighbours, and in `bounds` where those of each row begin and end."""
        return _entries(self.table["neighbours"])

    @cached_property
    def chunks(self) -> dict[str, NDArray[Any]]:
        """The same of their chunks."""
        return _entries(self.table["chunks"])

    def _made(self, begin: int, count: int) -> list[EvidencePack]:
        """Some packs, from nothing but their own rows and those that they mention."""
        part = self.table.slice(begin, count)
        near, quoted = _entries(part["neighbours"]), _entries(part["chunks"])
        sources = self._of("node", near["row"]), self._of("node", quoted["row"])
        digests = [(digest or b"").hex() for digest in self._of("sha256", quoted["row"])]
        hops = near["hop"].tolist(), rounded(near["weight"])
        spans = quoted["start"].tolist(), quoted["end"].tolist(), rounded(quoted["weight"])
        neighbours = list(map(SelectedNeighbour, sources[0], *hops))
        chunks = list(map(SelectedChunk, sources[1], *spans, digests))
        bounds = [list(pairwise(entries["bounds"].tolist())) for entries in (near, quoted)]
        names = ("node", "kind", "round", "model", "prediction", "label")
        alone = {name: part[name].to_pylist() for name in names}
        alone |= {name: _numbers(part[name]) for name in ("confidence", "evidence_share")}
        accounts = part["account"].to_pylist()
        return [
            EvidencePack(
                neighbours=tuple(neighbours[slice(*bounds[0][row])]),
                chunks=tuple(chunks[slice(*bounds[1][row])]),
                account=None if accounts[row] is None else account_of(accounts[row]),
                **{name: column[row] for name, column in alone.items()},
            )
            for row in range(count)
        ]

    def _of(self, name: str, rows: NDArray[Any]) -> list[Any]:
        return cast("list[Any]", self.table[name].take(pa.array(rows)).to_pylist())


def _numbers(column: pa.ChunkedArray) -> list[float | None]:
    valid = column.is_valid().to_numpy().tolist()
    values = rounded(column.fill_null(0).to_numpy())
    return [value if there else None for value, there in zip(values, valid, strict=True)]


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


def owners(part: Mapping[str, NDArray[Any]]) -> Int[np.ndarray, " entries"]:
    """The row of each entry of a column of lists."""
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
