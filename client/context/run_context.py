"""What a method may know and do in one exchange of a run, or in a prediction after it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import cached_property
from pathlib import Path
from typing import Generic, TypeVar, cast

import torch

from fedtag.client.context.clock import Clock
from fedtag.client.context.memory import Memory
from fedtag.client.context.messages import Messages
from fedtag.client.context.progress import Report, progress_of
from fedtag.client.context.site_data import SiteData
from fedtag.client.site.evidence_folder import evidence_of_run
from fedtag.client.site.site import Site
from fedtag.client.text.encoder import Progress
from fedtag.common.config import RunConfig
from fedtag.common.randomness import torch_generator
from fedtag.common.wire.records import Content, Instruction

S = TypeVar("S")
T = TypeVar("T")


class RunContext(Generic[S]):
    """The run as a method sees it.

    Args:
        site: whose part of the run it is.
        config: of the run.
        memory: what the site keeps of the run.
        instruction: that is carried out; None in a prediction, which has no exchange, no peers and no evidence folder.
        messages: opens the letters of the exchange.
        clock: told how long work takes.
        progress: told how far long work is.
    """

    def __init__(
        self,
        site: Site,
        config: RunConfig,
        memory: Memory,
        instruction: Instruction | None = None,
        messages: Callable[[], Messages] | None = None,
        clock: Clock | None = None,
        progress: Report | None = None,
    ) -> None:
        self.config = config
        self.memory = memory
        self._site = site
        self._instruction = instruction
        self._messages = messages
        self._clock = clock or Clock()
        self._progress = progress

    @property
    def settings(self) -> S:
        """The method's own settings; None if it has none."""
        kind = self.config.spec.settings
        return cast(S, None if kind is None else self.config.own(kind))

    @property
    def run(self) -> str:
        """The identifier of the run."""
        return self._current.run

    @property
    def round(self) -> int:
        """From 1; the closing exchange has the number after the last."""
        return self._current.round

    @property
    def phase(self) -> str:
        """The name of the exchange."""
        return self._current.phase

    @property
    def content(self) -> Content:
        """What came with the instruction."""
        return self._current.content

    @property
    def sum_weights(self) -> Mapping[str, float] | None:
        """The weights of all members of the masked sum that the contribution goes into; None in clear."""
        asked = self.content.values.get("sum")
        weights = asked.get("weights") if isinstance(asked, Mapping) else None
        return weights if isinstance(weights, Mapping) else None

    @property
    def messages(self) -> Messages:
        """The letters of this exchange: what peers sent, and what goes to them with the reply.

        Raises:
            ProtocolError: the phase has no letters, or the server says wrong keys.
        """
        assert self._messages is not None, "a prediction has no peers"
        return self._messages()

    @property
    def evidence(self) -> Path:
        """The folder for the evidence of this run; that of an earlier one is put aside first."""
        return evidence_of_run(self._site.evidence, self.run)

    def cached(self, data: SiteData, name: str, build: Callable[[], T]) -> T:
        """A value that follows from data, settings and run, built at first use and kept in memory with the data."""
        return data.cached((self._scope, name), build)

    def generator(self, *purpose: str | int, device: torch.device | str = "cpu") -> torch.Generator:
        """Random draws for a purpose, which depend on that and on the run's seed alone."""
        return torch_generator(self.config.seed, *purpose, device=device)

    def timed(self, work: str) -> AbstractContextManager[None]:
        """Add the duration of a block to what the server is told of this exchange."""
        return self._clock.timed(work)

    def training_deadline(self) -> float | None:
        """The monotonic clock time after which training that starts now begins no further step; None without one."""
        allowed = self.content.values.get("training_seconds")
        return None if allowed is None else time.monotonic() + float(allowed)

    def progress(self, work: str) -> Progress | None:
        """A callback with (done, total) for one kind of long work; None if nobody listens."""
        return progress_of(self._progress, work)

    @property
    def _current(self) -> Instruction:
        assert self._instruction is not None, "a prediction carries out no instruction"
        return self._instruction

    @cached_property
    def _scope(self) -> tuple[str, str]:
        """What cached values depend on beside the data."""
        return self.config.digest(), "" if self._instruction is None else self._instruction.run
