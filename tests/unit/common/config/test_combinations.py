from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedtag.common.config import RunConfig, default_settings
from fedtag.common.config.combinations import HOSTILE_RULES, ROBUST_RULES, excluded_combinations
from fedtag.common.errors import ConfigError
from fedtag.common.methods.spec import METHODS
from fedtag.common.models.spec import BACKBONES
from fedtag.common.numerics.robust_rules import fewest_clients

Settings = dict[str, Any]
BASE: Settings = {"method": "fedavg", "clients": 5}
SECURE: Settings = {"privacy.secure-aggregation": True}
HIDDEN: Settings = {**SECURE, "privacy.hide-statistics": True, "aggregation.weights": "uniform"}
CENTRAL: Settings = {"privacy.dp.mode": "central", "aggregation.weights": "uniform"}
DISTRIBUTED: Settings = {**HIDDEN, "privacy.dp.mode": "distributed"}

# What is refused, the reason, and the change that the message proposes, after which the settings are allowed.
REFUSED: dict[str, tuple[Settings, str, Settings]] = {
    "a condenser of a method that has its own": (
        {"method": "dance", "condenser.name": "gcond"},
        "condenser.name = gcond has no place in method dance: set it to none, or choose one of da_dfgas, fedavg, fedc4",
        {"condenser.name": "none"},
    ),
    "real nodes that would go to peers": (
        {"method": "fedc4", "condenser.name": "herding"},
        "must not go to peers",
        {"fedc4.exchange": "off"},
    ),
    "generated neighbours without texts": (
        {"method": "dance", "parts": "neighbour-generator"},
        "method dance selects evidence among texts, and a generated neighbour has none",
        {"method": "fedc4"},
    ),
    "generated neighbours where none is missing": (
        {"method": "centralised", "parts": "neighbour-generator"},
        "method centralised holds the whole graph, in which no neighbour is missing",
        {"method": "isolated"},
    ),
    "generated neighbours that nobody reads": (
        {"model.backbone": "mlp", "parts": "neighbour-generator"},
        "model.backbone = mlp reads no neighbours",
        {"parts": ""},
    ),
    "a condenser without a federation": (
        {"method": "isolated", "condenser.name": "random"},
        "choose one of da_dfgas, fedavg, fedc4",
        {"method": "da_dfgas"},
    ),
    "DANCE's core beside DANCE": (
        {"method": "dance", "condenser.name": "dance-core"},
        "condenser.name = dance-core has no place in method dance",
        {"method": "da_dfgas"},
    ),
    "DANCE's core beside a condensation by the server": (
        {"method": "fedgc", "condenser.name": "dance-core"},
        "condenser.name = dance-core has no place in method fedgc",
        {"condenser.name": "none"},
    ),
    "a core that changes, shown to peers": (
        {"method": "fedc4", "condenser.name": "dance-core"},
        "condenser.name = dance-core takes other nodes in every round, and fedc4 condenses once",
        {"method": "fedavg"},
    ),
    "a core that changes, although peers are shown none": (
        {"method": "fedc4", "condenser.name": "dance-core", "fedc4.exchange": "off"},
        "choose one of coarsening, doscond, gcond, gcond-x, sfgc",
        {"condenser.name": "sfgc"},
    ),
    "a robust rule over sums of classes": (
        {"method": "fedgc", "aggregation.rule": "median"},
        "set aggregation.rule = mean, normalise = none, and weights = samples or uniform",
        {"aggregation.rule": "mean"},
    ),
    "sums of classes by aware weights": (
        {"method": "fedgc", "aggregation.weights": "distribution-aware"},
        "fedgc sums gradients over the nodes of a class",
        {"aggregation.weights": "samples"},
    ),
    "an average of models that do not move": (
        {"method": "fedgc", "aggregation.average-decay": 0.5},
        "which aggregation.average-decay could average",
        {"aggregation.average-decay": 0.0},
    ),
    "noise on counts": (
        {**CENTRAL, "method": "fedgc"},
        "set privacy.dp.mode = off, and fedgc.dp-mode for noise",
        {"privacy.dp.mode": "off"},
    ),
    "no round left for condensation": (
        {"method": "fedgc", "rounds": 5, "fedgc.self-training-rounds": 5},
        "fedgc.self-training-rounds = 5 leave none of the 5 rounds for condensation",
        {"fedgc.learn-from": "training"},
    ),
    "features of test nodes in training": (
        {"method": "fedgc", "neighbour-exchange.mode": "summed", "train.inductive": True},
        "which train.inductive forbids",
        {"train.inductive": False},
    ),
    "neighbours that are copied, too": (
        {"method": "fedgc", "neighbour-exchange.mode": "encrypted", "data.overlap": 0.1},
        "would add copied nodes twice",
        {"data.overlap": 0.0},
    ),
    "sums of neighbours in a hidden run": (
        {
            "method": "fedgc",
            "neighbour-exchange.mode": "summed",
            "privacy.secure-aggregation": True,
            "privacy.hide-statistics": True,
            "aggregation.weights": "uniform",
        },
        "neighbour-exchange has parts of other sums",
        {"neighbour-exchange.mode": "off"},
    ),
    "robust rule with aware weights": (
        {"aggregation.rule": "median", "aggregation.weights": "distribution-aware"},
        "distribution-aware weights would have no effect",
        {"aggregation.weights": "samples"},
    ),
    "robust rule with aware weights, kept": (
        {"aggregation.rule": "median", "aggregation.weights": "distribution-aware"},
        "set aggregation.weights = samples, or rule = mean",
        {"aggregation.rule": "mean"},
    ),
    "hostile clients of the mean": (
        {"aggregation.hostile": 1},
        "aggregation.hostile has no meaning with rule = mean",
        {"aggregation.rule": "krum"},
    ),
    "hostile clients of the median": (
        {"aggregation.hostile": 1, "aggregation.rule": "median"},
        "use bulyan, group-median, group-trimmed-mean, krum, multi-krum",
        {"aggregation.rule": "multi-krum"},
    ),
    "too few for the median": (
        {"aggregation.rule": "median", "clients": 2},
        "needs at least 3 clients a round, there are 2",
        {"clients": 3},
    ),
    "too few a round for the median": (
        {"aggregation.rule": "median", "train.client-fraction": 0.4},
        "needs at least 3 clients a round, there are 2",
        {"train.client-fraction": 0.6},
    ),
    "coarse hidden numbers": (
        {**HIDDEN, "privacy.scale-bits": 35},
        "privacy.scale-bits = 35 would round hidden losses",
        {"privacy.scale-bits": 36},
    ),
    "a cut below the median": (
        {"aggregation.norm-factor": 0.5},
        "aggregation.norm-factor = 0.5 would cut the median update itself",
        {"aggregation.norm-factor": 1.0},
    ),
    "nobody honest left": (
        {**HIDDEN, "privacy.dp.mode": "distributed", "privacy.dp.colluders": 4},
        "leaves no honest noise in a sum of 4 clients",
        {"privacy.dp.colluders": 3},
    ),
    "noise beyond the limit": (
        {**HIDDEN, "privacy.dp.mode": "distributed", "privacy.dp.noise": 3000.0},
        "would go beyond privacy.limit = 16384",
        {"privacy.dp.noise": 100.0},
    ),
    "too few for trimming": (
        {"aggregation.rule": "trimmed-mean", "clients": 2},
        "add clients, or set rule = mean",
        {"aggregation.rule": "mean"},
    ),
    "too few for krum": (
        {"aggregation.rule": "krum", "aggregation.hostile": 2},
        "needs at least 7 clients a round, there are 5",
        {"clients": 7},
    ),
    "too few for bulyan": (
        {"aggregation.rule": "bulyan", "aggregation.hostile": 1, "clients": 6},
        "needs at least 7 clients a round, there are 6",
        {"clients": 7},
    ),
    "extra epochs without a threshold": (
        {"train.extra-epochs": 2},
        "train.extra-epochs needs train.accuracy-threshold",
        {"train.accuracy-threshold": 0.5},
    ),
    "hiding in the open": (
        {"privacy.hide-statistics": True, "aggregation.weights": "uniform"},
        "privacy.hide-statistics works on masked sums",
        SECURE,
    ),
    "a roster in the open": ({"privacy.roster": True}, "privacy.roster works on masked sums", SECURE),
    "isolated sums": (
        {**SECURE, "method": "isolated"},
        "method isolated sums nothing over clients",
        {"privacy.secure-aggregation": False},
    ),
    "one client": (
        {**SECURE, "clients": 1},
        "needs at least 2 clients: one client's sum is its update",
        {"clients": 2},
    ),
    "a masked median": (
        {**SECURE, "aggregation.rule": "median"},
        "looks at single updates, which secure aggregation hides",
        {"aggregation.rule": "mean"},
    ),
    "a masked bound": (
        {**SECURE, "aggregation.max-update-norm": 1.0},
        "aggregation.max-update-norm looks at single updates",
        {"aggregation.max-update-norm": 0.0},
    ),
    "a masked fraction": (
        {**SECURE, "train.client-fraction": 0.5},
        "train.client-fraction below 1 leaves too few clients",
        {"train.client-fraction": 1.0},
    ),
    "masked weights of now": (
        {**SECURE, "aggregation.weights": "distribution-aware"},
        "set aggregation.statistics = previous",
        {"aggregation.statistics": "previous"},
    ),
    "hidden samples": (
        {**HIDDEN, "aggregation.weights": "samples"},
        "are made of what privacy.hide-statistics hides",
        {"aggregation.weights": "uniform"},
    ),
    "overflow": (
        {**SECURE, "privacy.scale-bits": 48},
        "could overflow 64 bits: lower limit or scale-bits",
        {"privacy.scale-bits": 40},
    ),
    "overflow by the limit": (
        {**SECURE, "privacy.limit": 4e6},
        "could overflow 64 bits",
        {"privacy.limit": 1e6},
    ),
    "isolated noise": (
        {**CENTRAL, "method": "isolated"},
        "method isolated releases no sum over clients",
        {"privacy.dp.mode": "off"},
    ),
    "noise on samples": (
        {**CENTRAL, "aggregation.weights": "samples"},
        "depend on who takes part",
        {"aggregation.weights": "uniform"},
    ),
    "noise on fednova": (
        {**CENTRAL, "aggregation.normalise": "fednova"},
        "set aggregation.normalise = none",
        {"aggregation.normalise": "none"},
    ),
    "noise on a median": (
        {**CENTRAL, "aggregation.rule": "median"},
        "and rule = mean",
        {"aggregation.rule": "mean"},
    ),
    "noise on a fraction": (
        {**CENTRAL, "train.client-fraction": 0.5},
        "set train.client-fraction = 1",
        {"train.client-fraction": 1.0},
    ),
    "central noise under masks": (
        {**CENTRAL, **SECURE},
        "the server cannot add the noise before it sees the sum: set privacy.dp.mode = distributed",
        {"privacy.dp.mode": "distributed", "privacy.hide-statistics": True},
    ),
    "distributed noise in the open": (
        {**CENTRAL, "privacy.dp.mode": "distributed"},
        "distributed noise protects from the server, which must then see sums only",
        {"privacy.dp.mode": "central"},
    ),
    "batches under noise for single nodes": (
        {
            "method": "fedgc",
            "train.batch-size": 64,
            "fedgc.dp-mode": "local",
            "fedgc.learn-from": "training",
            "fedgc.fine-tune-steps": 0,
        },
        "the guarantee of fedgc.dp-mode = local is for one pass over the whole graph",
        {"train.batch-size": 0},
    ),
    "batches with features of the whole graph": (
        {"method": "fedgc", "train.batch-size": 64, "fedgc.bottleneck": True, "fedgc.learn-from": "both"},
        "fedgc.bottleneck learns features of the whole graph at once",
        {"fedgc.bottleneck": False},
    ),
    "distributed noise beside scores": (
        {**DISTRIBUTED, "privacy.hide-statistics": False},
        "set privacy.secure-aggregation and privacy.hide-statistics = true",
        {"privacy.hide-statistics": True},
    ),
}
# A setting that a message asks for, or an action in place of one.
REMEDY = re.compile(r"\b(set|use|lower|add|leave|needs|choose|clip by) ")


@pytest.mark.parametrize("name", REFUSED)
def test_what_excludes_each_other_is_refused_with_a_reason_and_a_remedy(name: str) -> None:
    settings, reason, remedy = REFUSED[name]
    with pytest.raises(ConfigError) as error:
        RunConfig.from_flat({**BASE, **settings})
    sentences = str(error.value).splitlines()
    assert any(reason in sentence for sentence in sentences), sentences
    assert all(REMEDY.search(sentence) for sentence in sentences), sentences
    assert RunConfig.from_flat({**BASE, **settings, **remedy})


@pytest.mark.parametrize("name", REFUSED)
def test_every_message_names_settings_that_exist(name: str) -> None:
    settings, _, _ = REFUSED[name]
    with pytest.raises(ConfigError) as error:
        RunConfig.from_flat({**BASE, **settings})
    known = default_settings()
    named = re.findall(r"\b(?:aggregation|privacy|train)\.[a-z.-]*[a-z]", str(error.value))
    assert set(named) <= known.keys()
    # Something that the user wrote is in it, so that it can be found in a file.
    changed = {key.rpartition(".")[2] for key in settings}
    assert any(word in str(error.value) for word in changed)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        SECURE,
        HIDDEN,
        CENTRAL,
        DISTRIBUTED,
        {**SECURE, "privacy.roster": True},
        {**SECURE, "clients": 2},
        {**SECURE, "aggregation.server-optimiser": "adam", "aggregation.normalise": "fednova"},
        {**SECURE, "aggregation.weights": "distribution-aware", "aggregation.statistics": "previous"},
        {"aggregation.max-update-norm": 1.0, "aggregation.rule": "median"},
        {"aggregation.weights": "distribution-aware", "aggregation.normalise": "fednova"},
        {**CENTRAL, "aggregation.server-optimiser": "momentum"},
        {"method": "isolated", "aggregation.rule": "krum", "clients": 1},
        {"train.client-fraction": 0.6, "aggregation.rule": "median"},
        {**HIDDEN, "privacy.scale-bits": 36},
        {**CENTRAL, "train.batch-size": 64},
        {"train.batch-size": "auto", "train.fan-out": 0},
    ],
)
def test_what_goes_together_is_let_pass(settings: Settings) -> None:
    assert excluded_combinations(RunConfig.from_flat({**BASE, **settings})) == ()


def test_all_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(ConfigError) as error:
        RunConfig.from_flat(
            {
                **BASE,
                **SECURE,
                "aggregation.rule": "median",
                "aggregation.max-update-norm": 2.0,
                "train.extra-epochs": 1,
                "train.client-fraction": 0.5,
                "privacy.dp.mode": "central",
            }
        )
    sentences = str(error.value).splitlines()
    assert len(sentences) == len(set(sentences)) == 9
    assert all(sentence[-1] != "." for sentence in sentences)


def test_the_bound_of_64_bits_is_exact() -> None:
    # 2 · 2^22 · 2^40 is 2^63, one too many.
    for clients, limit, allowed in ((2, 2.0**22, False), (2, 2.0**22 - 1, True), (1000, 2.0**13, True)):
        settings = {**BASE, **SECURE, "clients": clients, "privacy.limit": limit}
        if allowed:
            assert RunConfig.from_flat(settings)
        else:
            with pytest.raises(ConfigError, match="overflow"):
                RunConfig.from_flat(settings)


@given(
    st.sampled_from(sorted(ROBUST_RULES)),
    st.integers(0, 4),
    st.integers(1, 20),
    st.sampled_from(["fedavg", "isolated"]),
)
def test_rules_have_as_many_clients_as_they_need(rule: str, hostile: int, clients: int, method: str) -> None:
    settings = {
        "method": method, "clients": clients, "aggregation.rule": rule,
        "aggregation.hostile": hostile if rule in HOSTILE_RULES else 0,
    }  # fmt: skip
    enough = (
        clients >= fewest_clients(rule, settings["aggregation.hostile"], 0.2)
        or not METHODS.get(method).traits.sums
    )
    if enough:
        assert RunConfig.from_flat(settings)
    else:
        with pytest.raises(ConfigError, match="add clients"):
            RunConfig.from_flat(settings)


@pytest.mark.usefixtures("handed_over")
def test_a_backbone_that_adds_up_takes_all_neighbours_into_batches() -> None:
    summing = {**BASE, "model.backbone": "gin", "train.batch-size": 8}
    with pytest.raises(
        ConfigError, match=r"train\.fan-out = 10: backbone gin adds up .* set train\.fan-out = 0"
    ):
        RunConfig.from_flat(summing)
    assert RunConfig.from_flat({**summing, "train.fan-out": 0}).train.batch_size == 8
    assert RunConfig.from_flat({**summing, "train.batch-size": 0}).train.fan_out == 10


def test_a_backbone_that_reads_the_whole_graph_has_no_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = replace(BACKBONES.get("gcn"), name="whole", sampled=False)
    monkeypatch.setitem(BACKBONES._added, "whole", whole)
    RunConfig.from_flat({**BASE, "model.backbone": "whole"})
    with pytest.raises(
        ConfigError, match=r"backbone whole reads the whole graph at once: set train\.batch-size = 0"
    ):
        RunConfig.from_flat({**BASE, "model.backbone": "whole", "train.batch-size": 8})
