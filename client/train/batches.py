"""Mini-batches: what is learned from some labelled nodes at a time, each time with drawn neighbours around them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import torch
from jaxtyping import Int
from torch import Tensor, nn

from fedtag.client.train.examples import Examples
from fedtag.client.train.neighbourhoods import Neighbourhoods, Subgraph
from fedtag.common.errors import ConfigError
from fedtag.common.models.classifier import hops_of
from fedtag.common.numerics.ahead import ahead

T = TypeVar("T")


@dataclass(frozen=True)
class Batching:
    """How a graph is taken in parts.

    Args:
        size: labelled nodes of a step, and nodes of a pass without gradients; 0: the whole graph at once.
        fan_out: most neighbours that a node brings into a step at each hop; 0: all of them.
    """

    size: int = 0
    fan_out: int = 0

    def splits(self, nodes: int) -> bool:
        """Whether a graph of so many nodes is taken in parts; one that is no larger than a part is not."""
        return 0 < self.size < nodes


WHOLE = Batching()


class Batches:
    """Examples in parts: in each epoch every labelled node is in one of them.

    What they are follows from the generator alone: neither from the device that computes nor from how far ahead the
    next one is made. In the memory of that device are one batch and the next.

    Args:
        examples: with a labelled node.
        batching: in parts.
        hops: over which the model reads.
        device: that computes; the examples may lie elsewhere.
        generator: on the CPU.
    """

    def __init__(
        self,
        examples: Examples,
        batching: Batching,
        hops: int,
        device: torch.device,
        generator: torch.Generator,
    ) -> None:
        self.examples = examples
        self.batching = batching
        self.hops = hops
        self.device = device
        self.generator = generator
        self.labelled = examples.mask.nonzero().squeeze(1).cpu()
        self.steps = -(-self.labelled.numel() // batching.size)

    def epochs(self, count: int) -> Iterator[Examples]:
        """The batches of some epochs, each of `steps`, of sizes that differ by 1 at most."""
        made = (self._batch(targets) for _ in range(count) for targets in self._order())
        return ready(made, self.device)

    def _order(self) -> tuple[Int[Tensor, " targets"], ...]:
        order = torch.randperm(self.labelled.numel(), generator=self.generator)
        return self.labelled[order].tensor_split(self.steps)

    @cached_property
    def _near(self) -> Neighbourhoods:
        # On the host, so that every device draws the same.
        return Neighbourhoods(self.examples.adjacency.to("cpu"))

    def _batch(self, targets: Int[Tensor, " targets"]) -> Examples:
        part = self._near.drawn(targets, self.hops, self.batching.fan_out, self.generator)
        return part_of(self.examples, part, self.device)


def in_batches(
    loss: Callable[[Any], Callable[[], Tensor]],
    model: nn.Module,
    examples: Any,
    epochs: int,
    batching: Batching,
    device: torch.device,
    generator: torch.Generator,
) -> tuple[Callable[[], Tensor], int]:
    """The loss of each step of some epochs, and their number: one an epoch, or as many as there are batches.

    In parts go `Examples` with more nodes than a batch; a method's own kind of examples is small, and stays whole.

    Args:
        loss: what is called once a step, of examples.
        model: that is trained.
        examples: with a label to learn.
        epochs: at least 1.
        batching, device, generator: of `Batches`.
    """
    if not isinstance(examples, Examples) or not batching.splits(examples.x.shape[0]):
        return loss(examples), epochs
    batches = Batches(examples, batching, hops_of(model), device, generator)
    parts = batches.epochs(epochs)
    return lambda: loss(next(parts))(), epochs * batches.steps


def as_function(loss: object, method: object) -> Callable[[], Tensor]:
    """The loss that a method gave, which is to be a function.

    Args:
        loss: that is computed anew at each step.
        method: that gave it.

    Raises:
        ConfigError: it is none.
    """
    if not callable(loss):
        raise ConfigError(
            f"method {type(method).__name__}: loss returned a {type(loss).__name__}, where a function without "
            "arguments is wanted that computes the loss anew at each step: return `lambda: …` around it"
        )
    return loss


def part_of(examples: Examples, part: Subgraph, device: torch.device) -> Examples:
    """The examples of a part of their graph, of whose labels only those of its targets are learned."""
    x, y = (gathered(value, part.nodes, device) for value in (examples.x, examples.y))
    mask = torch.zeros(part.nodes.numel(), dtype=torch.bool)
    mask[part.targets.cpu()] = True
    mask = mask.to(device)
    found = Examples(x, part.adjacency.to(device), y, mask)
    if examples.weight is None:
        return found
    weight = gathered(examples.weight, part.nodes, device)
    return replace(found, weight=weight.where(mask, 0.0))


def gathered(table: Tensor, rows: Int[Tensor, " rows"], device: torch.device) -> Tensor:
    """Some rows of a table on a device; those of a table in the host's memory go over in a pinned copy."""
    chosen = table[rows.to(table.device)]
    if chosen.device.type == "cpu" and device.type == "cuda":
        chosen = chosen.pin_memory()
    return chosen.to(device, non_blocking=True)


def ready(items: Iterator[T], device: torch.device) -> Iterator[T]:
    """The same, each made while the device works on the one before, where that is not the processor that makes them."""
    return items if device.type == "cpu" else ahead(items)
