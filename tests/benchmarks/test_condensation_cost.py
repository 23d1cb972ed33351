"""What a round of DANCE costs beside one of FedAvg on the same graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.benchmarks.conftest import Cost

pytestmark = pytest.mark.benchmark

ROUNDS = 12
MOST_TIMES = 3.0


def test_a_round_of_dance_beside_one_of_fedavg(cost_of: Callable[..., Cost]) -> None:
    plain = cost_of(method="fedavg", clients=5, rounds=ROUNDS)
    dance = cost_of(method="dance", clients=5, rounds=ROUNDS)
    graph_path = cost_of(method="dance", clients=5, rounds=ROUNDS, dance__scoring="graph")
    sparse = cost_of(method="dance", clients=5, rounds=ROUNDS, evaluation__every=ROUNDS)
    table = {
        "FedAvg": plain,
        "DANCE": dance,
        "DANCE, scoring graph": graph_path,
        "DANCE, scored at the end": sparse,
    }
    print(f"\nCora (2708 texts), 5 Louvain clients, median of {ROUNDS - 1} rounds in one process")  # noqa: T201
    print(f"  {'':<26}{'CPU s':>8}{'times':>8}{'kB up':>8}{'kB down':>9}")  # noqa: T201
    for name, cost in table.items():
        up, down = cost.rows[-1].bytes_up // 1000, cost.rows[-1].bytes_down // 1000
        print(f"  {name:<26}{cost.typical:8.3f}{cost.typical / plain.typical:8.2f}{up:8d}{down:9d}")  # noqa: T201
    for phase, seconds in dance.phases().items():
        print(f"  {'wall s, ' + phase:<26}{seconds:8.3f}")  # noqa: T201
    assert dance.typical <= MOST_TIMES * plain.typical
