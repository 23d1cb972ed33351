"""Work on a device that is launched as one: recorded as a CUDA graph when it comes again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import torch
from torch import Tensor

from fedtag.common.logs import LOGGER

Work = Callable[[Any, Any], Mapping[str, Tensor]]
"""What is done, given the generator that it draws from and a step size; it reads nothing back from the device."""


class Replay:
    """One kind of work, done again and again on the same tensors.

    At the first time it is just done. At the second it is recorded, with the memory that it needs,
    and from then on the device is told once to do it all: the same kernels in the same order, with the same draws. A
    graph of few nodes else takes many times as long to launch as to compute.
    """

    def __init__(self) -> None:
        self._key: Sequence[object] = ()
        self._recording: _Recording | None = None
        self._records = True

    def __call__(
        self,
        key: Sequence[object],
        work: Work,
        device: torch.device,
        draws: torch.Generator | None = None,
        rate: float = 0.0,
    ) -> Mapping[str, Tensor]:
        """The result of the work, on its device, to be read before it is done again.

        Args:
            key: all that the work depends on beside draws, rate and the values of tensors, by identity or value.
            work: reads and writes tensors that stay where they are, and makes its result.
            device: that does it, with CUDA.
            draws: a fresh generator on the device.
            rate: step size.
        """
        if self._recording is None or not self._is_again(key):
            self._recording = self._recorded(work, device, draws) if self._is_again(key) else None
            self._key = tuple(key)
        if self._recording is None:
            return work(draws, torch.tensor(rate, device=device))
        return self._recording.again(draws, rate)

    def _is_again(self, key: Sequence[object]) -> bool:
        return len(key) == len(self._key) and all(
            a is b or a == b for a, b in zip(key, self._key, strict=True)
        )

    def _recorded(self, work: Work, device: torch.device, draws: torch.Generator | None) -> _Recording | None:
        """None if the work waits for the device, as a model of somebody's own may do."""
        if self._records:
            try:
                return _Recording(work, device, draws is not None)
            except RuntimeError as error:
                self._records = False
                LOGGER.info(
                    "steps are launched one by one, since they cannot be recorded: %s",
                    str(error).split("\n")[0],
                )
        return None


class _Recording:
    def __init__(self, work: Work, device: torch.device, draws: bool) -> None:
        self._graph = torch.cuda.CUDAGraph()
        self._rate = torch.zeros((), device=device)
        self._draws = torch.Generator(device) if draws else None
        if self._draws is not None:
            self._graph.register_generator_state(self._draws)
        stream = torch.cuda.Stream(device)
        stream.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(stream):
            # Recordings are replayed one after the other, so that what they need for themselves may lie in one place.
            self._graph.capture_begin(pool=_pool(device))
            try:
                self._result = dict(work(self._draws, self._rate))
            finally:
                self._graph.capture_end()
        torch.cuda.current_stream(device).wait_stream(stream)

    def again(self, draws: torch.Generator | None, rate: float) -> Mapping[str, Tensor]:
        self._rate.fill_(rate)
        if self._draws is not None and draws is not None:
            self._draws.manual_seed(draws.initial_seed())
        self._graph.replay()
        return self._result


@cache
def _pool(device: torch.device) -> Any:
    with torch.cuda.device(device):
        return torch.cuda.graph_pool_handle()
