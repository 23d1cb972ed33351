"""Which records would leave a site in a run, and how: what settings alone say of it, before any data are read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from fedtag.common.config import RunConfig
from fedtag.common.methods.base import BASE_RECORDS
from fedtag.common.methods.records import Record
from fedtag.common.parts.spec import declared_records
from fedtag.common.secure.names import DRAW, SHOWN, UNOPENED, UNREAD
from fedtag.common.secure.phases import KEYS, SHARES, SIGN, UNMASK
from fedtag.common.secure.upload import MASKED

HARMLESS = frozenset(
    {"introduction", "initial", "seconds", KEYS, DRAW, SHARES, SIGN, UNMASK, UNREAD, UNOPENED, SHOWN}
)
"""Records without which no exchange goes on: names of classes, keys, durations. No rule need name them."""

How = Literal["in clear", "in sums", "sealed, to other sites"]


@dataclass(frozen=True)
class Leaving:
    """A kind of record that would leave.

    Args:
        record: what it is called, and what it reveals.
        how: what the server sees of it.
    """

    record: Record
    how: How

    @property
    def kind(self) -> str:
        """What a policy's `records` must name for it: what is in a sum leaves as a masked vector."""
        return MASKED if self.how == "in sums" else self.record.name


def leaving(config: RunConfig) -> tuple[Leaving, ...]:
    """What may leave the site in a run, without what is harmless, by how it does."""
    found = list(_leaving(config))
    return tuple(sorted(found, key=lambda one: (one.how, one.record.name)))


def _leaving(config: RunConfig) -> Iterator[Leaving]:
    masked, hidden = config.privacy.secure_aggregation, config.privacy.hide_statistics
    expected = _of_base(config)
    base = {record.name for record in BASE_RECORDS}
    for name, record in declared_records(config).items():
        if not record.leaves or name in HARMLESS or (name in base and name not in expected):
            continue
        if record.form == "letter" or record.protected == "encrypted":
            yield Leaving(record, "sealed, to other sites")
        elif masked and record.summed and (name != "scores" or hidden):
            yield Leaving(record, "in sums")
        elif hidden and name != "trains":
            # Only sums leave, and of sizes and losses these have what is told.
            if name in ("sizes", "training"):
                yield Leaving(record, "in sums")
        else:
            yield Leaving(record, "in clear")


def _of_base(config: RunConfig) -> frozenset[str]:
    """Those records of every method that this run has a use for."""
    asked = {
        "trains": config.privacy.hide_statistics,
        "statistics": config.aggregation.weights == "distribution-aware",
        "condensation": config.condenses,
        "tokens": config.spec.traits.texts != "no",
    }
    return frozenset({"scores", "sizes", "training", *(name for name, due in asked.items() if due)})
