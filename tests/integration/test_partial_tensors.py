"""Sums of updates of which clients have only some tensors: what sites send and how the server reads it, end to end.

Sites weigh and encode, the server decodes and divides; nothing but vectors passes between the two.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from fedtag.client.run.guard import weighed
from fedtag.common.config import RunConfig
from fedtag.common.models.supernet.logits import ARCHITECTURE
from fedtag.common.secure.fixed_point import FixedPoint
from fedtag.common.secure.upload import Layout, Opened
from fedtag.server.protocol.forms import TensorForm
from fedtag.server.strategies.aggregation import masked_mean
from fedtag.server.strategies.use import layout_of, partial_tensors, used_by_enough

FIXED = FixedPoint(40, 16384.0)
LOGITS = f"{ARCHITECTURE}.0.filter_edges"
SHAPES = {"all": (2,), LOGITS: (2,), "one": (3,), "two": (1, 2), "three": ()}
PARTIAL = ("one", "three", "two")
FORMS = {name: TensorForm(shape, torch.float32, optional=name in PARTIAL) for name, shape in SHAPES.items()}


@dataclass(frozen=True)
class Part:
    """What one client brings; `uses` are the partial tensors that it has."""

    weight: float
    normaliser: float
    uses: tuple[str, ...]
    update: Mapping[str, Tensor]


def part_of(seed: int, weight: float, normaliser: float, uses: Sequence[str]) -> Part:
    generator = torch.Generator().manual_seed(seed)
    update = {
        name: torch.randn(shape, generator=generator)
        for name, shape in SHAPES.items()
        if name not in PARTIAL or name in uses
    }
    return Part(weight, normaliser, tuple(uses), update)


def config_of(nova: bool) -> RunConfig:
    settings: dict[str, Any] = {"method": "fedavg", "clients": 3, "privacy.secure-aggregation": True}
    return RunConfig.from_flat({**settings, "aggregation.normalise": "fednova" if nova else "none"})


def opened(parts: Sequence[Part], layout: Layout, nova: bool) -> Opened:
    """The sum of what the clients encode."""
    total = np.zeros(layout.size, np.uint64)
    for part in parts:
        update, scalars = weighed(part.update, part.weight, part.normaliser, layout, config_of(nova), 3)
        users = part.update.keys() if scalars[1] > 0 else ()
        total += FIXED.encode(layout.vector(update, scalars, users=users))
    return layout.opened(FIXED.decode(total))


def by_hand(parts: Sequence[Part], nova: bool) -> dict[str, list[float]]:
    """τ_eff Σ_users w_i Δ_i / a_i / Σ_users w_i, number by number; only of what three clients that count use."""
    counted = [part for part in parts if part.weight > 0 and (part.normaliser > 0 or not nova)]
    found: dict[str, list[float]] = {}
    if not counted:
        return found
    total = math.fsum(part.weight for part in counted)
    effective = math.fsum(part.weight * part.normaliser for part in counted) / total
    for name, shape in SHAPES.items():
        users = [part for part in counted if name in part.update]
        if name in PARTIAL and len(users) < 3:
            continue
        share = math.fsum(part.weight for part in users)
        numbers = []
        for place in range(math.prod(shape)):
            values = []
            for part in users:
                value = float(part.update[name].flatten()[place])
                factor = effective / part.normaliser if nova and name != LOGITS else 1.0
                values.append(part.weight * value * factor)
            numbers.append(math.fsum(values) / share)
        found[name] = numbers
    return found


PARTS = st.lists(
    st.builds(
        part_of,
        st.integers(0, 2**31),
        st.one_of(st.just(0.0), st.floats(1e-3, 1.0)),
        st.one_of(st.just(0.0), st.floats(0.5, 30.0)),
        st.lists(st.sampled_from(PARTIAL), unique=True).map(sorted),
    ),
    min_size=3,
    max_size=8,
)


@given(PARTS, st.booleans())
def test_each_tensor_is_divided_by_the_weight_of_its_users(parts: list[Part], nova: bool) -> None:
    total = math.fsum(part.weight for part in parts) or 1.0
    parts = [Part(p.weight / total, p.normaliser, p.uses, p.update) for p in parts]
    # All tensors are asked for here, as if clients had dropped out after the count.
    layout = layout_of(FORMS, dict.fromkeys(PARTIAL, 8))
    result = opened(parts, layout, nova)
    mean = masked_mean(used_by_enough(result), result.weight, result.steps, nova, result.shares)
    expected = by_hand(parts, nova)
    assert mean.keys() == expected.keys()
    # Half a unit of fixed point a client, divided by the least weight of three users and times τ_eff.
    for name, numbers in expected.items():
        assert mean[name].shape == SHAPES[name]
        assert mean[name].flatten().tolist() == pytest.approx(numbers, rel=1e-6, abs=1e-6)


@given(PARTS)
def test_what_too_few_use_has_no_place_in_a_sum(parts: list[Part]) -> None:
    """The count before a sum is exact, and what fewer than three use is then not asked for at all."""
    counting = Layout({}, used=partial_tensors(FORMS))
    total = np.zeros(counting.size, np.uint64)
    for part in parts:
        total += FIXED.encode(counting.vector({}, (0.0, 0.0), users=part.update.keys()))
    users = counting.opened(FIXED.decode(total)).users
    assert users == {name: sum(name in part.uses for part in parts) for name in PARTIAL}
    layout = layout_of(FORMS, users)
    few = {name for name in PARTIAL if users[name] < 3}
    assert layout.update.keys() == SHAPES.keys() - few
    assert set(layout.used) == set(PARTIAL) - few
    # A client that uses such a tensor says no more of it than one that does not.
    for part in parts:
        vector = layout.vector(part.update, (part.weight, part.weight), users=part.update.keys())
        less = {name: value for name, value in part.update.items() if name not in few}
        assert vector.tolist() == layout.vector(less, (part.weight, part.weight), users=less.keys()).tolist()


def test_equal_weights_leave_the_number_of_users_and_not_who_they_are() -> None:
    """Whoever of five clients the three users are, all that is opened beside the update is the same."""
    layout = layout_of(FORMS, dict.fromkeys(PARTIAL, 3))
    seen = set()
    for uses in set(permutations([("one", "two"), ("one",), ("one", "three"), (), ()])):
        parts = [part_of(seed, 0.2, 4.0, own) for seed, own in enumerate(uses)]
        result = opened(parts, layout, True)
        seen.add((*result.users.items(), *result.shares.items(), result.steps, result.weight))
    assert len(seen) == 1


def test_unequal_weights_can_tell_who_the_users_are() -> None:
    """The threat model says so; if this fails, it can say better."""
    layout = layout_of(FORMS, dict.fromkeys(PARTIAL, 3))
    weights = (0.1, 0.15, 0.2, 0.25, 0.3)
    sums = []
    for lacking in range(5):
        uses = [() if place == lacking else ("one",) for place in range(5)]
        parts = [part_of(k, weights[k], 4.0, own) for k, own in enumerate(uses)]
        sums.append(round(opened(parts, layout, True).shares["one"], 6))
    assert len(set(sums)) == 5


def test_a_client_that_weighs_nothing_is_no_user() -> None:
    """Two that count and one that does not are two: the sum would be over the two."""
    layout = layout_of(FORMS, dict.fromkeys(PARTIAL, 3))
    for weight, normaliser in ((0.0, 4.0), (0.3, 0.0)):
        parts = [part_of(1, 0.4, 4.0, ["one"]), part_of(2, 0.3, 2.0, ["one"])]
        parts.append(part_of(3, weight, normaliser, ["one"]))
        result = opened(parts, layout, True)
        assert result.users["one"] == 2
        assert "one" not in used_by_enough(result)
        assert "all" in used_by_enough(result)
