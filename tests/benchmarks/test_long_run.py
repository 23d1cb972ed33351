"""Fifty rounds over gRPC: whether any process grows, and how often the sites are asked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from statistics import median

import psutil
import pytest

from fedtag.client.worker.place import place_of
from tests.system.breakable import Breakable

pytestmark = pytest.mark.benchmark

ROUNDS = 50
WARM = 10
WINDOW = 5
MOST_GROWTH = 0.05
MIB = 2**20


def resident(federation: Breakable) -> dict[str, float]:
    """MiB of memory of each process that outlives a message, by what it is."""
    found: dict[str, float] = {}
    for name, program in federation.programs.items():
        for process in program.family():
            try:
                words, size = process.cmdline(), process.memory_info().rss / MIB
            except psutil.Error:
                continue
            kind = role(words)
            if kind is not None:
                found[f"{name}: {kind}"] = size
    return found


def role(words: list[str]) -> str | None:
    """What a process of a federation is; None for one that Flower starts for a message."""
    line = " ".join(words)
    known = {
        "fedtag.client.worker.service": "worker",
        "deploy.executor.service": "executor",
        "deploy.executor.superlink": "SuperLink",
        "deploy.executor.supernode": "SuperNode",
        "fedtag.deploy.cli serve": "supervisor",
    }
    return next((kind for mark, kind in known.items() if mark in line), None)


def test_fifty_rounds_take_no_more_memory_than_ten(
    tmp_path: Path, write_feature_folder: Callable[..., Path]
) -> None:
    sites = {name: write_feature_folder(tmp_path / name, seed=n) for n, name in enumerate("abc")}
    samples: dict[str, dict[int, float]] = {}
    with Breakable(tmp_path / "federation", sites, poll=0.05) as federation:
        running = federation.run("long", rounds=ROUNDS)
        for number in range(1, ROUNDS + 1):
            running.wait_for_checkpoint(number)
            for name, size in resident(federation).items():
                samples.setdefault(name, {})[number] = size
        running.finish()
        starts = [place_of(home).log.read_text().count("listens") for home in federation.workspaces.values()]
    told = [name for row in running.disclosures if row.kind == "sizes" for name in row.senders]
    exchanges = {name: told.count(name) for name in sites}
    lines = [
        f"FedAvg, three sites of 60 nodes, {ROUNDS} rounds over gRPC, resident memory in MiB",
        f"  {'':<24}{'round 1':>9}{f'round {WARM}':>10}{f'round {ROUNDS}':>10}{'growth':>9}",
    ]
    growth = {}
    for name, sizes in sorted(samples.items()):
        early = median(sizes[n] for n in range(WARM, WARM + WINDOW) if n in sizes)
        late = median(sizes[n] for n in range(ROUNDS - WINDOW + 1, ROUNDS + 1) if n in sizes)
        growth[name] = late / early - 1
        lines.append(
            f"  {name:<24}{sizes.get(1, float('nan')):9.1f}{early:10.1f}{late:10.1f}{growth[name]:9.1%}"
        )
    seconds = median(row.seconds for row in running.rounds[1:])
    lines += [
        f"  {'exchanges':<24}{set(exchanges.values())}",
        f"  {'s, median round':<24}{seconds:9.2f}",
    ]
    print("\n" + "\n".join(lines))  # noqa: T201
    assert len([name for name in growth if name.endswith("worker")]) == len(sites)
    assert starts == [1, 1, 1]
    assert exchanges == dict.fromkeys(sites, ROUNDS + 1)
    assert {name: share for name, share in growth.items() if share > MOST_GROWTH} == {}
