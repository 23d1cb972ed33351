"""The local steps of a client: from the received model, by the optimiser that settings name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from fedtag.client.train.batches import Batching, in_batches
from fedtag.client.train.examples import Examples
from fedtag.client.train.optimisation import Training, optimiser, scheduled_rate, training_of, walk
from fedtag.client.train.replay import Replay
from fedtag.common.graph import Graph
from fedtag.common.settings.train import TrainConfig

MOST_NODES = 1 << 16
"""Of a graph: the kernels of a larger one take longer than to launch them, and a recording keeps their memory."""


def is_replayed(nodes: object, device: torch.device, batching: Batching) -> bool:
    """Whether work on nodes is recorded: on a GPU, on few of them that it takes at once."""
    if device.type != "cuda" or not isinstance(nodes, Examples | Graph):
        return False
    return nodes.x.shape[0] <= MOST_NODES and not batching.splits(nodes.x.shape[0])


@dataclass(frozen=True)
class LocalSteps:
    """What a client does to a model in a round.

    Args:
        loss: of a generator of dropout and examples, the loss of the model as it stands.
        model: changed in place.
        examples: that it learns.
        epochs: at least 1.
        batching: of the graph.
        drawn: generator of batches.
        train: settings.
        until: as of `walk`.
    """

    loss: Callable[[Any, torch.Generator], Callable[[], Tensor]]
    model: nn.Module
    examples: Any
    epochs: int
    batching: Batching
    drawn: torch.Generator
    train: TrainConfig
    until: float | None

    def taken(
        self, number: int, rounds: int, draws: torch.Generator, device: torch.device, replay: Replay | None
    ) -> Training:
        """Take them.

        Args:
            number: of the round, which decides the step size.
            rounds: of the run.
            draws: of dropout, on the device.
            device: that computes.
            replay: what records them; None: they are launched one by one.
        """

        train = self.train
        rate = scheduled_rate(train.learning_rate, train.schedule, train.final_rate, number, rounds)

        def work(own: torch.Generator, size: float | Tensor) -> Mapping[str, Tensor]:
            loss, steps = in_batches(
                lambda one: self.loss(one, own),
                self.model,
                self.examples,
                self.epochs,
                self.batching,
                device,
                self.drawn,
            )
            stepper = optimiser(
                self.model.parameters(), train.optimizer, size, train.momentum, train.weight_decay
            )
            return {"losses": walk(self.model, loss, stepper, steps, train.prox_mu, self.until)}

        if replay is None:
            found = work(draws, rate)
        else:
            found = replay((self.model, self.examples, self.epochs), work, device, draws, rate)
        momentum = train.momentum if train.optimizer == "sgd" else None
        return training_of(found["losses"], rate, momentum, train.prox_mu)
