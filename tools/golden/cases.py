"""What is run: methods with their settings, and how settings were called in earlier revisions."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

Setting = bool | int | float | str

CLEAR, MASKED, RESUMED = "clear", "masked", "resumed"
VARIANTS = (CLEAR, MASKED, RESUMED)
ROUNDS = 4
STOP_AFTER = 2
"""A resumed run is stopped when so many rounds have their row."""

BASE: dict[str, Setting] = {
    "rounds": ROUNDS,
    "seed": 0,
    "device": "cpu",
    "ratio": 0.2,
    "model.hidden": 8,
    "exchange.poll": 0.001,
}
SECURE: dict[str, Setting] = {"privacy.secure-aggregation": True, "privacy.block-rounds": 4}
CONDENSING: dict[str, Setting] = {
    "condenser.outer-loops": 2,
    "condenser.inner-loops": 4,
    "condenser.expert-steps": 30,
    "condenser.hidden": 8,
}
CORE: dict[str, Setting] = {
    "condenser.name": "dance-core",
    "dance-core.confidence": 0.4,
    "dance-core.pseudo-share": 0.3,
    "dance-core.pseudo-label-weight": 0.5,
}
MENDED: dict[str, Setting] = {
    "parts": "neighbour-generator",
    "neighbour-generator.rounds": 2,
    "neighbour-generator.most": 2,
}
DANCE: dict[str, Setting] = {"dance.propagated": 1}
FEDGC: dict[str, Setting] = {
    "fedgc.learn-from": "both",
    "fedgc.self-training-rounds": 1,
    "fedgc.confidence": 0.4,
    "fedgc.hidden": 8,
    "fedgc.links": "learned",
    "fedgc.model-steps": 20,
    "fedgc.fine-tune-steps": 3,
    "fedgc.bottleneck-epochs": 3,
}


PREVIOUS: dict[str, Setting] = {"aggregation.statistics": "previous"}
HIDDEN: dict[str, Setting] = {"privacy.hide-statistics": True, "aggregation.weights": "uniform"}


@dataclass(frozen=True)
class Case:
    """One method with settings.

    Args:
        method: its name.
        settings: by their names of today.
        variants: how it is run; where nothing is summed, nothing can be masked.
        masked: what it needs beside secure aggregation.
    """

    method: str
    settings: Mapping[str, Setting] = field(default_factory=dict)
    variants: tuple[str, ...] = VARIANTS
    masked: Mapping[str, Setting] = field(default_factory=dict)

    def settings_of(self, variant: str) -> dict[str, Setting]:
        """All settings of one variant."""
        secure = {**SECURE, **self.masked} if variant == MASKED else {}
        return {"method": self.method, **BASE, **self.settings, **secure}


CASES: dict[str, Case] = {
    "isolated": Case("isolated", variants=(CLEAR, RESUMED)),
    "isolated, mended": Case("isolated", MENDED, (CLEAR,)),
    "centralised": Case("centralised", {"clients": 1}, (CLEAR, RESUMED)),
    "fedavg": Case("fedavg"),
    "fedavg, hidden statistics": Case("fedavg", variants=(MASKED,), masked=HIDDEN),
    "fedavg, proximal, inductive": Case(
        "fedavg", {"train.prox-mu": 0.1, "train.inductive": True, "model.backbone": "sage"}, (CLEAR,)
    ),
    "fedavg, momentum and average": Case(
        "fedavg", {"aggregation.server-optimiser": "momentum", "aggregation.average-decay": 0.5}
    ),
    "fedavg, fednova, distribution-aware": Case(
        "fedavg",
        {"aggregation.weights": "distribution-aware", "aggregation.normalise": "fednova"},
        masked=PREVIOUS,
    ),
    "fedavg, gcond": Case("fedavg", {"condenser.name": "gcond", **CONDENSING}),
    "fedavg, sfgc": Case("fedavg", {"condenser.name": "sfgc", **CONDENSING}, (CLEAR,)),
    "fedavg, herding": Case("fedavg", {"condenser.name": "herding"}, (CLEAR,)),
    "fedavg, coarsening": Case("fedavg", {"condenser.name": "coarsening"}, (CLEAR, MASKED), HIDDEN),
    "fedavg, dance-core": Case("fedavg", CORE),
    "fedavg, mended": Case("fedavg", MENDED),
    "fedavg, mended, dance-core, inductive": Case(
        "fedavg", {"train.inductive": True, "dance-core.core-refresh": 2, **CORE, **MENDED}, (CLEAR, RESUMED)
    ),
    "dance": Case("dance", DANCE),
    "dance, top, induced": Case(
        "dance",
        {
            **DANCE,
            "dance.core-policy": "top",
            "dance.pseudo-label-weight": 0.5,
            "dance.topology": "induced",
        },
        (CLEAR,),
    ),
    "fedc4": Case("fedc4", CONDENSING),
    "fedc4, sliced": Case("fedc4", {"fedc4.distance": "sliced", **CONDENSING}, (MASKED,), HIDDEN),
    "fedc4, mended": Case("fedc4", {**CONDENSING, **MENDED}, (CLEAR,)),
    "da_dfgas": Case("da_dfgas", masked=PREVIOUS),
    "da_dfgas, one for all": Case(
        "da_dfgas", {"da_dfgas.personal": False, "da_dfgas.cells": 1}, (CLEAR, MASKED), PREVIOUS
    ),
    "da_dfgas, dance-core": Case("da_dfgas", CORE, (CLEAR, MASKED), PREVIOUS),
    "da_dfgas, mended": Case("da_dfgas", MENDED, masked=PREVIOUS),
    "fedgc": Case("fedgc", FEDGC),
    "fedgc, summed neighbours": Case(
        "fedgc",
        {
            **FEDGC,
            "fedgc.bottleneck": True,
            "neighbour-exchange.mode": "summed",
            "neighbour-exchange.hops": 2,
            "neighbour-exchange.min-neighbours": 2,
        },
    ),
    "fedgc, mended": Case("fedgc", {**FEDGC, **MENDED}, (CLEAR, MASKED)),
}

# From the name of today, or its beginning, to the former one; longer entries first.
FORMER_KEYS = {
    "neighbour-exchange.mode": "fedgc.exchange",
    "neighbour-exchange.hops": "fedgc.exchange-hops",
    "neighbour-exchange.min-neighbours": "fedgc.min-neighbours",
    "neighbour-generator.": "train.generator-",
    "dance-core.": "dance.",
    "da_dfgas.": "dadfgas.",
}
IMPLIED: dict[str, Setting] = {"fedgc.learn-from": "both"}
"""What revisions did that lack the setting."""
# Parts that had a switch among the shared settings.
FORMER_PARTS = {"neighbour-generator": "train.neighbour-generator"}


def as_known(settings: Mapping[str, Setting], known: Collection[str]) -> dict[str, Setting]:
    """The settings by the names that a revision knows.

    A key is translated where the revision lacks it and lists the former one, so that what it refuses, it
    refuses by the name of today.

    Args:
        known: the keys that the revision lists.
    """
    found: dict[str, Setting] = {}
    for key, value in settings.items():
        if key == "parts" and key not in known:
            found |= {FORMER_PARTS.get(part, part): True for part in str(value).split(",")}
            continue
        if key not in known and IMPLIED.get(key) == value:
            continue
        former = next(
            (old + key.removeprefix(new) for new, old in FORMER_KEYS.items() if key.startswith(new)), key
        )
        found[key if key in known or former not in known else former] = value
    return found
