"""Rounds carried out one after another on the device, and read once: on CUDA as a graph that is launched as a whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from fedtag.client.train.capacity import ran_out
from fedtag.client.train.stacked.rounds import Plan, StackedRounds, Tensors
from fedtag.common.errors import ConfigError

WARM = 2
"""Rounds before a graph is captured, in which everything is made that is made once."""


@dataclass(frozen=True)
class Planned:
    """What is decided of a round before it begins.

    Args:
        number: of the round.
        rate: step size of local training.
        trains: which clients do.
        weights: of their updates; 0 for the others.
        due: whether the received model is scored.
    """

    number: int
    rate: float
    trains: Sequence[bool]
    weights: Sequence[float]
    due: bool


class Ahead:
    """Carries rounds out ahead of who wants to know what came of them.

    Args:
        rounds: how one is carried out.
        model: parameters by name, of the model that all receive or of each client's own.
        captured: whether rounds are launched as CUDA graphs; else step by step.
    """

    def __init__(self, rounds: StackedRounds, model: Mapping[str, Tensor], captured: bool) -> None:
        self.rounds = rounds
        self.captured = captured
        device = rounds.device
        self.model = {name: value.to(device, copy=True) for name, value in model.items()}
        # What is scored is the model itself, unless the server keeps an average of it.
        self.scored: Tensors = self.model
        self.slot = torch.zeros(1, dtype=torch.long, device=device)
        self._tables: Tensors = {}
        self._found: dict[bool, Tensors] = {}
        self._graphs: dict[bool, torch.cuda.CUDAGraph] = {}

    def set(self, model: Mapping[str, Tensor], scored: Mapping[str, Tensor] | None = None) -> None:
        """Go on from other parameters.

        Args:
            model: by name.
            scored: that are scored in its place, such as its average; None: the model itself.
        """
        _copy(model, self.model)
        if scored is not None:
            if self.scored is self.model:
                self.scored = {name: torch.empty_like(value) for name, value in self.model.items()}
            _copy(scored, self.scored)

    def run(self, plans: Sequence[Planned]) -> list[Tensors]:
        """Carry out some rounds, as many every time or fewer, and wait for them.

        Returns:
            On the host, of each round what `StackedRounds.carry_out` says, with `received/NAME`, with what it began.
        """
        self._fill(plans)
        self.slot.zero_()
        for plan in plans:
            self._launch(plan.due)
        read = {due: _on_host(self._found[due]) for due in {plan.due for plan in plans}}
        return [
            {name: value[place] for name, value in read[plan.due].items()} for place, plan in enumerate(plans)
        ]

    def score(self) -> Tensors:
        """The scores of the model as it stands, on the host."""
        return _on_host(self.rounds.score(self.scored))

    def _fill(self, plans: Sequence[Planned]) -> None:
        """Write what is decided where the rounds read it."""
        told = {
            "number": torch.tensor([plan.number for plan in plans]),
            "rate": torch.tensor([plan.rate for plan in plans], dtype=torch.float32),
            "trains": torch.tensor([list(plan.trains) for plan in plans]),
            "weights": torch.tensor([list(plan.weights) for plan in plans], dtype=torch.float64),
        }
        for name, value in told.items():
            if name not in self._tables:
                self._tables[name] = torch.zeros_like(value, device=self.rounds.device)
            self._tables[name][: len(plans)].copy_(value)

    def _launch(self, due: bool) -> None:
        if not self.captured:
            self._one(due)
            return
        with torch.cuda.device(self.rounds.device):
            if due not in self._graphs:
                self._graphs[due] = self._capture(due)
            self._graphs[due].replay()

    def _one(self, due: bool) -> None:
        """The round of the present slot; what comes of it is kept there."""
        row = {name: table.index_select(0, self.slot)[0] for name, table in self._tables.items()}
        begun = {f"received/{name}": value.clone() for name, value in self.model.items()}
        found = self.rounds.carry_out(Plan(**row), self.model, self.scored if due else None)
        kept, length = self._found.setdefault(due, {}), len(self._tables["number"])
        for name, value in {**begun, **found}.items():
            if name not in kept:
                kept[name] = value.new_zeros(length, *value.shape)
            kept[name].index_copy_(0, self.slot, value[None])
        self.slot += 1

    def _capture(self, due: bool) -> torch.cuda.CUDAGraph:
        """A round as a graph; the state stays as it was.

        Raises:
            ConfigError: the backbone looks at values while it computes.
        """
        model, slot = {name: value.clone() for name, value in self.model.items()}, self.slot.clone()
        side, main = torch.cuda.Stream(), torch.cuda.current_stream()
        side.wait_stream(main)
        with torch.cuda.stream(side):
            for _ in range(WARM):
                self._one(due)
                self.slot.copy_(slot)
        main.wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph):
                self._one(due)
        except RuntimeError as error:
            if ran_out(error):
                raise
            raise ConfigError(
                f"a round of this backbone cannot be captured as a CUDA graph ({str(error).splitlines()[0]}): set "
                "engine = separate, or device = cpu"
            ) from error
        _copy(model, self.model)
        self.slot.copy_(slot)
        return graph


def _copy(values: Mapping[str, Tensor], into: Tensors) -> None:
    for name, value in into.items():
        value.copy_(values[name])


def _on_host(values: Mapping[str, Tensor]) -> Tensors:
    # Copies also where that is the device, since the next rounds write into the same tables.
    return {name: value.to("cpu", copy=True) for name, value in values.items()}
