from __future__ import annotations

import dataclasses
import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedtag.client.evidence.account import Account
from fedtag.client.evidence.packs import (
    EvidencePack,
    SelectedChunk,
    SelectedNeighbour,
    available_rounds,
    hop_name,
    latest,
    read_packs,
    text_digest,
    write_packs,
)
from fedtag.client.text.citations import CitedSentence
from fedtag.common.errors import DataError, RunError

# Every code point, lone surrogates included: JSON lines may bring them into a folder.
any_text = st.text(st.characters(exclude_categories=()), max_size=20)
node_ids = st.one_of(any_text, st.integers(-(2**70), 2**70))
weights = st.floats(0, 1)
neighbours = st.builds(SelectedNeighbour, node_ids, st.integers(0, 3), weights)
chunks = st.builds(SelectedChunk, node_ids, st.integers(0, 99), st.integers(0, 99), weights, any_text)
counts = st.integers(0, 2**40)
sentences = st.builds(
    CitedSentence,
    any_text,
    st.lists(st.integers(1, 9), max_size=3).map(tuple),
    st.sampled_from(["cited", "added", "doubtful", "none"]),
    st.integers(0, 9),
)
accounts = st.builds(
    Account, st.lists(sentences, max_size=2).map(tuple), counts, counts, counts, counts, counts
)
packs = st.builds(
    EvidencePack,
    node=node_ids,
    kind=st.sampled_from(["core", "scored"]),
    round=st.just(3),
    model=any_text,
    prediction=any_text,
    confidence=weights,
    neighbours=st.lists(neighbours, max_size=3).map(tuple),
    chunks=st.lists(chunks, max_size=3).map(tuple),
    account=st.none() | accounts,
    evidence_share=st.none() | weights,
    label=st.none() | any_text,
)


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


@settings(deadline=None, max_examples=150)
@given(st.lists(packs, max_size=4))
def test_what_is_written_is_read(written: list[EvidencePack]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = write_packs(Path(folder), 3, written)
        read = read_packs(path)
        assert read == tuple(written)
        assert [type(item.node) for item in read] == [type(item.node) for item in written]
        first = path.read_bytes()
        assert write_packs(Path(folder), 3, read).read_bytes() == first


def test_the_file_is_plain_json_lines_in_utf8(tmp_path: Path) -> None:
    path = write_packs(tmp_path, 12, [pack(round=12, node="שלום\u2028\r"), pack(round=12, node=7)])
    assert path.name == "round-0012.jsonl"
    lines = path.read_bytes().decode("utf-8").split("\n")
    records = [json.loads(line) for line in lines[:-1]]
    assert lines[-1] == ""
    assert [record["schema"] for record in records] == [2, 2]
    assert [record["node"] for record in records] == ["שלום\u2028\r", 7]
    assert "שלום" in lines[0]
    assert records[0]["chunks"] == [
        {"node": "a", "start": 0, "end": 2, "weight": 1.0, "sha256": text_digest("text")}
    ]


def test_writing_leaves_no_other_file(tmp_path: Path) -> None:
    write_packs(tmp_path / "new" / "evidence", 3, [pack()])
    write_packs(tmp_path / "new" / "evidence", 3, [])
    assert [entry.name for entry in (tmp_path / "new" / "evidence").iterdir()] == ["round-0003.jsonl"]
    assert read_packs(latest(tmp_path / "new" / "evidence")) == ()


def test_a_pack_of_another_round_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"node 'a' belongs to round 3, but is written under round 4"):
        write_packs(tmp_path, 4, [pack()])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_numbers_that_are_not_finite_are_not_written(tmp_path: Path, value: float) -> None:
    with pytest.raises(RunError, match="node 'a' has a weight or confidence that is not finite"):
        write_packs(tmp_path, 3, [pack(confidence=value)])


def record(**changes: object) -> str:
    base: dict[str, object] = {"schema": 2, **dataclasses.asdict(pack())}
    base.update(changes)
    return json.dumps({name: value for name, value in base.items() if value != "<absent>"})


SENTENCE = dataclasses.asdict(CitedSentence("Bees dance [1].", (1,), "cited"))
ACCOUNT = dataclasses.asdict(Account((), 0, 9, 3, 90, 900))


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("", "Expecting value"),
        ("{", "Expecting property name"),
        ("[1]", "schema None"),
        ("[" * 100_000, "recursion"),
        ('{"schema": 1}', "schema 1"),
        (record(label="<absent>"), "missing or unknown keys: label"),
        (record(extra=1), "missing or unknown keys: extra"),
        (record(kind="other"), "kind 'other' is neither core nor scored"),
        (record(node=1.5), "node of the pack is 1.5"),
        (record(node=True), "node of the pack is True"),
        (record(confidence=float("nan")), "NaN is not a finite number"),
        (record(confidence="<big>").replace('"<big>"', "1e999"), "confidence of the pack is not finite"),
        (record(neighbours={}), r"neighbours of the pack is \{\}"),
        (record(neighbours=[3]), "a neighbour is a int, not an object"),
        (record(neighbours=[{"node": 1, "hop": "1", "weight": 0.5}]), "hop of a neighbour is '1'"),
        (record(chunks=[{"node": 1, "start": 0, "end": 1, "weight": 1}]), "a chunk has missing .* sha256"),
        (record(account="text"), "account of the pack is 'text'"),
        (record(account={**ACCOUNT, "dropped": -0.5}), "dropped of the account is -0.5"),
        (record(account={**ACCOUNT, "sentences": ["text"]}), "a sentence is a str"),
        (record(account={**ACCOUNT, "sentences": [{**SENTENCE, "support": "x"}]}), "support 'x' is unknown"),
        (record(account={**ACCOUNT, "sentences": [{**SENTENCE, "citations": ["1"]}]}), "is no number"),
    ],
)
def test_a_malformed_line_is_named(tmp_path: Path, line: str, reason: str) -> None:
    path = tmp_path / "round-0003.jsonl"
    path.write_text("\n".join([record(), line, record()]) + "\n")
    with pytest.raises(DataError, match=rf"round-0003\.jsonl, line 2: .*{reason}") as caught:
        read_packs(path)
    assert len(caught.value.problems) == 1


def test_every_malformed_line_is_named_up_to_a_limit(tmp_path: Path) -> None:
    path = tmp_path / "round-0001.jsonl"
    path.write_bytes(b"\xff\n" * 25)
    with pytest.raises(DataError) as caught:
        read_packs(path)
    assert len(caught.value.problems) == 21
    assert "line 20" in caught.value.problems[19]
    assert "5 further lines" in caught.value.problems[20]


def test_a_cut_file_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "round-0001.jsonl"
    path.write_text(record() + "\n" + record())
    with pytest.raises(DataError, match="line 2: the last line has no end"):
        read_packs(path)


def test_rounds_of_a_folder(tmp_path: Path) -> None:
    assert available_rounds(tmp_path / "absent") == ()
    for name in ("round-0002.jsonl", "round-12345.jsonl", "round-0010.jsonl", "round-2.jsonl", "x.jsonl"):
        (tmp_path / name).touch()
    assert available_rounds(tmp_path) == (2, 10, 12345)
    assert latest(tmp_path) == tmp_path / "round-12345.jsonl"


def test_missing_evidence_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"holds no evidence .* give the evidence folder"):
        latest(tmp_path)
    with pytest.raises(RunError, match=r"round-0001\.jsonl cannot be read \(No such file"):
        read_packs(tmp_path / "round-0001.jsonl")


def test_hops_have_names() -> None:
    assert [hop_name(hop) for hop in (0, 1, 2, 3)] == [
        "the node itself",
        "neighbour",
        "neighbour of a neighbour",
        "3 hops away",
    ]
