"""What fedtag's executors save beside Flower's own: the echo's floor, rounds over gRPC, idle sites; all in one run."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median

import pytest

from tests.benchmarks.other_apps import write_echo
from tests.benchmarks.test_transport_cost import computed, exchanges
from tests.system.breakable import Breakable

pytestmark = pytest.mark.benchmark

ROUNDS = 5
MOST_OF_PLAIN = 0.55
MOST_ABOVE_THE_FLOOR = 1.1
IDLE_SECONDS = 10.0
FLOATS = 100_000
ECHO_SITE = (sys.executable, str(Path(__file__).with_name("echo_site.py")))


def idle(federation: Breakable) -> dict[str, float]:
    """Share of a core that a program and its family take while nothing is asked of it."""

    def used() -> dict[tuple[str, int], float]:
        found: dict[tuple[str, int], float] = {}
        for name, program in federation.programs.items():
            for process in program.family():
                times = process.cpu_times()
                found[name, process.pid] = times.user + times.system
        return found

    # Pauses grow with the time without work.
    time.sleep(IDLE_SECONDS)
    before = used()
    time.sleep(IDLE_SECONDS)
    shares = dict.fromkeys(federation.programs, 0.0)
    for (name, pid), seconds in used().items():
        shares[name] += (seconds - before.get((name, pid), 0.0)) / IDLE_SECONDS
    return shares


def measured(folder: Path, sites: Mapping[str, Path], plain: bool) -> dict[str, float]:
    """Median seconds of an exchange of the echo and of FedAvg's and DANCE's rounds, and idle processor shares."""
    found: dict[str, float] = {}
    serve = None if plain else ECHO_SITE
    with Breakable(folder / "echo-federation", sites, poll=0.05, plain=plain, serve_site=serve) as federation:
        found["echo"] = exchanges(federation, write_echo(folder / "echo"), FLOATS, ROUNDS)
    with Breakable(folder / "federation", sites, poll=0.05, plain=plain) as federation:
        for method in ("fedavg", "dance"):
            run = federation.run(
                method, method=method, rounds=ROUNDS, model__hidden=64, train__epochs=3
            ).finish(900)
            rows = run.rounds[1:]
            found[method] = median(row.seconds for row in rows)
            found[f"{method}, computed"] = median(computed(row) for row in rows)
        shares = idle(federation)
        found["idle link"] = shares.pop("superlink")
        found["idle site"] = median(shares.values())
    return found


def test_executors_halve_the_floor(tmp_path: Path, write_feature_folder: Callable[..., Path]) -> None:
    sites = {name: write_feature_folder(tmp_path / name, seed=n) for n, name in enumerate("abc")}
    (tmp_path / "own").mkdir()
    (tmp_path / "plain").mkdir()
    plain = measured(tmp_path / "plain", sites, plain=True)
    own = measured(tmp_path / "own", sites, plain=False)
    lines = [
        f"three sites over gRPC on loopback, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}",
        f"  {'median seconds; shares of a core':<36}{'plain':>9}{'fedtag':>9}{'ratio':>8}",
        *(
            f"  {name:<36}{plain[name]:9.2f}{own[name]:9.2f}{own[name] / max(plain[name], 1e-9):8.2f}"
            for name in own
        ),
    ]
    print("\n" + "\n".join(lines))  # noqa: T201
    assert own["echo"] <= MOST_OF_PLAIN * plain["echo"]
    assert own["fedavg"] <= MOST_ABOVE_THE_FLOOR * own["echo"] + own["fedavg, computed"]


@pytest.mark.parametrize("count", [12, 50])
def test_many_sites(tmp_path: Path, write_feature_folder: Callable[..., Path], count: int) -> None:
    """Twenty exchanges of an echo; fifty sites take about 15 GiB of memory."""
    data = write_feature_folder(tmp_path / "data", seed=0)
    sites = {f"site-{number:02}": data for number in range(count)}
    rounds = 20
    with Breakable(tmp_path / "federation", sites, poll=0.05, serve_site=ECHO_SITE) as federation:
        control = federation.control("control-echo", write_echo(tmp_path / "echo", nodes=count))
        heard: list[str] = []
        outcome = control.run({"floats": FLOATS, "rounds": rounds}, heard.append)
        assert outcome.succeeded, "\n".join([str(outcome), *heard])
        seconds = [float(line.split()[1]) for line in heard if line.startswith("SECONDS ")]
        memory = {
            name: sum(process.memory_info().rss for process in program.family()) / 2**20
            for name, program in federation.programs.items()
        }
    print(  # noqa: T201
        f"\n{count} sites, {os.cpu_count()} cores, {rounds} exchanges of {FLOATS * 4 / 2**20:.1f} MiB each way: "
        f"median {median(seconds):.2f} s, longest {max(seconds):.2f} s; "
        f"MiB of the link {memory.pop('superlink'):.0f}, of a site {median(memory.values()):.0f}"
    )
    assert len(seconds) == rounds
