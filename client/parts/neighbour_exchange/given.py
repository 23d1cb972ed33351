"""The parts of others' sums that a site has given in a run."""

from __future__ import annotations

from typing import Any

import torch

from fedtag.client.context.run_context import RunContext
from fedtag.client.parts.neighbour_exchange.bundles import Bundle
from fedtag.client.site.state import Remembered


class Given:
    """They are on disk before any of them leaves. A mask is for one vector: a site that is asked again answers
    with the same bytes, whatever has changed meanwhile.

    Args:
        context: of the run.
        hop: 1 or 2.
    """

    def __init__(self, context: RunContext[Any], hop: int) -> None:
        self.hop = hop
        self._memory, self._name = context.memory, f"given-{hop}"
        found = self._memory.kept(self._name)
        self._bodies = dict(found.tensors) if found else {}
        self._grown = False

    def before(self, bundle: Bundle) -> bytes | None:
        """The part as it was given; None if it was not."""
        body = self._bodies.get(_place(bundle))
        return None if body is None else body.numpy().tobytes()

    def note(self, bundle: Bundle, body: bytes) -> None:
        """A part that is to be given."""
        self._bodies[_place(bundle)] = torch.frombuffer(bytearray(body), dtype=torch.uint8)
        self._grown = True

    def keep(self) -> None:
        """Write all of them; none may leave before."""
        if self._grown:
            self._memory.keep(self._name, Remembered(self._bodies, {}))


def _place(bundle: Bundle) -> str:
    return f"{bundle.recipient}/{bundle.slot}"
