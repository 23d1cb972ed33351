"""What crossed, as a file: nothing is lost, little is written, and what is no such file is refused."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedtag.common.errors import RunError
from fedtag.server.tracking.disclosure_file import DisclosureFile
from fedtag.server.tracking.disclosures import Crossing, Disclosure
from fedtag.server.tracking.run_directory import RunDirectory
from tests.crossings import crossings

NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=4).filter(
    lambda name: name != "server"
)
NUMBERS = st.integers(0, 3)


@st.composite
def disclosures(draw: st.DrawFn) -> Disclosure:
    way = draw(st.sampled_from(["up", "down", "between"]))
    found = draw(st.lists(st.tuples(NAMES, NAMES, NUMBERS, NUMBERS), min_size=1, max_size=6))
    ends = {
        "up": [(one, "server") for one, *_ in found],
        "down": [("server", one) for one, *_ in found],
        "between": [(one, other) for one, other, *_ in found],
    }[way]
    crossed = [
        Crossing(*pair, *numbers)
        for pair, (*_, a, b) in zip(ends, found, strict=True)
        for numbers in [(a, b)]
    ]
    protected = draw(st.sampled_from(["none", "masked", "encrypted", "noised"]))
    return Disclosure.of(draw(NUMBERS), "train", draw(st.text(max_size=3)), crossed, "what", protected)


def update(number: int, clients: Sequence[str], size: int = 9) -> Disclosure:
    crossed = [Crossing(name, "server", 1, size) for name in clients]
    return Disclosure.of(number, "train", "update", crossed, "the update", "none")


@given(st.lists(disclosures(), max_size=5), st.lists(disclosures(), max_size=5))
def test_what_is_read_is_what_crossed(
    tmp_path_factory: pytest.TempPathFactory, first: list[Disclosure], later: list[Disclosure]
) -> None:
    path = tmp_path_factory.mktemp("run") / "disclosures.jsonl"
    DisclosureFile(path).append(first)
    # Another process goes on.
    DisclosureFile(path).append(later)
    assert DisclosureFile(path).read() == [*first, *later]
    expected = [
        (row.round, row.kind, one.sender, one.receiver, one.count, one.bytes, row.protected)
        for row in (*first, *later)
        for one in row.crossings
    ]
    keys = ("round", "kind", "from", "to", "count", "bytes", "protected")
    assert [tuple(row[key] for key in keys) for row in crossings(path)] == expected


def test_a_row_of_all_clients_is_as_long_as_a_row_of_one(tmp_path: Path) -> None:
    sizes = {}
    for clients in (2, 500):
        path = tmp_path / f"{clients}.jsonl"
        file = DisclosureFile(path)
        names = [f"client-{number}" for number in range(clients)]
        file.append([update(1, names)])
        before = path.stat().st_size
        file.append([update(number, names) for number in range(2, 102)])
        sizes[clients] = path.stat().st_size - before
        assert len(path.read_bytes().splitlines()) == 1 + 2 + 101
    # The totals alone have more digits.
    assert sizes[500] <= sizes[2] + 100 * (len("500") + len("4500") - len("2") - len("18"))


def test_a_client_called_like_the_server_is_not_taken_for_it(tmp_path: Path) -> None:
    crossed = [Crossing("a", "server", 1, 5), Crossing("server", "server", 1, 7)]
    row = Disclosure.of(1, "train", "update", crossed, "the update", "none")
    assert (row.from_server, row.to_server, row.bytes) == (False, True, 12)
    assert list(row.crossings) == crossed


def test_a_killed_writer_loses_its_last_line_alone(tmp_path: Path) -> None:
    """Wherever the file is cut, what is whole is read, and who goes on writes what a reader understands."""
    whole = RunDirectory(tmp_path / "whole")
    rows = [update(1, ["a"]), update(2, ["a", "b"]), update(3, ["a"])]
    for row in rows:
        whole.append_disclosures([row])
    content = (whole.path / "disclosures.jsonl").read_bytes()
    for length in range(len(content)):
        cut = tmp_path / str(length)
        cut.mkdir()
        (cut / "disclosures.jsonl").write_bytes(content[:length])
        left = RunDirectory.open(cut).read_disclosures()
        assert left == rows[: len(left)]
        resumed = RunDirectory(cut, resume=True)
        resumed.append_disclosures([update(4, ["b", "a"])])
        assert RunDirectory.open(cut).read_disclosures() == [*left, update(4, ["b", "a"])]
        assert len(crossings(cut)) == sum(map(len, left)) + 2


def test_a_run_of_another_version_is_refused_and_not_touched(tmp_path: Path) -> None:
    older = {
        "round": 1,
        "from": "a",
        "to": "server",
        "kind": "update",
        "bytes": 9,
        "reveals": "it",
        "protected": "none",
    }
    for first, found in ((older, "1"), ({"schema": 3}, "3")):
        run = tmp_path / found
        run.mkdir()
        text = json.dumps(first) + '\n{"round": 2, "ki'
        (run / "disclosures.jsonl").write_text(text, encoding="utf-8")
        told = f"has schema {found}, this fedtag reads 2; use the run with the version that made it, or do it anew"
        with pytest.raises(RunError, match=told):
            RunDirectory.open(run).read_disclosures()
        with pytest.raises(RunError, match=told):
            RunDirectory(run, resume=True)
        assert (run / "disclosures.jsonl").read_text(encoding="utf-8") == text


ROW = {"round": 1, "phase": "train", "kind": "k", "from": 0, "to": 1, "count": 2, "bytes": 8}
ROW |= {"reveals": "r", "protected": "none"}


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ({**ROW, "from": 7}, "7 is missing"),
        ({**ROW, "from": [0]}, "unhashable"),
        ({key: value for key, value in ROW.items() if key != "kind"}, "'kind' is missing"),
        ({**ROW, "bytes": 9}, "bytes is 9 in 2 equal parts"),
        ({**ROW, "sizes": [4, 5]}, "bytes is 8, and its parts come to 9"),
        ({**ROW, "sizes": [4, 2, 2]}, r"columns of a disclosure have \[1, 2, 3\] entries"),
        ({**ROW, "round": True}, "True is no whole number"),
        ({**ROW, "count": -2}, "-2 is no whole number"),
        ({**ROW, "kind": 5}, "5 is no text"),
        ({**ROW, "protected": "hidden"}, "'hidden'; it must be one of none, masked, encrypted, noised"),
        ({"group": 2, "names": []}, r"\[\] is no list of names"),
        ({"group": 2, "names": "abc"}, "'abc' is no list of names"),
    ],
)
def test_damage_is_named_with_its_line(tmp_path: Path, line: object, sentence: str) -> None:
    path = tmp_path / "disclosures.jsonl"
    lines = [{"schema": 2}, {"group": 0, "names": ["a", "b"]}, {"group": 1, "names": ["server"]}, ROW, line]
    path.write_text("".join(json.dumps(one) + "\n" for one in lines), encoding="utf-8")
    with pytest.raises(RunError, match=rf"line 5 is no disclosure of schema 2 \(.*{sentence}.*; restore"):
        DisclosureFile(path).read()


def test_what_could_not_be_written_is_not_taken_for_known(tmp_path: Path) -> None:
    file = DisclosureFile(tmp_path / "gone" / "disclosures.jsonl")
    with pytest.raises(FileNotFoundError):
        file.append([update(1, ["a", "b"])])
    file.path.parent.mkdir()
    file.append([update(2, ["a", "b"])])
    assert file.read() == [update(2, ["a", "b"])]
