"""What a client of FedC4 remembers from one exchange to the next."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from fedtag.client.site.state import Remembered

TENSORS = ("hidden", "x", "y", "noisy")


@dataclass(frozen=True, eq=False)
class Memory:
    """Of one run.

    Args:
        hidden: h of the own condensed nodes when the last portrait was sent, [core, hidden]; None before.
        everybody: whether that portrait went to all clients.
        cluster: names in the own cluster, the client's own included.
        height: distance beyond which clusters do not merge, from the last portraits of all clients.
        shown: places of own nodes that each peer has been sent.
        met: peers that have had a portrait of this client.
        origin: of each received node its sender, and its place there.
        x: features of received nodes, [received, dim].
        y: their labels, [received].
        noisy: own features as peers see them, [core, dim]; None where no noise is asked for. The noise of a node is
            drawn once, because who got it twice could average it out.
    """

    hidden: Tensor | None = None
    everybody: bool = False
    cluster: tuple[str, ...] = ()
    height: float = 0.0
    shown: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    met: frozenset[str] = frozenset()
    origin: tuple[tuple[str, int], ...] = ()
    x: Tensor | None = None
    y: Tensor | None = None
    noisy: Tensor | None = None

    @classmethod
    def of(cls, remembered: Remembered | None, device: torch.device) -> Memory:
        """What was saved; nothing at the start."""
        if remembered is None:
            return cls()
        tensors, values = remembered.tensors, remembered.values
        found = {name: tensors[name].to(device) for name in TENSORS if name in tensors}
        return cls(
            hidden=found.get("hidden"),
            everybody=values["everybody"],
            cluster=tuple(values["cluster"]),
            height=values["height"],
            shown={peer: tuple(places) for peer, places in values["shown"].items()},
            met=frozenset(values["met"]),
            origin=tuple((sender, place) for sender, place in values["origin"]),
            x=found.get("x"),
            y=found.get("y"),
            noisy=found.get("noisy"),
        )

    def saved(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Tensors and JSON-able values, the inverse of `of`."""
        tensors = {name: getattr(self, name) for name in TENSORS}
        values = {
            "everybody": self.everybody,
            "cluster": list(self.cluster),
            "height": self.height,
            "shown": {peer: list(places) for peer, places in sorted(self.shown.items())},
            "met": sorted(self.met),
            "origin": [list(one) for one in self.origin],
        }
        return {name: value for name, value in tensors.items() if value is not None}, values
