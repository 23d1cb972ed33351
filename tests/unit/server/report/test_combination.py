"""Settings of aggregation and privacy in words: every choice has some, and they say what the numbers say."""

from __future__ import annotations

from typing import Any, get_args

import pytest

from fedtag.common.config import RunConfig
from fedtag.common.methods.spec import METHODS
from fedtag.common.settings.sections import AggregationConfig
from fedtag.server.report.combination import combination_sentences, privacy_sentences


def settings(**changes: Any) -> dict[str, Any]:
    """All defaults, changed by keys with underscores for dots and dashes as they are."""
    return {**RunConfig(method="fedavg").to_flat(), **changes}


def combined(lag: int | None = None, method: str = "fedavg", **changes: Any) -> str:
    return ". ".join(combination_sentences(settings(**changes), METHODS.get(method), lag))


@pytest.mark.parametrize("name", ["weights", "normalise", "rule", "server_optimiser"])
def test_every_choice_has_words_of_its_own(name: str) -> None:
    key = f"aggregation.{name.replace('_', '-')}"
    choices = set(get_args(AggregationConfig.model_fields[name].annotation)) - {"default"}
    assert len(choices) >= 2
    texts = {combined(**{key: choice}) for choice in choices}
    assert len(texts) == len(choices)
    assert all("{" not in text for text in texts)


def test_whether_architectures_are_told_is_said() -> None:
    masked = {"privacy.secure-aggregation": True, "da_dfgas.personal": True}
    words = "do not tell their architectures"
    assert words in ". ".join(privacy_sentences(settings(**masked), METHODS.get("da_dfgas")))
    assert words not in ". ".join(privacy_sentences(settings(**masked), METHODS.get("fedavg")))
    for change in ({"da_dfgas.personal": False}, {"privacy.secure-aggregation": False}):
        assert words not in ". ".join(
            privacy_sentences(settings(**{**masked, **change}), METHODS.get("da_dfgas"))
        )


def test_numbers_of_the_settings_are_named() -> None:
    text = combined(**{"aggregation.rule": "trimmed-mean", "aggregation.trim": 0.15})
    assert "the lowest 15% are cut off" in text
    # Robust rules do not weigh.
    assert "training nodes" not in text
    assert "assuming 3 hostile" in combined(**{"aggregation.rule": "krum", "aggregation.hostile": 3})
    text = combined(**{"aggregation.server-optimiser": "adam", "aggregation.server-rate": 0.125})
    assert "the gradient of adam, with step size 0.125" in text
    assert "added to the model, times 0.5" in combined(**{"aggregation.server-rate": 0.5})
    assert "longer than 3 times" in combined()
    assert "times" not in combined(**{"aggregation.norm-factor": 0.0})
    assert "weighs more than 0.4" in combined(**{"aggregation.max-share": 0.4})
    assert "weighs more than" not in combined(**{"aggregation.rule": "median"})
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
    (sentence,) = combination_sentences(settings(), METHODS.get(method), None)
    assert word in sentence


def test_settings_of_other_versions_are_left_out() -> None:
    assert combination_sentences({}, METHODS.get("fedavg"), None) == []
    assert privacy_sentences({}, METHODS.get("fedavg")) == []
    later = settings(
        **{"aggregation.weights": "new", "aggregation.rule": "new", "aggregation.normalise": "new"},
        **{"aggregation.norm-factor": 0.0},
    )
    assert combination_sentences(later, METHODS.get("fedavg"), None) == [
        "The combined update is added to the model"
    ]


def test_privacy_in_words() -> None:
    def said(method: str = "fedavg", **changes: Any) -> str:
        flat = {key.replace("_", "-").replace("--", "."): value for key, value in changes.items()}
        return ". ".join(privacy_sentences(settings(**flat), METHODS.get(method)))

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


def test_a_method_that_is_not_installed_is_told_of_by_shared_settings_alone() -> None:
    masked = settings(**{"privacy.secure-aggregation": True})
    assert combination_sentences(masked, None, None) == combination_sentences(
        masked, METHODS.get("fedavg"), None
    )
    assert privacy_sentences(masked, None) == privacy_sentences(masked, METHODS.get("fedavg"))
