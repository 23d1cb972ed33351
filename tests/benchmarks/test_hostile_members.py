"""Hostile members under masks, on Cora's texts: what robust rules over groups keep, and what the plain mean loses."""

from __future__ import annotations

import sys
from pathlib import Path
from statistics import mean

import pytest

from tests.benchmarks.hostile_members import ATTACKS, FEDERATIONS, RULES, measured, write_rows

SEEDS = (0, 1, 2)


@pytest.mark.benchmark
def test_two_of_sixteen_and_one_of_ten(shared_data: Path, tmp_path: Path) -> None:
    rows = measured(str(shared_data / "cora_text"), SEEDS)
    write_rows(tmp_path / "hostile-members.csv", rows)
    lines = []
    for clients, hostile in FEDERATIONS:
        for rule in RULES:
            found = [
                mean(
                    row["test_accuracy"]
                    for row in rows
                    if (row["clients"], row["rule"], row["attack"]) == (clients, rule, attack)
                )
                for attack in ATTACKS
            ]
            cells = "  ".join(
                f"{attack} {100 * value:.1f}" for attack, value in zip(ATTACKS, found, strict=True)
            )
            lines.append(f"{hostile} of {clients}, {rule}: {cells}")
    sys.stdout.write("\n".join(["", *lines, f"rows: {tmp_path / 'hostile-members.csv'}", ""]))
