"""A lying client sends one small message that would cost whoever reads it seconds and hundreds of megabytes.

Each is read in a process of its own, without the type checker of the tests, which would take most of the time. The
controls read the same, of a smaller size, with the limits out of the way.
"""

from __future__ import annotations

import json
import multiprocessing
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from fedtag.common.errors import WireError
from fedtag.common.wire import bounded_json, bounded_tensors, envelope, serialisation
from fedtag.common.wire.codec import decode_reply
from fedtag.common.wire.envelope import sealed
from fedtag.common.wire.limits import MAX_HEADER_BYTES
from fedtag.common.wire.records import Content, Reply
from fedtag.common.wire.serialised import Serialised

SHORT = serialisation.serialised_text(Reply("run", 1, 1, "train", "site-9", Content({}, {"x": "here"})))
SMALLER = 32 if sys.argv[1:] == ["off"] else 1
"""Reading takes so long in the controls that they make do with a part, and hold memory against its size."""
ROOM = (MAX_HEADER_BYTES - 1000) // SMALLER
"""Characters of a value; the rest is for the other fields of the header."""
EMPTY_TENSORS, LETTERS = 10**6 // SMALLER, 10**5
EMPTY = '{"dtype":"F32","shape":[0],"data_offsets":[0,0]}'
MESSAGE_LIMIT = 512 * 2.0**20
"""Default of exchange.max-message-mb."""
QUICK, SPARE = 1.0, 10
"""Seconds of a processor that it may take to refuse a reply, and memory in times the reply's own size."""
STATUS = Path("/proc/self/status")


def with_value(text: str) -> Serialised:
    """A reply with a value that is the given JSON, valid or not."""
    return replace(SHORT, header=SHORT.header.replace('"here"', text))


def many(value: str) -> str:
    """A list of as many of a value as the header may hold."""
    return f"[{','.join([value] * (ROOM // (len(value) + 1)))}]"


def empty_tensors() -> Serialised:
    """A million tensors without values, which nobody asked for."""
    table = ",".join(f'"{name:x}":{EMPTY}' for name in range(EMPTY_TENSORS))
    head = f"{{{table}}}".encode()
    return replace(SHORT, tensors=struct.pack("<Q", len(head)) + head)


def letters() -> Serialised:
    """Many letters to nobody that say nothing."""
    addresses = ",".join(f'["site-9","{number}","k"]' for number in range(LETTERS))
    return replace(SHORT, addresses=f"[{addresses}]", bodies=(b"",) * LETTERS)


def keys() -> str:
    """A table of many entries."""
    table = ",".join(f'"{number:x}":{{}}' for number in range(ROOM // 13))
    return f"{{{table}}}"


@dataclass(frozen=True)
class Attack:
    """A hostile reply, and what its refusal has to name."""

    reply: Callable[[], Serialised]
    names: str
    costly: bool = True


ATTACKS = {
    "header": Attack(lambda: with_value(many("[[[[]]]]")), "header"),
    "tables": Attack(lambda: with_value(many("{}")), "header"),
    "texts": Attack(lambda: with_value(many('"ab"')), "header"),
    "keys": Attack(lambda: with_value(keys()), "header"),
    "tensors": Attack(empty_tensors, "tensors"),
    "letters": Attack(letters, "letters"),
    # These cost little where nothing is limited, and must not cost more where it is.
    "depth": Attack(lambda: with_value("[" * (ROOM // 2) + "]" * (ROOM // 2)), "header", costly=False),
    "thin depth": Attack(lambda: with_value("[" * 10**5 + "]" * 10**5), "nests", costly=False),
    "digits": Attack(lambda: with_value("9" * ROOM), "number", costly=False),
    "fraction": Attack(lambda: with_value("1." + "9" * (ROOM - 2)), "number", costly=False),
    "a text": Attack(lambda: with_value(f'"{"a" * (ROOM - 2)}"'), "text", costly=False),
    "escapes": Attack(lambda: with_value('"' + '\\"' * (ROOM // 2) + '"'), "header", costly=False),
    "no end": Attack(lambda: with_value('"' + "\\\\" * (ROOM // 2)), "header", costly=False),
    "blanks": Attack(lambda: with_value(" " * ROOM), "header", costly=False),
}


Figures = Mapping[str, tuple[float, float, float, str]]
"""Megabytes of each reply, CPU seconds and megabytes of memory that reading it took, and why it was refused."""


@pytest.fixture(scope="module")
def figures() -> Figures:
    return measured("on")


@pytest.fixture(scope="module")
def figures_without_limits() -> Figures:
    return measured("off")


def measured(defence: str) -> Figures:
    """By a program that forks for each reply, since importing takes longer than reading."""
    found = json.loads(subprocess.check_output([sys.executable, __file__, defence]))
    return {kind: tuple(one) for kind, one in found.items()}


@pytest.mark.parametrize("kind", ATTACKS)
def test_a_costly_reply_is_refused_before_it_costs(kind: str, figures: Figures) -> None:
    size, seconds, megabytes, said = figures[kind]
    figure = f"{kind}: {size:.0f} MB took {seconds:.2f} CPU-s and {megabytes:.0f} MB of memory: {said}"
    assert ATTACKS[kind].names in said, figure
    assert seconds <= QUICK, figure
    assert megabytes <= SPARE * size, figure


@pytest.mark.parametrize("kind", [kind for kind, attack in ATTACKS.items() if attack.costly])
def test_without_limits_it_would_cost(kind: str, figures_without_limits: Figures) -> None:
    """The control: the same reply, read as if there were no limits."""
    size, seconds, megabytes, said = figures_without_limits[kind]
    assert not said, f"{kind} is refused by something else than a limit: {said}"
    assert seconds > QUICK or megabytes > SPARE * size, f"{kind}: {size} MB, {seconds} CPU-s, {megabytes} MB"


def read(kind: str) -> tuple[float, float, float, str]:
    """The figures of one reply."""
    record = ATTACKS[kind].reply()
    size = len(record.header) + len(record.tensors or b"") + len(record.addresses or "")
    arrived = sealed(record)
    peak, start, said = peak_megabytes(), time.process_time(), ""
    try:
        decode_reply(arrived, MESSAGE_LIMIT)
    except WireError as refusal:
        said = str(refusal)
    return size / 1e6, time.process_time() - start, peak_megabytes() - peak, said


def peak_megabytes() -> float:
    """Most memory that this process has had at once; the peak of getrusage would be that of its parent."""
    (line,) = (line for line in STATUS.read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1e3


def without_limits() -> None:
    """Take the defence away."""
    for module in (bounded_json, bounded_tensors, envelope, serialisation):
        for name in [name for name in vars(module) if name.startswith("MAX_")]:
            setattr(module, name, 2**60)


def main(defence: str) -> None:
    """Read each reply in a fork."""
    kinds = list(ATTACKS)
    if defence == "off":
        without_limits()
        kinds = [kind for kind in kinds if ATTACKS[kind].costly]
    with multiprocessing.get_context("fork").Pool(1, maxtasksperchild=1) as pool:
        json.dump(dict(zip(kinds, pool.map(read, kinds, chunksize=1), strict=True)), sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1])
