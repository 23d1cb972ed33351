"""The records that cross the network between a server and its clients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

Json = Any


@dataclass(frozen=True)
class Letter:
    """A record from one client to another, relayed by the server, which can read the address only."""

    sender: str
    recipient: str
    kind: str
    body: bytes


@dataclass(frozen=True)
class Content:
    """What an instruction or a reply carries.

    Tensor names are paths whose first part is the kind of the record, such as "model/layers.0.weight" or
    "update/layers.0.weight". `values` is JSON with finite numbers; its top-level keys are kinds as well.
    """

    tensors: Mapping[str, Tensor] = field(default_factory=dict)
    values: Mapping[str, Json] = field(default_factory=dict)
    letters: tuple[Letter, ...] = ()

    @property
    def kinds(self) -> frozenset[str]:
        """Of the tensors."""
        return frozenset(name.partition("/")[0] for name in self.tensors)

    def section(self, kind: str) -> dict[str, Tensor]:
        """The tensors of one kind, without the prefix."""
        prefix = f"{kind}/"
        return {
            name.removeprefix(prefix): value
            for name, value in self.tensors.items()
            if name.startswith(prefix)
        }


@dataclass(frozen=True)
class Instruction:
    """From the server to one client: take part in a phase of a round.

    `step` numbers the exchanges of a run from 1, so that a client can tell a repeated or resumed exchange
    from a new one.
    """

    run: str
    step: int
    round: int
    phase: str
    content: Content


@dataclass(frozen=True)
class Reply:
    """From a client to the server: what it contributes to the phase. `client` is the site's own name."""

    run: str
    step: int
    round: int
    phase: str
    client: str
    content: Content


def prefixed(kind: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Names put under a kind; the inverse of `Content.section`."""
    return {f"{kind}/{name}": value for name, value in tensors.items()}
