"""Cases are written in the settings of today and reach earlier revisions by their own names."""

from __future__ import annotations

import pytest

from tools.golden.cases import CASES, CLEAR, MASKED, as_known

TODAY = {"method", "parts", "neighbour-generator.rounds", "dance-core.confidence", "dance.confidence"}
FORMER = {
    "method",
    "train.neighbour-generator",
    "train.generator-rounds",
    "dance.confidence",
    "fedgc.exchange",
    "fedgc.exchange-hops",
}


@pytest.mark.parametrize(
    ("given", "former"),
    [
        ({"parts": "neighbour-generator"}, {"train.neighbour-generator": True}),
        ({"neighbour-generator.rounds": 2}, {"train.generator-rounds": 2}),
        ({"dance-core.confidence": 0.4}, {"dance.confidence": 0.4}),
        ({"neighbour-exchange.mode": "summed"}, {"fedgc.exchange": "summed"}),
        ({"neighbour-exchange.hops": 2}, {"fedgc.exchange-hops": 2}),
        ({"dance.confidence": 0.3}, {"dance.confidence": 0.3}),
        # Neither name is known: the revision refuses what today's is called.
        ({"neighbour-exchange.min-neighbours": 2}, {"neighbour-exchange.min-neighbours": 2}),
    ],
)
def test_an_earlier_revision_gets_the_names_that_it_knows(
    given: dict[str, int | str], former: dict[str, int | str]
) -> None:
    assert as_known(given, FORMER) == former


def test_the_revision_of_today_gets_its_own() -> None:
    given: dict[str, int | str | float] = {"parts": "a,b", "dance-core.confidence": 0.4, "method": "fedavg"}
    assert as_known(given, TODAY) == given


def test_only_masked_runs_are_secure() -> None:
    for case in CASES.values():
        assert case.variants
        for variant in case.variants:
            secure = "privacy.secure-aggregation" in case.settings_of(variant)
            assert secure == (variant == MASKED)
    assert "aggregation.statistics" not in CASES["da_dfgas"].settings_of(CLEAR)


def test_what_a_revision_did_without_a_setting_is_not_set_there() -> None:
    both, pseudo = {"fedgc.learn-from": "both"}, {"fedgc.learn-from": "pseudo"}
    assert as_known(both, {"fedgc.hidden"}) == {}
    assert as_known(both, {"fedgc.learn-from"}) == both
    assert as_known(pseudo, {"fedgc.hidden"}) == pseudo, (
        "a revision that does something else refuses it by name"
    )
