from __future__ import annotations

import dataclasses
import re
import tempfile
from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedtag.client.evidence.account import Account
from fedtag.client.evidence.columns import ChunkColumns, NeighbourColumns, packs_from_arrays
from fedtag.client.evidence.pack_table import PackTable
from fedtag.client.evidence.packs import (
    EvidencePack,
    NodeId,
    SelectedChunk,
    SelectedNeighbour,
    hop_name,
    text_digest,
)
from fedtag.client.evidence.store import available_rounds, latest, read_packs, write_packs
from fedtag.client.text.citations import CitedSentence
from fedtag.common.errors import DataError, RunError

texts = st.text(max_size=20)
digests = st.binary(min_size=32, max_size=32).map(bytes.hex)
# Of seven decimals, which is what a weight holds.
weights = st.integers(0, 10**7).map(lambda number: number / 10**7)
counts = st.integers(0, 2**40)
sentences = st.builds(
    CitedSentence,
    texts,
    st.lists(st.integers(1, 9), max_size=3).map(tuple),
    st.sampled_from(["cited", "added", "doubtful", "none"]),
    st.integers(0, 9),
)
accounts = st.builds(
    Account, st.lists(sentences, max_size=2).map(tuple), counts, counts, counts, counts, counts
)


def packs_of(nodes: st.SearchStrategy[NodeId]) -> st.SearchStrategy[list[EvidencePack]]:
    neighbours = st.builds(SelectedNeighbour, nodes, st.integers(0, 3), weights)
    chunks = st.builds(SelectedChunk, nodes, st.integers(0, 99), st.integers(0, 99), weights, digests)
    one = st.builds(
        EvidencePack,
        node=nodes,
        kind=st.sampled_from(["core", "scored"]),
        round=st.just(3),
        model=texts,
        prediction=texts,
        confidence=weights,
        neighbours=st.lists(neighbours, max_size=3).map(tuple),
        chunks=st.lists(chunks, max_size=3).map(tuple),
        account=st.none() | accounts,
        evidence_share=st.none() | weights,
        label=st.none() | texts,
    )
    return st.lists(one, max_size=4)


def pack(**changes: object) -> EvidencePack:
    base = EvidencePack(
        node="a",
        kind="core",
        round=3,
        model="m",
        prediction="x",
        confidence=0.5,
        neighbours=(SelectedNeighbour("a", 0, 1.0),),
        chunks=(SelectedChunk("a", 0, 2, 1.0, text_digest("text")),),
    )
    return dataclasses.replace(base, **changes)


@settings(deadline=None, max_examples=100)
@given(packs_of(st.text(max_size=4)) | packs_of(st.integers(-(2**63), 2**63 - 1)))
def test_what_is_written_is_read(written: list[EvidencePack]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = write_packs(Path(folder), 3, written)
        read = read_packs(path)
        assert list(read) == written
        assert [type(item.node) for item in read] == [type(item.node) for item in written]
        first = path.read_bytes()
        assert write_packs(Path(folder), 3, read).read_bytes() == first
        assert write_packs(Path(folder), 3, list(read)).read_bytes() == first


def test_the_columns_are_those_of_the_contract(tmp_path: Path) -> None:
    """As a program reads them that knows nothing of fedtag: DuckDB, by the query in docs/evidence.md."""
    quoted = (
        SelectedChunk("b", 2, 5, 0.75, text_digest("text")),
        SelectedChunk("a", 0, 2, 0.25, text_digest("one")),
    )
    near = (SelectedNeighbour("a", 0, 1.0), SelectedNeighbour("b", 1, 1.0))
    path = write_packs(tmp_path, 12, [pack(round=12, chunks=quoted, neighbours=near)])
    assert path.name == "round-0012.parquet"
    docs = (Path(__file__).resolve().parents[4] / "docs/evidence.md").read_text(encoding="utf-8")
    (query,) = re.findall(r"```sql\n(.*?)```", docs, re.DOTALL)
    rows = duckdb.sql(
        query.replace("round-0012.parquet", str(path)) + " ORDER BY span.weight DESC"
    ).fetchall()
    assert rows == [("a", "x", "b", 2, 5, 0.75), ("a", "x", "a", 0, 2, 0.25)]
    digests = duckdb.sql(f"SELECT node, lower(hex(sha256)) FROM '{path}'").fetchall()
    assert digests == [("a", text_digest("one")), ("b", text_digest("text"))]
    assert parquet.read_metadata(path).metadata[b"fedtag.evidence"] == b"3"


def test_writing_leaves_no_other_file(tmp_path: Path) -> None:
    write_packs(tmp_path / "new" / "evidence", 3, [pack()])
    write_packs(tmp_path / "new" / "evidence", 3, [])
    assert [entry.name for entry in (tmp_path / "new" / "evidence").iterdir()] == ["round-0003.parquet"]
    assert list(read_packs(latest(tmp_path / "new" / "evidence"))) == []


def test_a_pack_of_another_round_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="a pack belongs to round 3, but is written under round 4"):
        write_packs(tmp_path, 4, [pack()])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_numbers_that_are_not_finite_are_not_written(tmp_path: Path, value: float) -> None:
    with pytest.raises(RunError, match="confidence is not finite: evidence is written from finite"):
        write_packs(tmp_path, 3, [pack(confidence=value)])


def test_nodes_of_two_types_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match="cannot be written: nodes are texts and numbers"):
        write_packs(tmp_path, 3, [pack(), pack(node=7)])


def table() -> pa.Table:
    account = Account((CitedSentence("Bees dance [1].", (1,), "cited", 0),), 0, 9, 3, 90, 900)
    with tempfile.TemporaryDirectory() as folder:
        return parquet.read_table(write_packs(Path(folder), 3, [pack(account=account), pack(node="b")]))


def changed(name: str, values: list[object], whole: pa.Table | None = None) -> pa.Table:
    whole = table() if whole is None else whole
    at = whole.schema.get_field_index(name)
    return whole.set_column(at, whole.schema.field(at), pa.array(values, whole.schema.field(at).type))


SENTENCE = {"text": "a", "citations": [1], "support": "cited", "removed": 0}
ACCOUNT = {
    "sentences": [SENTENCE],
    **dict.fromkeys(("dropped", "prompt_tokens", "answer_tokens", "full_text_prompt_tokens"), 1),
    "two_hop_prompt_tokens": 1,
}


@pytest.mark.parametrize(
    ("broken", "reason"),
    [
        (lambda: table().replace_schema_metadata({}), "schema none"),
        (lambda: table().replace_schema_metadata({"fedtag.evidence": "2"}), "schema 2"),
        (lambda: table().drop_columns(["label"]), "missing or unknown columns: label"),
        (lambda: table().append_column("extra", [[1, 2]]), "missing or unknown columns: extra"),
        (
            lambda: table().cast(table().schema.set(3, pa.field("round", pa.int64()))),
            "round is of another type",
        ),
        (lambda: changed("kind", ["other", "core"]), "kind 'other' is neither core nor scored"),
        (lambda: changed("kind", [None, "core"]), "rows without a pack stand among the packs"),
        (
            lambda: changed(
                "kind", ["core", None], changed("neighbours", [[], [{"row": 0, "hop": 0, "weight": 1.0}]])
            ),
            "a row without a pack has neighbours",
        ),
        (lambda: changed("model", ["m", None]), "model has gaps"),
        (lambda: changed("node", ["m", None]), "node has gaps"),
        (lambda: changed("confidence", [float("nan"), 1]), "confidence is not finite"),
        (
            lambda: changed("chunks", [[], [{"row": 0, "start": 0, "end": 1, "weight": float("inf")}]]),
            "a weight of the chunks is not finite",
        ),
        (
            lambda: changed("neighbours", [[{"row": 2, "hop": 0, "weight": 1}], []]),
            "row 2 of neighbours is not among 2 rows",
        ),
        (
            lambda: changed("neighbours", [[{"row": None, "hop": 0, "weight": 1}], []]),
            "an entry of the neighbours has gaps",
        ),
        (lambda: changed("neighbours", [[None], []]), "an entry of the neighbours has gaps"),
        (lambda: changed("account", [{**ACCOUNT, "dropped": None}, None]), "an account has gaps"),
        (lambda: changed("account", [{**ACCOUNT, "sentences": [None]}, None]), "a sentence has gaps"),
        (
            lambda: changed("account", [{**ACCOUNT, "sentences": [{**SENTENCE, "support": "x"}]}, None]),
            "support 'x' is unknown",
        ),
    ],
)
def test_what_is_no_evidence_is_named(tmp_path: Path, broken: Callable[[], pa.Table], reason: str) -> None:
    path = tmp_path / "round-0003.parquet"
    parquet.write_table(broken(), path)
    with pytest.raises(DataError, match=rf"round-0003\.parquet is no evidence of schema 3 \({reason}"):
        read_packs(path)


@pytest.mark.parametrize("rest", [0, 4, 300, -1])
def test_a_cut_file_is_noticed(tmp_path: Path, rest: int) -> None:
    path = write_packs(tmp_path, 3, [pack()])
    path.write_bytes(path.read_bytes()[:rest])
    with pytest.raises(
        DataError, match=r"round-0003\.parquet is damaged .*: restore it or run the round again"
    ):
        read_packs(path)


def test_packs_are_a_sequence(tmp_path: Path) -> None:
    written = [pack(node=node) for node in "abc"]
    read = read_packs(write_packs(tmp_path, 3, written))
    assert read == written
    assert read != written[:2]
    assert (len(read), read[0], read[-1], read[1:]) == (3, written[0], written[2], tuple(written[1:]))
    with pytest.raises(IndexError):
        read[3]
    assert read.find("c") == written[2]
    assert read.find("z") is None


def test_packs_that_speak_of_a_node_are_taken_out() -> None:
    quoting = pack(node="b", chunks=(SelectedChunk("c", 0, 1, 1.0, text_digest("c")),))
    selecting = pack(node="d", chunks=(), neighbours=(SelectedNeighbour("c", 1, 1.0),))
    packs = PackTable.of([pack(), quoting, pack(node="c"), selecting])
    assert packs.speaks_of({"c"}).tolist() == [False, True, True, True]
    kept = packs.only(~packs.speaks_of({"c"}))
    assert list(kept) == [pack()]
    assert "c" not in kept.nodes


def test_77_thousand_nodes_fit_into_8_mb(tmp_path: Path) -> None:
    """Every budget full and every weight drawn, which is the worst case; a tenth of it, which is as dense."""
    count, rng = 7_700, np.random.default_rng(0)
    rows, ids = np.arange(count), [f"paper-{number}" for number in range(count)]
    near = np.concatenate([rows[:, None], rng.integers(0, count, (count, 5))], 1)
    owners = rows.repeat(6)
    weights = np.concatenate(
        [np.ones((count, 1)), rng.dirichlet(np.ones(3), count), rng.dirichlet(np.ones(2), count)], 1
    )
    quoted = np.take_along_axis(near, rng.integers(0, 6, (count, 4)), 1).ravel()
    borders = np.sort(rng.integers(0, 1200, (count, 9)), 1)
    chosen = rng.integers(0, 8, 4 * count)
    start, end = borders[quoted, chosen], borders[quoted, chosen + 1] + 1
    packs = packs_from_arrays(
        rows,
        rng.integers(0, 7, count),
        rng.random(count),
        NeighbourColumns(owners, near.ravel(), np.tile([0, 1, 1, 1, 2, 2], count), weights.ravel()),
        ChunkColumns(rows.repeat(4), quoted, start, end, rng.dirichlet(np.ones(4), count).ravel()),
        node_ids=ids,
        texts=[f"text of {node}" for node in ids],
        classes=[f"class {number}" for number in range(7)],
        kind="scored",
        round_number=1,
        model="f" * 64,
        label=rng.integers(0, 7, count),
        evidence_share=rng.random(count),
    )
    assert write_packs(tmp_path, 1, packs).stat().st_size <= 800_000


def test_rounds_of_a_folder(tmp_path: Path) -> None:
    assert available_rounds(tmp_path / "absent") == ()
    for name in (
        "round-0002.parquet",
        "round-12345.parquet",
        "round-0010.parquet",
        "round-2.parquet",
        "x.parquet",
        "round-0003.jsonl",
    ):
        (tmp_path / name).touch()
    assert available_rounds(tmp_path) == (2, 10, 12345)
    assert latest(tmp_path) == tmp_path / "round-12345.parquet"


def test_missing_evidence_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"holds no evidence .* give the evidence folder"):
        latest(tmp_path)
    with pytest.raises(RunError, match=r"round-0001\.parquet cannot be read \(No such file"):
        read_packs(tmp_path / "round-0001.parquet")


def test_hops_have_names() -> None:
    assert [hop_name(hop) for hop in (0, 1, 2, 3)] == [
        "the node itself",
        "neighbour",
        "neighbour of a neighbour",
        "3 hops away",
    ]
