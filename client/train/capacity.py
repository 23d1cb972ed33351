"""How much of a graph a device can take at once: `train.batch-size = auto`, and what is said where it was too much."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psutil
import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from fedtag.client.context.run_context import RunContext
from fedtag.client.context.site_data import SiteData
from fedtag.client.site.state import Remembered
from fedtag.client.train.batches import Batching
from fedtag.common.config import RunConfig
from fedtag.common.errors import CapacityError
from fedtag.common.graph import normalised_adjacency
from fedtag.common.logs import LOGGER
from fedtag.common.models.classifier import NodeClassifier, hops_of
from fedtag.common.settings.train import LEAST_BATCH

NAME = "batch-size"
"""Under which a site keeps what it chose, since later rounds must do the same on whatever memory is free by then."""
SHARE = 0.5
"""Of free memory that is used by itself; the rest is for fragments, and for whoever works there beside it."""
BESIDE = 3.0
"""Bytes that a step takes at its peak for each byte that is saved for its gradients (measured, see the tests)."""
PROBED, LINKED = 64, 512


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
    """The largest size of a batch, a power of two, whose step fits; 0 where that of the whole graph does."""
    device, graph = data.device, data.graph
    nodes, links = graph.num_nodes, graph.edge_index.shape[1]
    room = SHARE * free_bytes(device)
    each = bytes_of_a_step(model, graph.x.shape[1], device)
    # A step on the whole graph has the graph itself beside it, which otherwise may wait elsewhere.
    held = graph.x.numel() * graph.x.element_size() if graph.x.device != device else 0
    whole = held + taken(each, nodes, links)
    size = 0
    if whole > room:
        hops = hops_of(model)
        sizes = [LEAST_BATCH << power for power in range(26) if LEAST_BATCH << power < nodes]
        fitting = [
            one for one in sizes if taken(each, *largest_part(one, hops, fan_out, nodes, links)) <= room
        ]
        size = max(fitting, default=LEAST_BATCH)
    LOGGER.info(
        "train.batch-size = auto: %s, as %.0f MiB of %s are free and a step on the whole graph takes about %.0f MiB",
        f"{size} nodes" if size else "0, the whole graph",
        free_bytes(device) / 2**20,
        device,
        whole / 2**20,
    )
    return size


def largest_part(size: int, hops: int, fan_out: int, nodes: int, links: int) -> tuple[int, int]:
    """Nodes and links of the largest part of a graph around so many nodes, as many links a node as in the graph."""
    grown = nodes if hops and not fan_out else min(nodes, size * sum(fan_out**hop for hop in range(hops + 1)))
    return grown, -(-links * grown // max(nodes, 1))


def taken(each: tuple[float, float], nodes: int, links: int) -> float:
    """Bytes of a step on so many nodes and links."""
    return each[0] * nodes + each[1] * links


def bytes_of_a_step(model: NodeClassifier, inputs: int, device: torch.device) -> tuple[float, float]:
    """Bytes that a step takes for each node and for each link: what small graphs save for gradients, and beside that.

    Measured with the model itself, so that it holds for every backbone.
    """
    base, wide, linked = (
        saved_bytes(model, inputs, nodes, links, device)
        for nodes, links in ((PROBED, 0), (2 * PROBED, 0), (PROBED, LINKED))
    )
    return BESIDE * (wide - base) / PROBED, BESIDE * (linked - base) / LINKED


def saved_bytes(model: NodeClassifier, inputs: int, nodes: int, links: int, device: torch.device) -> int:
    """Bytes of the tensors that a step on a graph of so many nodes and links saves, each of them once."""
    generator = torch.Generator(device).manual_seed(0)
    pairs = torch.arange(links, device=device)
    # Links of distinct nodes, which distances of 1 and more between ends are.
    edges = torch.stack([pairs % nodes, (pairs + 1 + pairs // nodes) % nodes])
    found: dict[int, int] = {}

    def save(value: Tensor) -> Tensor:
        storage = value.untyped_storage()
        found[storage.data_ptr()] = storage.nbytes()
        return value

    x = torch.randn(nodes, inputs, generator=generator, device=device)
    with saved_tensors_hooks(save, lambda value: value):
        said = model(x, normalised_adjacency(edges, nodes), generator)
    del said
    return sum(found.values())


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
            remedy = f"which is too much: set it lower, for example to {max(size // 4, 1)}, or train.fan-out"
        else:
            remedy = "which left too little to others: set it to a number of nodes such as 256"
        raise CapacityError(
            f"the memory of {device} ran out with train.batch-size = {size}, {remedy}"
        ) from error


def ran_out(error: BaseException) -> bool:
    """Whether an error says that there was no memory left; PyTorch has no kind of its own for the host's."""
    named = isinstance(error, MemoryError | torch.OutOfMemoryError)
    return named or "can't allocate memory" in str(error) or "not enough memory" in str(error)
