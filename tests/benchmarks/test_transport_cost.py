"""What an exchange over gRPC costs beside the bare transport, and beside Flower's own loop.

All three run on the same SuperLink and SuperNodes, one after the other, with as many bytes a message.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import pytest

from fedtag.client.run.simulated import simulate_sites
from fedtag.common.config import RunConfig
from fedtag.common.homes import cache_folder
from fedtag.server.tracking.rows import RoundRow
from tests.benchmarks.other_apps import write_echo, write_stock
from tests.system.breakable import Breakable

pytestmark = pytest.mark.benchmark

SITES = 3
ROUNDS = 6
STOCK_ROUNDS = 3
MOST_BESIDE_THE_ECHO = 1.3
LEAST_GAIN = 2.0
WAITING = "transport and waiting"


def test_an_exchange_of_dance_over_grpc(cora_texts: Path, tmp_path: Path) -> None:
    dance: dict[str, bool | int | float | str] = {
        "method": "dance",
        "data.source": str(cora_texts),
        "clients": SITES,
        "rounds": ROUNDS,
        "device": "cpu",
    }
    parts = simulate_sites(RunConfig.from_flat(dance), tmp_path / "sites")
    sites = {site.name: site.folder for site in parts}
    # The echo is an app with code, which no executor of fedtag's runs.
    with Breakable(tmp_path / "federation", sites, cache=cache_folder(), poll=0.05, plain=True) as federation:
        run = federation.run("dance", **dance, model__hidden=64, train__epochs=3).finish(900)
        rows = run.rounds[1:]
        floats = median(row.bytes_up for row in rows) / SITES / 4
        echo = exchanges(federation, write_echo(tmp_path / "echo"), floats, ROUNDS)
        stock = exchanges(federation, write_stock(tmp_path / "stock"), floats, STOCK_ROUNDS)
    whole, compute = median(row.seconds for row in rows), median(computed(row) for row in rows)
    left = median(row.seconds - computed(row) for row in rows)
    lines = [
        f"DANCE on Cora (2708 texts, encoded before), {SITES} sites over gRPC on loopback",
        f"  {floats * 4 / 1024:.0f} KiB a message up; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores",
        f"  {'':<52}{'s':>8}",
        f"  {'an exchange: one round (train, score), warm workers':<52}{whole:8.2f}",
        f"  {'  of it computed (slowest site, server)':<52}{compute:8.2f}",
        f"  {'  of it left':<52}{left:8.2f}",
        f"  {'an exchange of the echo (NumPy, same loop)':<52}{echo:8.2f}",
        f"  {'a round of stock FedAvg (train, evaluate; torch)':<52}{stock:8.2f}",
        f"  {'  an exchange of it':<52}{stock / 2:8.2f}",
        f"  {'what is left / echo':<52}{left / echo:7.2f}x",
        f"  {'stock round / this round without computing':<52}{stock / left:7.2f}x",
        f"  {'stock round / this round':<52}{stock / whole:7.2f}x",
    ]
    print("\n" + "\n".join(lines))  # noqa: T201
    assert left <= MOST_BESIDE_THE_ECHO * echo
    assert stock / left >= LEAST_GAIN


def computed(row: RoundRow) -> float:
    """Seconds of a round in which somebody computed: the slowest site, and the server."""
    return sum(seconds for phase, seconds in row.seconds_by_phase.items() if phase != WAITING)


def exchanges(federation: Breakable, app: Path, floats: float, rounds: int) -> float:
    """Median seconds of what an app times, the first left out, which installs the app."""
    lines: list[str] = []
    control = federation.control(f"control-{app.name}", app)
    outcome = control.run({"floats": int(floats), "rounds": rounds}, lines.append)
    assert outcome.succeeded, (outcome, lines)
    return median(told(lines)[1:])


def told(lines: Sequence[str]) -> list[float]:
    return [float(line.split()[1]) for line in lines if line.startswith("SECONDS ")]
