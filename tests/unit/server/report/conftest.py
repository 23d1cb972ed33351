"""Run directories that look like real ones, written by the real class."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from fedtag.common.randomness import numpy_generator
from fedtag.server.tracking.disclosures import Crossing, Disclosure
from fedtag.server.tracking.rows import ClientRow, RoundRow, Summary, best_round
from fedtag.server.tracking.run_directory import RunDirectory

CLIENTS = ("charité", "hospital-north", "hospital-south", "مستشفى", "university-clinic-of-the-lower-rhine")
BINS = [
    {"nodes": 0, "confidence": None, "accuracy": None},
    *({"nodes": 3 * k, "confidence": (k + 0.4) / 15, "accuracy": k / 16} for k in range(1, 15)),
]
PHASES = {"train": 1.4, "condense": 0.6, "encode": 0.5, "exchange": 0.25}


def write_run(
    path: Path,
    *,
    rounds: int = 30,
    method: str = "dance",
    clients: tuple[str, ...] = CLIENTS,
    ceiling: float = 0.87,
    tested: bool = True,
    failing: str | None = None,
    finish: bool = True,
    scored: bool = True,
    local: bool = True,
    encoder_tokens: int = 1_482_113,
    bins: bool = True,
    settings: Mapping[str, Any] | None = None,
    privacy: Mapping[str, Any] | None = None,
) -> RunDirectory:
    """A run whose accuracy saturates at `ceiling`; the first client fails every seventh round for a reason."""
    generator = numpy_generator(7, method, rounds)
    run = RunDirectory(path)
    run.write_config(
        {
            "run": {"method": method, "data": "cora", "clients": len(clients), "rounds": rounds, "seed": 7},
            "train": {"local-epochs": 3, "learning-rate": 0.01, "client-fraction": 1.0, "device": None},
            "dance": {"ratio": 0.08, "core-policy": "coverage", "budgets": [1, 3, 2], "core-refresh": 10},
            "privacy": {"noise": 0.0, "secure-summation": False, "hide-statistics": False},
            "wire": {"codec": "fp32", "quorum": 3, "deadline-seconds": 600},
            **(settings or {}),
        }
    )
    rows = []
    for number in range(1, rounds + 1):
        fails = failing is not None and number % 7 == 3
        level = ceiling - 0.5 * math.exp(-number / 6) + float(generator.normal(0, 0.006))
        test = level - 0.011 if tested and scored else None
        seconds = {phase: mean * float(generator.uniform(0.8, 1.3)) for phase, mean in PHASES.items()}
        if number % 10 == 1:
            seconds["condense"] += 2.2
        row = RoundRow(
            round=number,
            train_loss=1.9 * math.exp(-number / 9) + 0.21 + float(generator.uniform(0, 0.02)),
            val_accuracy=level if scored else None,
            test_accuracy=test,
            test_macro_f1=test - 0.02 if test is not None else None,
            seconds=sum(seconds.values()) + 0.12,
            seconds_by_phase=seconds,
            bytes_up=len(clients) * 373_112 - 373_112 * fails,
            bytes_down=len(clients) * 371_904,
            clients_ok=len(clients) - fails,
            clients_failed=int(fails),
            test_ece=0.043 if test is not None else None,
            val_macro_f1=level - 0.03 if scored else None,
            local_val_accuracy=level - 0.04 if scored else None,
            local_test_accuracy=test - 0.05 if test is not None and local else None,
            effective_ratio=0.0793,
            selection=level if scored else None,
            val_spread=0.031 if scored else None,
            test_spread=0.042 if test is not None else None,
        )
        rows.append(row)
        run.append_round(row)
        run.append_clients(
            [client_row(name, min(index, 5), row, fails, failing) for index, name in enumerate(clients)]
        )
        run.append_disclosures(disclosures_of(clients, number))
    best = best_round(rows)
    run.write_model(
        {"weight": torch.eye(3), "bias": torch.zeros(3)}, {"classes": ["theory", "a|b"], "encoder": "mini"}
    )
    if finish and best is not None:
        run.write_summary(
            Summary(
                method=method,
                data="cora",
                clients=len(clients),
                rounds=rounds,
                ratio=0.08,
                seed=7,
                best_round=best.round,
                val_accuracy=best.val_accuracy,
                test_accuracy=best.test_accuracy,
                test_macro_f1=best.test_macro_f1,
                last_test_accuracy=rows[-1].test_accuracy,
                bytes_up=sum(row.bytes_up for row in rows),
                bytes_down=sum(row.bytes_down for row in rows),
                encoder_tokens=encoder_tokens,
                llm_tokens=88_310,
                llm_tokens_full_text=131_402,
                seconds=sum(row.seconds for row in rows) + 14.2,
                seconds_per_round=sorted(row.seconds for row in rows)[len(rows) // 2],
                peak_rss_mb=1843.5,
                test_reliability=BINS if bins else None,
                privacy=privacy,
                versions={"fedtag": "0.1.0", "torch": "2.13.0", "flwr": "1.39.2", "python": "3.11.9"},
            )
        )
    return run


def client_row(name: str, index: int, row: RoundRow, fails: bool, reason: str | None) -> ClientRow:
    failed = reason if fails and index == 0 else None
    shift = 0.02 * (index - 2)
    scores = {"test_accuracy_graph": row.test_accuracy, "test_accuracy_evidence": None}
    if row.test_accuracy is not None:
        scores["test_accuracy_evidence"] = row.test_accuracy - 0.013
    return ClientRow(
        round=row.round,
        client=name,
        nodes=None if failed else 541 - 60 * index,
        train_nodes=None if failed else 325 - 36 * index,
        val_accuracy=None if failed or row.val_accuracy is None else row.val_accuracy + shift,
        test_accuracy=None if failed or row.test_accuracy is None else row.test_accuracy + shift,
        test_macro_f1=None if failed or row.test_macro_f1 is None else row.test_macro_f1 + shift,
        seconds_by_phase={} if failed else {"train": 1.1 + 0.1 * index, "condense": 0.4},
        val_nodes=None if failed else 108 - 12 * index,
        test_nodes=None if failed else 108 - 12 * index,
        local_test_accuracy=None if failed else row.local_test_accuracy,
        weight=None if failed else 0.2,
        failed=failed,
        scores={} if failed else scores,
    )


def disclosures_of(clients: tuple[str, ...], number: int) -> list[Disclosure]:
    if not clients:
        return []
    down = [Crossing("server", name, 1, 371_904) for name in clients]
    up = [Crossing(name, "server", 1, 372_800) for name in clients]
    told = [Crossing(name, "server", 1, 312) for name in clients]
    rows = [
        Disclosure.of(number, "train", "model", down, "the global model", "none"),
        Disclosure.of(number, "train", "update", up, "the change of the model by local training", "masked"),
        Disclosure.of(
            number, "train", "statistics", told, "numbers of nodes, accuracy, class counts", "none"
        ),
    ]
    if number == 1:
        said = [Crossing(name, "server", 1, 120) for name in clients]
        rows.append(Disclosure.of(0, "keys", "schema", said, "names of classes, feature dimension", "none"))
    return rows


@pytest.fixture
def make_run(tmp_path: Path) -> Callable[..., RunDirectory]:
    def make(name: str = "dance-cora", **options: object) -> RunDirectory:
        return write_run(tmp_path / name, **options)  # type: ignore[arg-type]

    return make
