from __future__ import annotations

import math
import pickle
import tomllib
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from hypothesis import given
from hypothesis import strategies as st

from fedtag.common.condensers.dance_core.settings import CoreConfig
from fedtag.common.config import (
    RunConfig,
    default_settings,
    flatten,
    parse_setting,
    run_defaults,
    setting_descriptions,
)
from fedtag.common.config.run_config import without_foreign
from fedtag.common.errors import ConfigError
from fedtag.common.methods.dance.settings import DanceConfig
from fedtag.common.methods.spec import METHODS
from fedtag.common.parts.spec import PARTS
from fedtag.common.wire.protocol import app_versions

REPOSITORY = Path(__file__).resolve().parents[4]

# Every entry is a valid value that differs from the default.
OTHERS: dict[str, Any] = {
    "rounds": 7,
    "clients": 3,
    "ratio": 0.5,
    "seed": 11,
    "data.overlap": 0.25,
    "data.split": "0.6,0.2,0.2",
    "text.chunk-tokens": 128,
    "text.view": "both",
    "model.backbone": "gat",
    "model.layers": 3,
    "model.dropout": 0.0,
    "train.learning-rate": 0.125,
    "train.inductive": True,
    "train.client-fraction": 0.5,
    "aggregation.average-decay": 0.5,
    "aggregation.weights": "uniform",
    "exchange.quorum": 1.0,
    "evaluation.local": False,
    "dance.core-policy": "top",
    "dance.propagated-view": "both",
    "summaries.limit": 2,
}


@given(st.dictionaries(st.sampled_from(sorted(OTHERS)), st.none()))
def test_flat_and_nested_forms_round_trip(chosen: dict[str, None]) -> None:
    flat = {key: OTHERS[key] for key in chosen}
    config = RunConfig.from_flat(flat)
    assert {key: config.to_flat()[key] for key in flat} == flat
    assert RunConfig.from_flat(config.to_flat()) == config
    assert flatten(config.to_nested()) == config.to_flat()
    assert RunConfig.model_validate(tomllib.loads(tomli_w.dumps(config.to_nested()))) == config


def test_defaults_are_those_that_flower_reads() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
    assert flatten(project["tool"]["flwr"]["app"]["config"]) == {
        **app_versions(),
        **run_defaults(RunConfig().specs),
    }


def test_every_setting_has_a_description() -> None:
    assert setting_descriptions().keys() == default_settings().keys()
    assert all(setting_descriptions().values())


def test_all_errors_come_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        RunConfig.from_flat(
            {
                "rounds": 0,
                "train.lerning-rate": 1,
                "ratio": 2.0,
                "model.backbone": "transformer",
                "aggregation.average-decay": -0.5,
                "nonsense-of-no-kind": 1,
                "exchange.deadline": float("inf"),
            }
        )
    lines = str(caught.value).splitlines()
    assert len(lines) == 7
    assert "unknown setting 'train.lerning-rate': did you mean 'train.learning-rate'?" in lines
    assert "unknown setting 'nonsense-of-no-kind': see `fedtag settings` for all keys." in lines
    for start in (
        "rounds = 0:",
        "ratio = 2.0:",
        "model.backbone = 'transformer':",
        "exchange.deadline = inf:",
    ):
        assert any(line.startswith(start) for line in lines), start
    assert any(
        line.startswith("aggregation.average-decay = -0.5: must be in [0, 1), or -1") for line in lines
    )


def made_of(table: str) -> dict[str, str]:
    """Settings of a run that has a table of settings."""
    if table in METHODS:
        return {"method": table}
    return {"method": "fedavg", **({"parts": table} if table in PARTS else {})}


SENSELESS: dict[str, tuple[object, ...]] = {
    "fedc4.threshold": (-1.1, 1.1, math.nan, "near"),
    "fedc4.alpha": (0.0, -1.0, math.inf, 1e300, True),
    "fedc4.beta": (-1.0, 1e300),
    "fedc4.noise": (-1.0, 1e300),
    "fedc4.candidates": (0, 10**10, 1.5),
    "fedc4.exchange": ("", "all", 1),
    "da_dfgas.cells": (0, 5),
    "da_dfgas.search-share": (-0.1, 1.1),
    # Adam cannot take the one, and all architectures are the same to it from the other on.
    "da_dfgas.architecture-rate": (0.0, -1.0, 1e300, 1e30),
    "da_dfgas.smoothing-rounds": (0.0, -60.0, 1e300),
    "da_dfgas.personal": (1, "true"),
    "train.learning-rate": (-0.1, 1e300, math.nan),
    "neighbour-generator.rounds": (0, 1001),
    "neighbour-generator.hidden": (0.0, 1.0),
    "neighbour-generator.most": (0, 6),
    "data.source": ("a\0b", "a\nb", "a\x1b[1A", "a\x85b", "a\u2028b", 3),
}


@pytest.mark.parametrize(
    ("key", "value"), [(key, value) for key, all_ in SENSELESS.items() for value in all_]
)
def test_a_value_without_sense_is_refused_by_name(key: str, value: object) -> None:
    with pytest.raises(ConfigError) as refused:
        RunConfig.from_flat({**made_of(key.partition(".")[0]), key: value})
    (line,) = str(refused.value).splitlines()
    assert line.startswith(f"{key} = ")


@pytest.mark.parametrize(("method", "decay"), [("dance", 0.95), ("fedavg", 0.0), ("isolated", 0.0)])
def test_a_methods_own_defaults_are_resolved(method: str, decay: float) -> None:
    for flat in ({}, {"aggregation.average-decay": -1.0}):
        config = RunConfig.from_flat({"method": method, **flat})
        assert config.aggregation.average_decay == decay
    config = RunConfig.from_flat({"method": method, "aggregation.average-decay": 0.0})
    assert config.aggregation.average_decay == 0.0


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("fedavg", (3, "adam", 0.01, "constant", 0.0, 0, "samples", "none")),
        ("da_dfgas", (10, "sgd", 0.1, "cosine", 0.01, 10, "distribution-aware", "fednova")),
    ],
)
def test_local_training_and_aggregation_are_left_to_the_method(
    method: str, expected: tuple[object, ...]
) -> None:
    config = RunConfig.from_flat({"method": method})
    train, aggregation = config.train, config.aggregation
    assert expected == (
        train.epochs,
        train.optimizer,
        train.learning_rate,
        train.schedule,
        train.prox_mu,
        train.extra_epochs,
        aggregation.weights,
        aggregation.normalise,
    )
    assert RunConfig.from_flat(config.to_flat()) == config
    chosen = {"train.epochs": 1, "train.prox-mu": 0.0, "aggregation.weights": "samples"}
    config = RunConfig.from_flat({"method": method, **chosen})
    assert (config.train.epochs, config.train.prox_mu, config.aggregation.weights) == (1, 0.0, "samples")


def test_a_negative_weight_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"train\.prox-mu = -0\.5: must be at least 0, or -1"):
        RunConfig.from_flat({"train.prox-mu": -0.5})


def test_resolving_leaves_the_shared_defaults_alone() -> None:
    RunConfig.from_flat({"method": "dance"})
    assert RunConfig.from_flat({"method": "fedavg"}).aggregation.average_decay == 0.0
    assert default_settings()["aggregation.average-decay"] == -1


def test_a_pooled_method_has_one_client() -> None:
    assert RunConfig.from_flat({"method": "centralised", "clients": 9}).clients == 1


@pytest.mark.parametrize("method", ["fed avg", "", "../x", "a.b"])
def test_a_method_is_a_name(method: str) -> None:
    with pytest.raises(ConfigError, match="no method is called so"):
        RunConfig.from_flat({"method": method})


def test_the_digest_ignores_where_a_run_lives() -> None:
    plain = RunConfig.from_flat({})
    for elsewhere in ({"out": "x"}, {"device": "cuda"}, {"data.sites": "y"}, {"resume": True}):
        assert RunConfig.from_flat(elsewhere).digest() == plain.digest()
    digests = {plain.digest()} | {RunConfig.from_flat({key: value}).digest() for key, value in OTHERS.items()}
    assert len(digests) == len(OTHERS) + 1


@pytest.mark.parametrize(
    ("assignment", "expected"),
    [
        ("rounds=5", ("rounds", 5)),
        (" rounds = 5 ", ("rounds", 5)),
        ("ratio=1e-1", ("ratio", 0.1)),
        ("ratio=1", ("ratio", 1.0)),
        ("train.inductive=TRUE", ("train.inductive", True)),
        ("evaluation.local=false", ("evaluation.local", False)),
        ("out=", ("out", "")),
        ("data.source=a=b", ("data.source", "a=b")),
        ("train.batch-size=64", ("train.batch-size", 64)),
    ],
)
def test_assignments_take_the_type_of_the_default(assignment: str, expected: tuple[str, Any]) -> None:
    parsed = parse_setting(assignment)
    assert parsed == expected
    assert type(parsed[1]) is type(default_settings()[parsed[0]])


@pytest.mark.parametrize(
    ("assignment", "message"),
    [
        ("rounds", "write key=value"),
        ("round=5", "did you mean 'rounds'"),
        ("rounds=five", "write a whole number"),
        ("train.batch-size=all", "write a whole number"),
        ("rounds=1.5", "write a whole number"),
        ("ratio=half", "write a number"),
        ("train.inductive=1", "write true or false"),
    ],
)
def test_wrong_assignments_are_explained(assignment: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_setting(assignment)


@pytest.mark.parametrize("value", [-1, 1.5, "all", True, 10**10])
def test_a_batch_is_a_number_of_nodes_or_auto(value: Any) -> None:
    assert parse_setting("train.batch-size=auto") == ("train.batch-size", "auto")
    assert RunConfig.from_flat({"train.batch-size": "auto"}).train.batch_size == "auto"
    with pytest.raises(
        ConfigError, match=r"train\.batch-size = .*: must be 0 for the whole graph, a number of nodes"
    ):
        RunConfig.from_flat({"train.batch-size": value})


def test_settings_are_frozen() -> None:
    config = RunConfig.from_flat({})
    with pytest.raises(ValueError, match="frozen"):
        config.rounds = 3


def test_a_key_that_stands_twice_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"setting 'privacy.roster' stands twice, dotted and in a table"):
        flatten({"privacy.roster": True, "privacy": {"roster": False}})
    assert flatten({"privacy": {"roster": True, "dp": {"mode": "off"}}}) == {
        "privacy.roster": True,
        "privacy.dp.mode": "off",
    }


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"dadfgas.cells": 1}, "setting 'dadfgas.cells' is now da_dfgas.cells: write that."),
        (
            {"train.neighbour-generator": True},
            "setting 'train.neighbour-generator' is now parts = neighbour-generator: write that.",
        ),
        (
            {"fedgc.exchange": "summed"},
            "setting 'fedgc.exchange' is now neighbour-exchange.mode: write that.",
        ),
    ],
)
def test_settings_of_earlier_releases_are_refused_with_their_new_names(
    given: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        RunConfig.from_flat(given)
    assert str(refused.value) == sentence


def test_a_run_holds_its_own_settings_and_no_others() -> None:
    config = RunConfig.from_flat(
        {"method": "fedavg", "parts": "neighbour-generator", "condenser.name": "dance-core", "rounds": 3}
    )
    own = {"neighbour-generator", "dance-core"}
    assert set(config.tables) == own
    assert own < config.to_nested().keys()
    assert not {"dance", "fedc4", "fedgc", "da_dfgas", "neighbour-exchange"} & config.to_nested().keys()
    assert config.own(CoreConfig).core_policy == "rotate"
    with pytest.raises(ConfigError, match=r"method fedavg.* has no settings of DanceConfig"):
        config.own(DanceConfig)


def test_settings_of_what_a_run_is_not_made_of_are_refused_unless_they_are_defaults() -> None:
    assert RunConfig.from_flat({"method": "fedavg", "dance.rank": 16}) == RunConfig.from_flat(
        {"method": "fedavg"}
    )
    with pytest.raises(ConfigError, match=r"'dance\.rank' belongs to dance, which this run has not"):
        RunConfig.from_flat({"method": "fedavg", "dance.rank": 4})
    assert without_foreign({"method": "fedavg", "dance.rank": 4, "rounds": 2}) == {
        "method": "fedavg",
        "rounds": 2,
    }


def test_a_switch_turns_its_part_on() -> None:
    flat = {"method": "fedgc", "neighbour-exchange.mode": "summed"}
    config = RunConfig.from_flat(flat)
    assert config.part_names == ("neighbour-exchange",)
    assert RunConfig.from_flat({**flat, "neighbour-exchange.mode": "off"}).part_names == ()
    with pytest.raises(ConfigError, match=r"mode = off: set mode = summed or encrypted"):
        RunConfig.from_flat({"method": "fedgc", "parts": "neighbour-exchange"})
    both = RunConfig.from_flat({**flat, "parts": "neighbour-generator"})
    assert both.part_names == ("neighbour-exchange", "neighbour-generator")
    with pytest.raises(ConfigError, match="stands twice"):
        RunConfig.from_flat({"method": "fedavg", "parts": "neighbour-generator,neighbour-generator"})


def test_a_preset_is_a_method_with_settings() -> None:
    config = RunConfig.from_flat({"method": "fedprox"})
    assert (config.method, config.preset, config.train.prox_mu) == ("fedavg", "fedprox", 0.01)
    assert RunConfig.from_flat({"method": "fedprox", "train.prox-mu": 0.5}).train.prox_mu == 0.5
    assert RunConfig.from_flat(config.to_flat()) == config


def test_copies_and_what_was_pickled_say_what_they_hold() -> None:
    """Whoever was asked before keeps the answer."""
    config = RunConfig.from_flat({"rounds": 3})
    asked = config.to_flat()
    assert config.model_copy(update={"rounds": 7}).to_flat() == {**asked, "rounds": 7}
    assert config.model_copy(deep=True).to_flat() == asked
    assert pickle.loads(pickle.dumps(config)).to_flat() == asked
    asked["rounds"] = 9
    assert config.to_flat()["rounds"] == 3
