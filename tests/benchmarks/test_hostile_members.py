"""Hostile members under masks, on Cora's texts: what robust rules over groups keep, and what the plain mean loses."""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import mean, stdev

import pytest

from tests.benchmarks.hostile_members import Case, cases, measured, write_rows

SEEDS = (0, 1, 2)
HONEST_SEEDS = (0, 1, 2, 3, 4)


@pytest.mark.benchmark
def test_two_of_sixteen_and_one_of_ten(shared_data: Path, tmp_path: Path) -> None:
    rows = measured(cases(str(shared_data / "cora_text"), SEEDS))
    write_rows(tmp_path / "hostile-members.csv", rows)
    lines = []
    found: dict[tuple[int, str, str], dict[str, list[float]]] = {}
    for row in rows:
        federation = found.setdefault((row["clients"], row["partition"], row["rule"]), {})
        federation.setdefault(row["attack"], []).append(row["test_accuracy"])
    for (clients, partition, rule), attacks in found.items():
        cells = "  ".join(f"{attack} {100 * mean(values):.1f}" for attack, values in attacks.items())
        lines.append(f"{clients} clients, {partition}, {rule}: {cells}")
    sys.stdout.write("\n".join(["", *lines, f"rows: {tmp_path / 'hostile-members.csv'}", ""]))


@pytest.mark.benchmark
def test_what_robust_rules_cost_where_everybody_is_honest(shared_data: Path, tmp_path: Path) -> None:
    graphs = {name: str(shared_data / "graphs" / f"planetoid_{name}.npz") for name in ("cora", "citeseer")}
    rules = ("mean", "group-median")
    todo = [
        Case(source, 10, 1, rule, "none", seed)
        for source in graphs.values()
        for rule in rules
        for seed in HONEST_SEEDS
    ]
    rows = measured(todo)
    write_rows(tmp_path / "honest-members.csv", rows)
    for name, source in graphs.items():
        found = {
            rule: [
                row["test_accuracy"]
                for row in rows
                if (row["source"], row["rule"]) == (Path(source).stem, rule)
            ]
            for rule in rules
        }
        differences = [100 * (one - other) for other, one in zip(*found.values(), strict=True)]
        cells = ", ".join(f"{rule} {100 * mean(values):.1f}" for rule, values in found.items())
        sys.stdout.write(f"\n{name}: {cells}; difference {mean(differences):+.2f} ± {stdev(differences):.2f}")
    sys.stdout.write(f"\nrows: {tmp_path / 'honest-members.csv'}\n")
