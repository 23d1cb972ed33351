"""The wire of an institution is cut for 90 seconds in the middle of a round."""

from __future__ import annotations

import secrets
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.system.breakable import Breakable
from tests.system.namespaces import why_not

pytestmark = pytest.mark.slow

SERVER, SITE = "10.78.0.1", "10.78.0.2"
CUT_SECONDS = 90.0


@dataclass(frozen=True)
class Wire:
    """A host of its own for one institution, with a wire to this one."""

    name: str

    def inside(self) -> list[str]:
        return ["ip", "netns", "exec", self.name]

    def set(self, state: str) -> None:
        ip("-n", self.name, "link", "set", "wire", state)


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


@pytest.fixture
def wire() -> Iterator[Wire]:
    if reason := why_not():
        pytest.skip(reason)
    wire = Wire(f"ftcut{secrets.token_hex(3)}")
    ip("netns", "add", wire.name)
    try:
        ip("link", "add", wire.name, "type", "veth", "peer", "name", "wire", "netns", wire.name)
        ip("address", "add", f"{SERVER}/30", "dev", wire.name)
        ip("link", "set", wire.name, "up")
        ip("-n", wire.name, "address", "add", f"{SITE}/30", "dev", "wire")
        ip("-n", wire.name, "link", "set", "lo", "up")
        wire.set("up")
        yield wire
    finally:
        subprocess.run(["ip", "link", "delete", wire.name], capture_output=True, check=False)
        ip("netns", "delete", wire.name)


def test_a_cut_of_ninety_seconds_costs_its_rounds_only(
    wire: Wire, sites: dict[str, Path], tmp_path: Path
) -> None:
    present = list(sites)[:2]
    with Breakable(tmp_path / "cut", sites, tls=True, present=present, address=SERVER) as federation:
        federation.start_node("site-c", inside=wire.inside())
        running = federation.run("cut", rounds=1000)
        running.wait_for_checkpoint(1)
        wire.set("down")
        start = time.monotonic()
        running.wait_for_line("site-c is left out: error 5")
        noticed = time.monotonic() - start
        time.sleep(max(0.0, CUT_SECONDS - noticed))
        meanwhile = running.checkpoints[-1]
        wire.set("up")
        again = time.monotonic()
        running.wait_until(
            lambda: any(row.clients_ok == 3 and row.round > meanwhile for row in running.rounds),
            "the site's return",
            240,
        )
        returned = time.monotonic() - again
        print(f"noticed after {noticed:.0f} s, trained again {returned:.0f} s after the cut")  # noqa: T201
        counts = [(row.clients_ok, row.clients_failed) for row in running.rounds]
        # The program that was cut off is the one that is back, under the node id that its key belongs to.
        assert federation.programs["site-c"].exit_code is None
        assert "come back as another node" not in running.text
    # The others waited for the one round, then went on by themselves.
    assert (2, 1) in counts
    assert (2, 0) in counts
    assert {ok for ok, _ in counts} == {2, 3}
