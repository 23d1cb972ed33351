from __future__ import annotations

import json
import math
import sys
from dataclasses import asdict, replace

import dp_accounting
import pytest
import scipy.stats
from dp_accounting import GaussianDpEvent, NeighboringRelation, SelfComposedDpEvent
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant
from hypothesis import given
from hypothesis import strategies as st

from fedtag.common.errors import ConfigError
from fedtag.common.numerics.accounting import distributed_sensitivity, epsilon
from fedtag.common.numerics.noise import share_of_noise
from fedtag.server.strategies.accounting import PrivacySpent, privacy_spent


def accounted(accountant: dp_accounting.PrivacyAccountant, noise: float, rounds: int, delta: float) -> float:
    accountant.compose(SelfComposedDpEvent(GaussianDpEvent(noise), rounds))
    return float(accountant.get_epsilon(delta))


@pytest.mark.parametrize(
    ("noise", "rounds", "delta"),
    [(1.0, 1, 1e-5), (2.0, 3, 1e-6), (5.0, 20, 1e-5), (20.0, 200, 1e-7), (50.0, 10, 1e-3)],
)
def test_epsilon_is_that_of_the_accountants_for_the_same_events(
    noise: float, rounds: int, delta: float
) -> None:
    ours = epsilon(noise, rounds, delta)
    # The accountant of privacy losses rounds them up to its grid; that of Rényi divergences is an upper bound.
    fine = accounted(PLDAccountant(NeighboringRelation.ADD_OR_REMOVE_ONE), noise, rounds, delta)
    assert fine * (1 - 1e-4) <= ours <= fine * (1 + 1e-9)
    zeroed = RdpAccountant(neighboring_relation=NeighboringRelation.REPLACE_SPECIAL)
    coarse = accounted(zeroed, noise, rounds, delta)
    assert 0.75 * coarse < ours < coarse


@given(st.floats(0.3, 100), st.integers(1, 1000), st.floats(1e-9, 0.1))
def test_epsilon_solves_the_definition(noise: float, rounds: int, delta: float) -> None:
    found = epsilon(noise, rounds, delta)
    mean = math.sqrt(rounds) / noise

    def leaked(e: float) -> float:
        """Pr[o] - e^ε Pr'[o] over the outputs o that tell N(mean, 1) from N(0, 1) best."""
        edge = mean / 2 + e / mean
        return float(scipy.stats.norm.sf(edge - mean) - math.exp(e + scipy.stats.norm.logsf(edge)))

    if found == 0:
        assert leaked(0.0) <= delta
    else:
        assert leaked(found) == pytest.approx(delta, rel=1e-6, abs=1e-13)


@given(st.floats(0.05, 50), st.floats(1.001, 3), st.integers(1, 500), st.floats(1e-9, 0.1))
def test_less_noise_more_rounds_and_a_smaller_delta_cost_more(
    noise: float, factor: float, rounds: int, delta: float
) -> None:
    base = epsilon(noise, rounds, delta)
    for worse in (
        epsilon(noise / factor, rounds, delta),
        epsilon(noise, rounds + 1, delta),
        epsilon(noise, rounds, delta / factor),
    ):
        assert worse > base or base == worse == 0


def test_the_ends_of_the_scale() -> None:
    assert epsilon(0.0, 1, 1e-5) == math.inf
    assert epsilon(0.0, 0, 1e-5) == 0.0
    assert epsilon(1.0, 0, 1e-5) == 0.0
    assert epsilon(1e9, 1, 1e-5) == 0.0
    assert epsilon(1e-3, 1000, 1e-5) > 1e8


def test_without_the_package_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "dp_accounting", None)
    with pytest.raises(ConfigError, match=r"pip install 'fedtag\[dp\]'"):
        epsilon(1.0, 1, 1e-5)
    assert epsilon(0.0, 1, 1e-5) == math.inf


def test_rounding_adds_half_a_step_in_each_coordinate() -> None:
    assert distributed_sensitivity(1.0, 0, 40) == 1.0
    assert distributed_sensitivity(1.5, 4, 3) == 1.5 + 2 / 16
    # The largest move of a vector of norm S: every coordinate by half a step.
    dimension, bits = 1000, 8
    corner = math.dist([0.0] * dimension, [2.0 ** -(bits + 1)] * dimension)
    assert distributed_sensitivity(2.0, dimension, bits) == pytest.approx(2.0 + corner)


@given(st.floats(0, 10), st.floats(0.01, 10), st.integers(0, 5), st.integers(1, 20))
def test_the_honest_parts_of_any_sum_carry_the_whole_noise(
    noise: float, clip: float, colluders: int, honest: int
) -> None:
    share = share_of_noise(noise, clip, colluders + honest, colluders)
    assert math.sqrt(honest) * share == pytest.approx(noise * clip)


@pytest.mark.parametrize(("threshold", "colluders"), [(3, 3), (3, 4), (0, 0)])
def test_noise_of_colluders_alone_is_refused(threshold: int, colluders: int) -> None:
    with pytest.raises(
        ConfigError, match=f"colluders = {colluders} leaves no honest noise in a sum of {threshold}"
    ):
        share_of_noise(1.0, 1.0, threshold, colluders)


def test_what_was_spent_is_written_as_json() -> None:
    spent = privacy_spent("central", noise=2.0, clip=0.5, delta=1e-5, rounds=3, sensitivity=0.5)
    assert spent == PrivacySpent(epsilon(2.0, 3, 1e-5), 1e-5, "one institution", "central", 2.0, 0.5, 3)
    assert json.loads(json.dumps(asdict(spent), allow_nan=False))["unit"] == "one institution"
    rounded = privacy_spent("distributed", 2.0, 0.5, 1e-5, 3, distributed_sensitivity(0.5, 10**6, 8))
    assert rounded.epsilon is not None
    assert spent.epsilon is not None
    assert rounded.epsilon > 2 * spent.epsilon
    bare = privacy_spent("central", noise=0.0, clip=0.5, delta=1e-5, rounds=3, sensitivity=0.5)
    assert bare == replace(spent, epsilon=None, noise=0.0)
    json.dumps(asdict(bare), allow_nan=False)
