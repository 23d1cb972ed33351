"""What a run says of what crossed the network, beside the messages themselves."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import fedtag
from fedtag.common.parts.spec import declared_records
from fedtag.common.wire.records import Content, Reply
from tests.tiny import Tiny, Tried

PAGE = Path(__file__).resolve().parents[2] / "docs" / "disclosures.md"
KINDS: dict[str, dict[str, object]] = {
    "fedavg": {},
    "a share of the clients": {"train.client-fraction": 0.6},
    "masked": {"privacy.secure-aggregation": True},
    "hidden": {
        "privacy.secure-aggregation": True,
        "privacy.hide-statistics": True,
        "aggregation.weights": "uniform",
    },
    "letters": {"method": "fedc4", "fedc4.exchange": "broadcast"},
    "two models": {"parts": "neighbour-generator"},
}
KEYS = ("round", "phase", "from", "to", "kind", "count", "bytes", "protected")


def sizes(content: Content, declared: set[str]) -> Counter[str]:
    """Bytes by kind, from the tensors and values as they came out of the message."""
    found: Counter[str] = Counter()
    for name, tensor in content.tensors.items():
        found[name.split("/")[0]] += tensor.numpy().nbytes
    for name, value in content.values.items():
        if name in declared:
            found[name] += len(json.dumps(value))
    return found


def exchanges(run: Tried) -> Iterator[list[tuple[Any, ...]]]:
    """Of each exchange, who sent what to whom, from the messages that passed the grid."""
    records = declared_records(run.sessions[0].config)
    for phase, exchange in zip(run.phases, run.grid.exchanges, strict=True):
        found: list[tuple[Any, ...]] = []
        for one in exchange:
            number = one.told.round
            for kind, size in sizes(one.told.content, set(records)).items():
                found.append((number, phase, "server", one.client, kind, 1, size, records[kind].protected))
            if one.reply is None:
                continue
            for kind, size in sizes(one.reply.content, set(records)).items():
                found.append((number, phase, one.client, "server", kind, 1, size, records[kind].protected))
            shown = one.reply.content.values.get("shown", {})
            for letter in one.reply.content.letters:
                count = shown.get(letter.kind, {}).get(letter.recipient, 1)
                row = (one.client, letter.recipient, letter.kind, count, len(letter.body), "encrypted")
                found.append((number, phase, *row))
        yield found


def crossed(run: Tried) -> Iterator[tuple[Any, ...]]:
    """The same of all exchanges."""
    for exchange in exchanges(run):
        yield from exchange


def told(run: Tried) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row[key] for key in KEYS) for row in run.disclosures)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_told_is_what_crossed(tiny: Tiny, kind: str) -> None:
    run = tiny({**KINDS[kind], "rounds": 2}, clients=4)
    assert run.error is None
    expected = Counter(crossed(run))
    assert told(run) == expected
    frame = fedtag.open_run(run.place / "run").disclosures
    each = frame.explode(["from", "to", "counts", "sizes"]).drop(columns=["count", "bytes"])
    each = each.rename(columns={"counts": "count", "sizes": "bytes"})
    assert Counter(each[list(KEYS)].itertuples(index=False, name=None)) == expected
    ways = [
        {(kind, way(sender, receiver)) for *_, sender, receiver, kind, _, _, _ in one}
        for one in exchanges(run)
    ]
    assert len(frame) == sum(map(len, ways))
    if kind == "letters":
        assert any("server" not in (row[2], row[3]) for row in expected)


def way(sender: str, receiver: str) -> str:
    return "up" if receiver == "server" else "down" if sender == "server" else "between"


def test_a_run_that_was_stopped_tells_all_of_both_its_parts(tiny: Tiny) -> None:
    def fail(client: str, instruction: Any, reply: Reply) -> Reply | Exception:
        return ValueError("no") if instruction.round == 2 else reply

    stopped = tiny(answer=fail)
    assert stopped.error is not None
    first = Counter(crossed(stopped))
    assert told(stopped) == first
    goes_on = tiny(place=stopped.place)
    assert goes_on.error is None
    second = Counter(crossed(goes_on))
    assert told(goes_on) == first + second


def rows_of(title: str) -> list[list[str]]:
    """The first table of the page below a heading."""
    text = PAGE.read_text(encoding="utf-8").split(f"\n## {title}\n")[1].split("\n## ")[0]
    cells = [line.strip("| ").split("|") for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in row] for row in cells[2:]]


def type_of(column: pd.Series) -> str:
    kinds = {type(value) for value in column}
    if kinds == {list}:
        return f"list of {type_of(column.explode())}"
    if kinds == {str}:
        return "text"
    assert kinds == {int}, (column.name, kinds)
    return "int"


def test_the_page_has_the_columns_of_the_table_and_the_keys_of_the_file(tiny: Tiny) -> None:
    run = tiny({"method": "fedc4", "fedc4.exchange": "broadcast", "rounds": 2})
    frame = fedtag.open_run(run.place / "run").disclosures
    documented = {name.strip("`"): kind for name, kind, *_ in rows_of("In Python")}
    assert documented == {name: type_of(frame[name]) for name in frame}
    assert list(documented) == list(frame)
    version, group, row = ([*re.findall(r"`(\w+)`", keys)] for _, keys in rows_of("The file"))
    lines = run.lines("disclosures")
    assert [version, group] == [list(lines[0]), list(next(one for one in lines if "group" in one))]
    assert set(row) == {key for one in lines if "kind" in one for key in one}
    assert f"`schema`: {lines[0]['schema']}" in PAGE.read_text(encoding="utf-8")


def test_the_page_s_example_counts_what_each_client_sent(tiny: Tiny) -> None:
    run = tiny({"rounds": 2})
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    *before, last = code.strip().splitlines()[-2:]
    names = {"run": fedtag.open_run(run.place / "run")}
    exec("\n".join(before), names)
    found = eval(last, names)
    expected: Counter[tuple[str, str]] = Counter()
    for row in crossed(run):
        if row[2] != "server":
            expected[row[2], row[4]] += row[6]
    assert found.to_dict() == expected


def test_a_run_that_has_begun_nothing_is_an_empty_table(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text('method = "fedavg"\n')
    frame = fedtag.open_run(tmp_path).disclosures
    assert frame.empty
    assert list(frame) == [name.strip("`") for name, *_ in rows_of("In Python")]
