"""One federation with hostile members, for tables: python -m tests.benchmarks.hostile_members SOURCE OUT [SEED ...]."""

from __future__ import annotations

import csv
import os
import sys
import zlib
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import torch

from fedtag.client.methods.base import ClientMethod
from fedtag.client.run.simulated import simulate_sites
from fedtag.client.run.site_run import SiteRun
from fedtag.common.config import RunConfig
from fedtag.common.wire.records import Content
from fedtag.runs.grid import InProcessGrid
from fedtag.server.run.rounds import Rounds
from fedtag.server.state.progress import LineProgress
from fedtag.server.tracking.run_directory import RunDirectory

ATTACKS = ("none", "sign flip x20", "scaled noise", "label flip", "model replacement")
RULES = ("mean", "group-median", "group-trimmed-mean")
FEDERATIONS = ((10, 1), (16, 2))
BOOST = 20.0


@dataclass(frozen=True)
class Case:
    """One run: its data, how many clients there are, how many of them are hostile, and what these do."""

    source: str
    clients: int
    hostile: int
    rule: str
    attack: str
    seed: int
    rounds: int = 40


def accuracy(case: Case) -> float:
    """Test accuracy of the released model over all clients; the hostile ones score it honestly."""
    torch.set_num_threads(1)
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        out = Path(folder) / "run"
        config = RunConfig.from_flat(
            {
                "method": "fedavg",
                "data.source": case.source,
                "data.split": "0.6,0.2,0.2",
                "clients": case.clients,
                "rounds": case.rounds,
                "seed": case.seed,
                "device": "cpu",
                "out": str(out),
                "exchange.poll": 0.001,
                "privacy.secure-aggregation": True,
                "aggregation.rule": case.rule,
                "aggregation.hostile": 0 if case.rule == "mean" else case.hostile,
            }
        )
        sites = simulate_sites(config, Path(folder) / "sites")
        # Every other one from the first on, so that neighbours in the partition are not hostile together.
        hostile = {
            site.name for place, site in enumerate(sites) if place % 2 == 0 and place < 2 * case.hostile
        }
        assert len(hostile) == case.hostile
        if case.attack != "none":
            turn(patch, hostile, case)
        runs = [SiteRun(site, config) for site in sites]
        summary = Rounds(
            InProcessGrid(runs, lambda parcel: None), config, RunDirectory(out), LineProgress(1e9)
        ).run()
        return float(summary.test_accuracy or 0.0)


def turn(patch: pytest.MonkeyPatch, hostile: Iterable[str], case: Case) -> None:
    """Let some clients send something else than their update, or learn other labels."""
    after, examples = ClientMethod.after_training, ClientMethod.examples

    def sent(method: Any, model: Any, start: Any, training: Any, data: Any, context: Any) -> Content:
        content = after(method, model, start, training, data, context)
        if data.site.name not in hostile or case.attack == "label flip":
            return content
        updates = content.section("update")
        generator = np.random.default_rng([case.seed, context.round, zlib.crc32(data.site.name.encode())])
        changed = {
            f"update/{name}": forged(case, value, start[name], generator) for name, value in updates.items()
        }
        return Content({**content.tensors, **changed}, content.values, content.letters)

    def learned(method: Any, model: Any, data: Any, context: Any) -> Any:
        found, reported = examples(method, model, data, context)
        if data.site.name in hostile and case.attack == "label flip" and found is not None:
            classes = data.graph.num_classes
            found = type(found)(**{**vars(found), "y": classes - 1 - found.y})
        return found, reported

    patch.setattr(ClientMethod, "after_training", sent)
    patch.setattr(ClientMethod, "examples", learned)


def forged(
    case: Case, update: torch.Tensor, start: torch.Tensor, generator: np.random.Generator
) -> torch.Tensor:
    """What a hostile client sends in place of an update."""
    match case.attack:
        case "sign flip x20":
            return -BOOST * update
        case "scaled noise":
            noise = torch.from_numpy(generator.normal(size=tuple(update.shape))).to(update)
            return BOOST * update.norm() / max(float(noise.norm()), 1e-12) * noise
        case "model replacement":
            # The mean would become minus the model, whatever the others send.
            return -2 * case.clients * start.to(update)
    raise ValueError(case.attack)


def cases(source: str, seeds: Iterable[int]) -> list[Case]:
    """All runs of the table."""
    return [
        Case(source, clients, hostile, rule, attack, seed)
        for seed in seeds
        for clients, hostile in FEDERATIONS
        for rule in RULES
        for attack in ATTACKS
    ]


def measured(todo: Sequence[Case]) -> list[dict[str, Any]]:
    """Rows of the table, one a run."""
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        return [
            {**asdict(case), "source": Path(case.source).stem, "test_accuracy": round(found, 4)}
            for case, found in zip(todo, pool.map(accuracy, todo), strict=True)
        ]


def write_rows(path: Path, rows: list[Mapping[str, Any]]) -> None:
    """The rows as CSV."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


if __name__ == "__main__":
    write_rows(Path(sys.argv[2]), measured(cases(sys.argv[1], map(int, sys.argv[3:]))))
