"""Settings of aggregation and privacy in words: every choice has some, and they say what the numbers say."""

from __future__ import annotations

import math
import re
from typing import Any, get_args

import pytest

from fedtag.common.config import RunConfig
from fedtag.common.settings.sections import AggregationConfig
from fedtag.common.wording.aggregation import combination_sentences, guarantee_sentences, privacy_sentences

PRIVACY = {
    "epsilon": 3.0,
    "delta": 1e-5,
    "noise": 1.5,
    "clip": 2.0,
    "mode": "central",
    "unit": "institution",
    "rounds": 20,
}


def settings(**changes: Any) -> dict[str, Any]:
    """All defaults, changed by keys with underscores for dots and dashes as they are."""
    return {**RunConfig(method="fedavg").to_flat(), **changes}


def combined(lag: int | None = None, method: str = "fedavg", **changes: Any) -> str:
    return ". ".join(combination_sentences(settings(**changes), method, lag))


@pytest.mark.parametrize("name", ["weights", "normalise", "rule", "server_optimiser"])
def test_every_choice_has_words_of_its_own(name: str) -> None:
    key = f"aggregation.{name.replace('_', '-')}"
    choices = get_args(AggregationConfig.model_fields[name].annotation)
    assert len(choices) >= 2
    texts = {combined(**{key: choice}) for choice in choices}
    assert len(texts) == len(choices)
    assert all("{" not in text for text in texts)


def test_whether_architectures_are_told_is_said() -> None:
    masked = {"privacy.secure-aggregation": True, "da_dfgas.personal": True}
    words = "do not tell their architectures"
    assert words in ". ".join(privacy_sentences(settings(**masked), "da_dfgas"))
    assert words not in ". ".join(privacy_sentences(settings(**masked), "fedavg"))
    for change in ({"da_dfgas.personal": False}, {"privacy.secure-aggregation": False}):
        assert words not in ". ".join(privacy_sentences(settings(**{**masked, **change}), "da_dfgas"))


def test_numbers_of_the_settings_are_named() -> None:
    text = combined(**{"aggregation.rule": "trimmed-mean", "aggregation.trim": 0.15})
    assert "the lowest 15% are cut off" in text
    # Robust rules do not weigh.
    assert "training nodes" not in text
    assert "assuming 3 hostile" in combined(**{"aggregation.rule": "krum", "aggregation.hostile": 3})
    text = combined(**{"aggregation.server-optimiser": "adam", "aggregation.server-rate": 0.125})
    assert "the gradient of adam, with step size 0.125" in text
    assert "added to the model, times 0.5" in combined(**{"aggregation.server-rate": 0.5})
    assert "times" not in combined()
    text = combined(
        **{
            "aggregation.max-update-norm": 7.5,
            "aggregation.average-decay": 0.95,
            "train.client-fraction": 0.25,
        }
    )
    assert "beyond 7.5 are left out" in text
    assert "decay 0.95" in text
    assert "25% of the clients" in text


def test_statistics_of_the_round_before_are_told() -> None:
    aware = {"aggregation.weights": "distribution-aware"}
    assert "arrive with the update" in combined(**aware)
    assert "round before" in combined(lag=1, **aware)
    assert "round before" in combined(**aware, **{"aggregation.statistics": "previous"})
    assert "round before" not in combined(lag=1)


@pytest.mark.parametrize(
    ("method", "word"), [("isolated", "a model of its own"), ("centralised", "one client")]
)
def test_methods_that_combine_nothing_say_so(method: str, word: str) -> None:
    (sentence,) = combination_sentences(settings(), method, None)
    assert word in sentence


def test_settings_of_other_versions_are_left_out() -> None:
    assert combination_sentences({}, "fedavg", None) == []
    assert privacy_sentences({}, "fedavg") == []
    later = settings(
        **{"aggregation.weights": "new", "aggregation.rule": "new", "aggregation.normalise": "new"}
    )
    assert combination_sentences(later, "fedavg", None) == ["The combined update is added to the model"]


def test_privacy_in_words() -> None:
    def said(method: str = "fedavg", **changes: Any) -> str:
        flat = {key.replace("_", "-").replace("--", "."): value for key, value in changes.items()}
        return ". ".join(privacy_sentences(settings(**flat), method))

    assert said() == (
        "The server sees each client's update in clear. No noise is added to updates: there is no differential "
        "privacy"
    )
    masked = {"privacy--secure-aggregation": True}
    assert "no single one" in said(**masked)
    assert "trusted to relay" in said(**masked)
    assert "sent in clear" in said(**masked)
    text = said(**masked, **{"privacy--roster": True, "privacy--hide-statistics": True})
    assert "found out" in text
    assert "under the masks, too" in text
    assert "in clear" not in text
    noised = {"privacy--dp--mode": "central", "privacy--dp--clip": 2.0, "privacy--dp--noise": 1.5}
    assert (
        "an L2 norm of 2; Gaussian noise with standard deviation 3 is on their sum: the server adds"
        in said(**noised)
    )
    text = said(**{**noised, "privacy--dp--mode": "distributed", "privacy--dp--colluders": 2})
    assert "each client adds a part" in text
    assert "even if 2 reveal theirs" in text
    assert "No update leaves a client" in said(method="isolated")
    assert "scale 0.5" in said(method="dance", **{"dance--noise": 0.5})
    assert "Laplace" not in said(**{"dance--noise": 0.5})


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
