from __future__ import annotations

import hashlib

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedtag.common.randomness import derive_seed, numpy_generator, torch_generator

PARTS = st.lists(st.one_of(st.text(max_size=5), st.integers(0, 30)), max_size=4)


@given(st.integers(0, 2**40), PARTS, PARTS)
def test_other_purposes_give_other_seeds(seed: int, one: list[str | int], other: list[str | int]) -> None:
    typed = [(type(part), part) for part in one], [(type(part), part) for part in other]
    assert (derive_seed(seed, *one) == derive_seed(seed, *other)) == (typed[0] == typed[1])
    assert 0 <= derive_seed(seed, *one) < 2**63


def test_parts_do_not_run_into_each_other() -> None:
    assert derive_seed(0, "ab", "c") != derive_seed(0, "a", "bc")
    assert derive_seed(0, 1) != derive_seed(0, "1")
    assert derive_seed(1, 2) != derive_seed(2, 1)


def test_the_value_is_the_same_on_every_machine() -> None:
    """SHA-256 of the length-prefixed parts, written out."""
    parts = b"\x05\0\0\0int:0" + b"\x0b\0\0\0str:dropout"
    expected = int.from_bytes(hashlib.sha256(parts).digest()[:8], "little") >> 1
    assert derive_seed(0, "dropout") == expected


def test_generators_repeat_and_leave_the_global_ones_alone() -> None:
    torch_state, numpy_state = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    draws = [torch.rand(3, generator=torch_generator(7, 1, "x")).tolist() for _ in range(2)]
    assert draws[0] == draws[1]
    assert numpy_generator(7, 1, "x").random(3).tolist() == numpy_generator(7, 1, "x").random(3).tolist()
    assert numpy_generator(7, 1, "x").random() != numpy_generator(7, 2, "x").random()
    assert torch.equal(torch.get_rng_state(), torch_state)
    assert np.array_equal(np.random.get_state()[1], numpy_state)  # noqa: NPY002
