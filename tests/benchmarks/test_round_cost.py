"""What a round of FedAvg costs, everything included: training, scoring, wire, screening, checkpoint, records."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.benchmarks.conftest import Cost

pytestmark = pytest.mark.benchmark

MOST_CPU_SECONDS = 0.25


def test_a_round_of_fedavg_over_ten_clients(cost_of: Callable[..., Cost]) -> None:
    cost = cost_of(method="fedavg", clients=10, rounds=100)
    lines = [
        "FedAvg, Cora (2708 texts), 10 Louvain clients, 100 rounds in one process",
        f"  {'CPU s, median round':<28}{cost.typical:8.3f}",
        f"  {'CPU s, whole run / rounds':<28}{cost.whole:8.3f}",
        *(f"  {'wall s, ' + name:<28}{seconds:8.3f}" for name, seconds in cost.phases().items()),
        f"  {'bytes up a round':<28}{cost.rows[-1].bytes_up:8d}",
        f"  {'bytes down a round':<28}{cost.rows[-1].bytes_down:8d}",
    ]
    print("\n" + "\n".join(lines))  # noqa: T201
    assert cost.whole <= MOST_CPU_SECONDS
