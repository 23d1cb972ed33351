"""What a round of FedAvg costs, everything included: training, scoring, wire, screening, checkpoint, records."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from tests.benchmarks.plain_loop import seconds_of_a_round

if TYPE_CHECKING:
    from tests.benchmarks.conftest import Cost

pytestmark = pytest.mark.benchmark

MOST_CPU_SECONDS = 0.25
MOST_OF_PLAIN = 1.5
"""Guards what was reached, 1.34; wanted is 1.15."""
MOST_MILLISECONDS_A_CLIENT = 25.0


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


def test_a_round_beside_a_plain_loop(cost_of: Callable[..., Cost]) -> None:
    """What fedtag adds to the same training and scoring, both in this run, on one thread."""
    cost = cost_of(method="fedavg", clients=10, rounds=100)
    plain = seconds_of_a_round(cost.graphs, 64, cost.graphs[0].num_classes, 100)
    lines = [
        "FedAvg, Cora, 10 clients, CPU seconds of a round, medians of 100",
        f"  {'plain PyTorch Geometric':<28}{plain:8.4f}",
        f"  {'fedtag':<28}{cost.typical:8.4f}",
        f"  {'ratio':<28}{cost.typical / plain:8.2f}",
        *(f"  {'wall s, ' + name:<28}{seconds:8.4f}" for name, seconds in cost.phases().items()),
    ]
    print("\n" + "\n".join(lines))  # noqa: T201
    assert cost.typical <= MOST_OF_PLAIN * plain


def test_five_hundred_clients(cost_of: Callable[..., Cost]) -> None:
    clients = 500
    cost = cost_of(method="fedavg", clients=clients, rounds=5, data__partition="random")
    each = 1000 * cost.typical / clients
    print(f"\nFedAvg, Cora, {clients} clients: {each:.1f} CPU ms a client and round")  # noqa: T201
    assert each <= MOST_MILLISECONDS_A_CLIENT
