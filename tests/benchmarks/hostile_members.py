"""One federation with hostile members, for tables: python -m tests.benchmarks.hostile_members SOURCE OUT [SEED ...]."""

from __future__ import annotations

import csv
import os
import sys
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from fedtag.client.methods.base import ClientMethod
from fedtag.client.run.simulated import simulate_sites
from fedtag.client.run.site_run import SiteRun
from fedtag.client.site.site import Site
from fedtag.common.config import RunConfig
from fedtag.common.secure.groups import Groups, drawn_groups
from fedtag.common.wire.records import Content
from fedtag.runs.grid import InProcessGrid
from fedtag.server.run.rounds import Rounds
from fedtag.server.state.progress import LineProgress
from fedtag.server.tracking.run_directory import RunDirectory

ATTACKS = ("none", "sign flip x20", "scaled noise", "label flip", "model replacement")
ABSENT = "groups without labels"
"""Everybody is honest, and whoever shares a group with one of the hostile ones has nothing to learn from: the best that
is left to a rule that leaves those groups out."""
RULES = ("mean", "group-median", "group-trimmed-mean")
FEDERATIONS = ((10, 1, "louvain"), (16, 2, "louvain"), (16, 2, "random"))
"""Clients, hostile ones, and how the graph is divided: into communities, or into clients that are alike."""
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
    partition: str = "louvain"

    @property
    def hostile_names(self) -> frozenset[str]:
        """Every other client from the first on, so that neighbours in the partition are not hostile together."""
        return frozenset(f"client-{2 * place:02}" for place in range(self.hostile))


def accuracy(case: Case) -> float:
    """Test accuracy of the released model over all clients; the hostile ones score it honestly."""
    torch.set_num_threads(1)
    with TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        out = Path(folder) / "run"
        config = RunConfig.from_flat(
            {
                "method": "fedavg",
                "data.source": case.source,
                "data.partition": case.partition,
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
        assert case.hostile_names <= {site.name for site in sites}
        if case.attack == ABSENT:
            take_labels(sites, company(case))
        elif case.attack != "none":
            turn(patch, case.hostile_names, case)
        runs = [SiteRun(site, config) for site in sites]
        summary = Rounds(
            InProcessGrid(runs, lambda parcel: None), config, RunDirectory(out), LineProgress(1e9)
        ).run()
        return float(summary.test_accuracy or 0.0)


def company(case: Case) -> set[str]:
    """The hostile clients and whoever shares a group with one of them."""
    drawn: list[Groups] = []

    def recorded(draws: Mapping[str, bytes]) -> Groups:
        drawn.append(drawn_groups(draws))
        return drawn[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fedtag.client.secure.grouping.drawn_groups", recorded)
        accuracy(replace(case, rule="group-median", attack="none", rounds=1))
    return {name for group in drawn[0] if case.hostile_names.intersection(group) for name in group}


def take_labels(sites: Iterable[Site], names: Collection[str]) -> None:
    """Take the training nodes out of the folders of some sites; they are scored as before."""
    for site in sites:
        if site.name in names:
            nodes = pd.read_parquet(site.folder / "nodes.parquet")
            nodes.loc[nodes["split"] == "train", "split"] = None
            nodes.to_parquet(site.folder / "nodes.parquet")


def turn(patch: pytest.MonkeyPatch, hostile: Collection[str], case: Case) -> None:
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
        Case(source, clients, hostile, rule, attack, seed, partition=partition)
        for seed in seeds
        for clients, hostile, partition in FEDERATIONS
        for rule, attacks in {**dict.fromkeys(RULES, ATTACKS), "mean": (*ATTACKS, ABSENT)}.items()
        for attack in attacks
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
