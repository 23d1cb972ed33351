"""How much of a graph a device can take at once: `train.batch-size = auto`, and what is said where it was too much."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psutil
import torch

from fedtag.client.context.run_context import RunContext
from fedtag.client.context.site_data import SiteData
from fedtag.client.site.state import Remembered
from fedtag.client.train.batches import Batching
from fedtag.client.train.footprint import Footprint, finding_bytes
from fedtag.client.train.part_sizes import PartSizes
from fedtag.common.config import RunConfig
from fedtag.common.errors import CapacityError
from fedtag.common.graph import Graph
from fedtag.common.logs import LOGGER
from fedtag.common.models.classifier import NodeClassifier, stages_of
from fedtag.common.settings.train import LEAST_BATCH

NAME = "batch-size"
"""Under which a site keeps what it chose, since later rounds must do the same on whatever memory is free by then."""
SHARE = 0.5
"""Of free memory that is used by itself; the rest is for fragments, and for whoever works there beside it."""
MARGIN = 1.25
"""For what is no tensor: rounding up of allocations, work space of kernels, the optimiser."""


def batching_of(model: Callable[[], Any], data: SiteData, context: RunContext[Any]) -> Batching:
    """How a site takes its graph in a run.

    Args:
        model: makes or finds one that is trained, on its device, where that decides.
        data: of the site.
        context: of the run, which keeps what was chosen.
    """
    config = context.config.train
    size = config.batch_size
    if isinstance(size, int):
        return Batching(size, config.fan_out)

    def chosen() -> int:
        kept = context.memory.kept(NAME)
        if kept is not None:
            return int(kept.values["nodes"])
        one = model()
        # Of a model that reads a graph in its own way nothing is known.
        found = largest_batch(one, data, config.fan_out) if isinstance(one, NodeClassifier) else 0
        context.memory.keep(NAME, Remembered({}, {"nodes": found}))
        return found

    return Batching(context.cached(data, NAME, chosen), config.fan_out)


def largest_batch(model: NodeClassifier, data: SiteData, fan_out: int) -> int:
    """The largest size of a batch, a power of two, with which all fits; 0 where a step on the whole graph does."""
    device, graph = data.device, data.graph
    nodes, links = graph.num_nodes, graph.edge_index.shape[1]
    room = SHARE * free_bytes(device)
    # A step on the whole graph has the graph itself beside it, which otherwise may wait elsewhere.
    held = graph.x.numel() * graph.x.element_size() if graph.x.device != device else 0
    whole = held + MARGIN * Footprint.of(model, graph.x.shape[1]).bytes(nodes, links)
    size = 0
    if whole > room:
        needed = batch_bytes(model, graph, fan_out, device)
        sizes = [LEAST_BATCH << power for power in range(26) if LEAST_BATCH << power < nodes]
        size = max((one for one in sizes if MARGIN * needed(one) <= room), default=LEAST_BATCH)
    # Where nothing changes there is nothing to tell.
    LOGGER.log(
        logging.INFO if size else logging.DEBUG,
        "train.batch-size = auto: %s, as %.0f MiB of %s are free and a step on the whole graph takes about %.0f MiB",
        f"{size} nodes" if size else "0, the whole graph",
        free_bytes(device) / 2**20,
        device,
        whole / 2**20,
    )
    return size


def batch_bytes(
    model: NodeClassifier, graph: Graph, fan_out: int, device: torch.device
) -> Callable[[int], float]:
    """What batches of a size take at the most: a step on a drawn part, or a pass over some nodes and all near them.

    Parts are found in the host's memory, which counts where that is the device's.

    Args:
        model: of the run.
        graph: of the site.
        fan_out: of `Batching`.
        device: that computes.
    """
    inputs, stages = graph.x.shape[1], stages_of(model)
    step, passed = Footprint.of(model, inputs), Footprint.of_pass(model, inputs)
    sizes = PartSizes(graph.edge_index, graph.num_nodes)
    looked = finding_bytes() if device.type == "cpu" else 0.0

    def needed(size: int) -> float:
        drawn = sizes.drawn(size, sum(stage.hops for stage in stages), fan_out)
        reached = sizes.reached(size, max(stage.hops for stage in stages))
        return max(
            work.bytes(part.nodes, part.links) + looked * part.entries
            for work, part in ((step, drawn), (passed, reached))
        )

    return needed


def free_bytes(device: torch.device) -> float:
    """Of a device's memory: what nobody has, and what this process has and does not use."""
    if device.type == "cuda":
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return float(torch.cuda.mem_get_info(device)[0] + unused)
    return float(psutil.virtual_memory().available)


@contextmanager
def memory_explained(config: RunConfig, device: torch.device) -> Iterator[None]:
    """Raise CapacityError in place of the error of a device whose memory a block of work did not fit."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not ran_out(error):
            raise
        size = config.train.batch_size
        if size == 0:
            remedy = "the whole graph at once: set it to auto, or to a number of nodes such as 1024"
        elif isinstance(size, int):
            fewer = (
                f"train.fan-out below {fan_out}"
                if (fan_out := config.train.fan_out)
                else "train.fan-out to 10"
            )
            lower = f"it lower, for example to {size // 4}, or " if size >= LEAST_BATCH else ""
            remedy = f"which is too much: set {lower}{fewer}"
        else:
            remedy = "which left too little to others: set it to a number of nodes such as 256"
        raise CapacityError(
            f"the memory of {device} ran out with train.batch-size = {size}, {remedy}"
        ) from error


def ran_out(error: BaseException) -> bool:
    """Whether an error says that there was no memory left; PyTorch has no kind of its own for the host's."""
    named = isinstance(error, MemoryError | torch.OutOfMemoryError)
    return named or "can't allocate memory" in str(error) or "not enough memory" in str(error)
