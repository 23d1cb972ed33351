"""A differential privacy guarantee in words: they say what the numbers say."""

from __future__ import annotations

import math
import re

import pytest

from fedtag.common.wording.guarantee import guarantee_sentences

PRIVACY = {
    "epsilon": 3.0,
    "delta": 1e-5,
    "noise": 1.5,
    "clip": 2.0,
    "mode": "central",
    "unit": "institution",
    "rounds": 20,
}


def test_a_guarantee_says_what_it_bounds_and_what_it_does_not() -> None:
    text = ". ".join(guarantee_sentences(PRIVACY))
    assert (
        "of 20 rounds are (ε, δ)-differentially private for one institution, with ε = 3 and δ = 1e-05" in text
    )
    factor = re.search(r"at most e\^ε = ([\d.]+)", text)
    assert factor
    assert float(factor[1]) == pytest.approx(math.exp(3.0), abs=0.01)
    assert "does not hold towards the server" in text
    assert "No node-level or edge-level guarantee is claimed" in text
    assert "Reported scores, losses and counts of nodes are outside of it" in text
    assert "they choose no round, the newest model is released" in text
    assert "weak" not in text


def test_the_place_of_the_noise_decides_towards_whom_it_holds() -> None:
    text = ". ".join(guarantee_sentences({**PRIVACY, "mode": "distributed", "rounds": 1, "unit": "one site"}))
    assert "It holds towards the server, too" in text
    assert "of 1 round are" in text
    assert "for one site," in text


def test_large_and_missing_bounds() -> None:
    text = ". ".join(guarantee_sentences({**PRIVACY, "epsilon": 12.0}))
    assert "the guarantee is weak" in text
    text = ". ".join(guarantee_sentences({**PRIVACY, "epsilon": 5000.0}))
    assert "e^5000, which is no limit in practice" in text
    (sentence,) = guarantee_sentences({**PRIVACY, "epsilon": None})
    assert "this run has no guarantee" in sentence
