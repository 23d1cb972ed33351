from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedtag.common.errors import ProtocolError, WireError
from fedtag.common.secure.canonical import canonical
from fedtag.common.secure.identity import Identity
from fedtag.common.secure.letters import Stamp, letter_stamp, opened_letter, sealed_letter
from fedtag.common.wire.records import Content, Letter

STAMP = Stamp("run", 3, 7)
SAID = Content({"x": torch.arange(6.0).reshape(2, 3), "ids": torch.tensor([4, 9])}, {"of": [1, "two"]})


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Identity]:
    folder: Path = tmp_path_factory.mktemp("keys")
    return {name: Identity.at(folder / name) for name in "abc"}


def write(sites: dict[str, Identity], stamp: Stamp = STAMP) -> Letter:
    return sealed_letter(sites["a"], "a", "b", sites["b"].public, "nodes", stamp, SAID)


def read(sites: dict[str, Identity], letter: Letter, reader: str = "b", sender: str = "a") -> Content:
    stamp = letter_stamp(letter, "run")
    return opened_letter(sites[reader], sites[sender].public, reader, letter, stamp, 1e6)


def test_a_letter_says_what_was_written(sites: dict[str, Identity]) -> None:
    letter = write(sites)
    found = read(sites, letter)
    assert letter_stamp(letter, "run") == STAMP
    assert found.values == SAID.values
    assert {name: value.tolist() for name, value in found.tensors.items()} == {
        name: value.tolist() for name, value in SAID.tensors.items()
    }
    assert torch.arange(6.0).numpy().tobytes() not in letter.body
    assert write(sites).body != letter.body


@pytest.mark.parametrize(
    "change",
    [
        {"sender": "c"},
        {"kind": "portrait"},
        {"recipient": "c"},
    ],
)
def test_a_letter_with_another_address_does_not_open(
    sites: dict[str, Identity], change: dict[str, Any]
) -> None:
    letter = replace(write(sites), **change)
    with pytest.raises(ProtocolError, match="altered, or is from, for or about something else"):
        read(sites, letter, reader=letter.recipient, sender=letter.sender)


@pytest.mark.parametrize("stamp", [Stamp("run", 4, 7), Stamp("run", 3, 8), Stamp("another", 3, 7)])
def test_a_letter_of_another_exchange_does_not_open(sites: dict[str, Identity], stamp: Stamp) -> None:
    with pytest.raises(ProtocolError, match="altered"):
        opened_letter(sites["b"], sites["a"].public, "b", write(sites), stamp, 1e6)


@given(place=st.integers(0, 400), bit=st.integers(0, 7))
def test_no_bit_can_be_changed(sites: dict[str, Identity], place: int, bit: int) -> None:
    body = bytearray(write(sites).body)
    body[place % len(body)] ^= 1 << bit
    with pytest.raises(ProtocolError):
        read(sites, Letter("a", "b", "nodes", bytes(body)))


@given(body=st.binary(max_size=80))
def test_noise_is_no_letter(sites: dict[str, Identity], body: bytes) -> None:
    with pytest.raises(ProtocolError):
        read(sites, Letter("a", "b", "nodes", body))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "without a header"),
        (b"\x00\x00\x00\x02\xff\xff", "no text"),
        (b"\x00\x00\x00\x02{}", "expected a record"),
    ],
)
def test_a_sender_that_writes_nonsense_is_told_apart(
    sites: dict[str, Identity], text: bytes, message: str
) -> None:
    context = canonical("letter", "run", 3, 7, "a", "b", "nodes")
    body = sites["a"].seal_for(sites["b"].public, context, text)
    letter = Letter("a", "b", "nodes", write(sites).body[:16] + body)
    with pytest.raises(WireError, match=message):
        read(sites, letter)


def test_a_letter_that_is_too_large_is_refused(sites: dict[str, Identity]) -> None:
    with pytest.raises(WireError, match="max-message-mb"):
        opened_letter(sites["b"], sites["a"].public, "b", write(sites), STAMP, 10.0)
