"""Classes of which no gradient was told, because too few labelled nodes stand behind it: they are not learned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from fedtag.common.errors import ConfigError
from fedtag.common.methods.fedgc.settings import FedGCConfig

if TYPE_CHECKING:
    from fedtag.common.config import RunConfig
    from fedtag.server.methods.fedgc.condensation import Sums

UNMATCHED = "unmatched"
"""In the values of the state: labelled nodes of the classes that were never matched, by name."""


def enough_in_all(sums: Sums, config: RunConfig) -> list[bool]:
    """Which classes have enough labelled nodes at all clients together."""
    return [count >= config.own(FedGCConfig).min_class_count for count in sums.labelled.tolist()]


def still_unmatched(values: Mapping[str, Any], sums: Sums, config: RunConfig) -> dict[str, int]:
    """Labelled nodes of the classes that are condensed and of which no round so far had a gradient, by name.

    Under secure summation, whoever has enough in all will have one from the next round on.
    """
    matched = sums.matched.tolist()
    if config.privacy.secure_aggregation:
        matched = [one or other for one, other in zip(matched, enough_in_all(sums, config), strict=True)]
    before = values.get(UNMATCHED)
    labelled = sums.labelled.tolist()
    trained = sums.trained.tolist() if bool(sums.trained.any()) else labelled
    return {
        name: labelled[place]
        for place, name in enumerate(values["names"])
        if trained[place] and not matched[place] and (before is None or name in before)
    }


def check_some_matched(values: Mapping[str, Any], sums: Sums, clients: int, config: RunConfig) -> None:
    """Raise ConfigError where no class has a gradient and none is to be expected in a later round.

    Args:
        values: of the state.
        sums: of a round in which no class has one, and of which all before had none.
        clients: that took part in it.
        config: of the run.
    """
    last = values["round"] == config.rounds
    enough = any(enough_in_all(sums, config))
    if config.privacy.secure_aggregation and enough and not last:
        return
    if clients < config.clients and not last:
        return
    least = config.own(FedGCConfig).min_class_count
    told = _told(values["names"], sums.labelled.tolist())
    if config.privacy.secure_aggregation and enough:
        raise ConfigError(
            f"fedgc.min-class-count = {least}: no client has that many labelled nodes of a class, and those of all "
            f"clients ({told}) count from the second round of condensation on, which this run has not: set "
            f"rounds = {config.rounds + 1} or more, or lower fedgc.min-class-count"
        )
    remedy = (
        "leave more nodes out of the split, which can get pseudo-labels, or set fedgc.learn-from = both"
        if config.own(FedGCConfig).learn_from == "pseudo"
        else "give more nodes a label in the split of training"
    )
    whose = "all clients have" if config.privacy.secure_aggregation else "a client has"
    raise ConfigError(
        f"fedgc.min-class-count = {least} is more labelled nodes than {whose} of any class (in all: {told}), so that "
        f"no gradient is told and no graph is learned: lower fedgc.min-class-count, or {remedy}"
    )


def unmatched_remark(values: Mapping[str, Any], config: RunConfig) -> str:
    """What a person is told of classes that are not learned; empty where all are."""
    found: Mapping[str, int] = values.get(UNMATCHED) or {}
    if not found:
        return ""
    whose = "in all" if config.privacy.secure_aggregation else "at one client"
    least = config.own(FedGCConfig).min_class_count
    return (
        f"condensed nodes stay random for classes with fewer than {least} labelled nodes "
        f"{whose} (in all: {_told(list(found), list(found.values()))}): lower fedgc.min-class-count"
    )


def _told(names: Sequence[str], counts: Sequence[int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in zip(names, counts, strict=True))
