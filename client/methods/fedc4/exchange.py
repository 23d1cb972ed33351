"""The letters of FedC4: portraits of condensed nodes, and the nodes themselves (Eq. 8-13).

Portraits that went out in one exchange decide in the next one who shows which nodes to whom; these arrive in the
exchange after that. So one exchange a round carries both, and only round 1, which has nothing to start from, needs
an exchange for each.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from fedtag.client.context.messages import Messages
from fedtag.client.methods.fedc4.collaboration.clusters import clustered, merging_height
from fedtag.client.methods.fedc4.collaboration.embedding import (
    Portrait,
    common_scale,
    portrait,
    random_directions,
)
from fedtag.client.methods.fedc4.collaboration.selection import selected
from fedtag.client.methods.fedc4.memory import Memory
from fedtag.common.errors import WireError
from fedtag.common.graph import Graph
from fedtag.common.methods.fedc4.names import NODES, PORTRAIT
from fedtag.common.methods.fedc4.settings import FedC4Config
from fedtag.common.numerics.noise import entropy_generator, laplace
from fedtag.common.randomness import torch_generator
from fedtag.common.synthetic.condensed import Condensed
from fedtag.common.wire.records import Content

LOGGER = logging.getLogger("fedtag")


def receive_nodes(memory: Memory, messages: Messages, graph: Graph) -> Memory:
    """Add the nodes that peers sent; one that is known by its sender and place is not taken twice.

    A letter whose tensors do not fit the federation is left out, and its sender told to the server.
    """
    known = set(memory.origin)
    origin, x, y = list(memory.origin), [], []
    for sender, letters in sorted(messages.received.get(NODES, {}).items()):
        for content in letters:
            try:
                features, labels, places = _checked(content, graph)
            except WireError as error:
                messages.complain(sender, str(error))
                continue
            new = [row for row, place in enumerate(places) if (sender, place) not in known]
            origin += [(sender, places[row]) for row in new]
            known.update((sender, places[row]) for row in new)
            x.append(features[new].to(graph.x))
            y.append(labels[new].to(graph.y.device))
    if not x:
        return memory
    before_x = [] if memory.x is None else [memory.x]
    before_y = [] if memory.y is None else [memory.y]
    return replace(memory, origin=tuple(origin), x=torch.cat([*before_x, *x]), y=torch.cat([*before_y, *y]))


def send_portraits(
    memory: Memory,
    messages: Messages,
    hidden: Tensor,
    settings: FedC4Config,
    round_number: int,
    seed: int,
) -> Memory:
    """Tell the own statistics: to all in round 1, every `recluster` rounds and on broadcast, to who has had none
    from this client, and otherwise to the own cluster."""
    if not hidden.shape[0]:
        return memory
    everybody = settings.exchange == "broadcast" or (round_number - 1) % settings.recluster == 0
    receivers = [
        peer for peer in messages.peers if everybody or peer in memory.cluster or peer not in memory.met
    ]
    own = _portrait(hidden, settings, seed)
    for peer in receivers:
        messages.send(peer, PORTRAIT, Content({"mean": own.mean, "spectrum": own.spectrum}))
    return replace(memory, hidden=hidden, everybody=everybody, met=memory.met | set(receivers))


def send_nodes(
    memory: Memory, messages: Messages, name: str, core: Condensed, settings: FedC4Config, seed: int
) -> tuple[Memory, dict[str, int]]:
    """Form clusters from the portraits that came, and show each peer of the own cluster nodes that it lacks.

    Returns:
        The memory, and the number of nodes shown to each peer; none where the nodes are real ones.
    """
    arrived = messages.latest(PORTRAIT)
    if memory.hidden is None or not arrived:
        return memory, {}
    own = _portrait(memory.hidden, settings, seed)
    portraits = {name: own}
    for peer, content in arrived.items():
        try:
            portraits[peer] = _read_portrait(content, own)
        except WireError as error:
            messages.complain(peer, str(error))
    hidden, memory = memory.hidden, _grouped(memory, name, portraits, settings)
    if core.copies:
        LOGGER.warning(
            "condensed nodes of %s are real ones, as a coarsened group of one is, so that peers are shown none: "
            "set condenser.name = gcond-x, gcond, doscond or sfgc",
            name,
        )
        return memory, {}
    if settings.noise and memory.noisy is None:
        noise = laplace(core.x, settings.noise, entropy_generator())
        memory = replace(memory, noisy=core.x + noise)
    visible = core.x if memory.noisy is None else memory.noisy
    scale = common_scale(portraits)
    shown, counts = dict(memory.shown), dict[str, int]()
    for peer in memory.cluster:
        if peer == name or peer not in messages.peers:
            continue
        if settings.exchange == "selected":
            chosen = selected(hidden, portraits[peer].mean, scale, settings.threshold).tolist()
        else:
            chosen = list(range(core.num_nodes))
        new = [place for place in chosen if place not in set(shown.get(peer, ()))]
        if new:
            tensors = {"x": visible[new], "y": core.y[new], "place": torch.tensor(new)}
            messages.send(peer, NODES, Content(tensors))
            shown[peer] = (*shown.get(peer, ()), *new)
            counts[peer] = len(new)
    return replace(memory, shown=shown), counts


def _grouped(memory: Memory, name: str, portraits: Mapping[str, Portrait], settings: FedC4Config) -> Memory:
    """The own cluster. Between portraits of all, a cluster can only split, since nobody else has been heard of."""
    if settings.exchange == "broadcast":
        return replace(memory, cluster=tuple(sorted(portraits)))
    height, heard = memory.height, portraits
    if memory.everybody:
        height = merging_height(portraits, settings.cut)
    else:
        heard = {peer: one for peer, one in portraits.items() if peer in memory.cluster or peer == name}
        if settings.clusters:
            return replace(memory, cluster=tuple(sorted(heard)))
    groups = clustered(heard, height=height, number=settings.clusters)
    return replace(memory, cluster=next(group for group in groups if name in group), height=height)


def _portrait(hidden: Tensor, settings: FedC4Config, seed: int) -> Portrait:
    if settings.distance == "norms":
        return portrait(hidden)
    generator = torch_generator(seed, "projections")
    directions = random_directions(settings.projections, hidden.shape[1], generator)
    return portrait(hidden, directions.to(hidden))


def _checked(content: Content, graph: Graph) -> tuple[Tensor, Tensor, list[int]]:
    x, y, place = (content.tensors.get(name) for name in ("x", "y", "place"))
    if x is None or y is None or place is None or x.dim() != 2 or x.shape[1] != graph.x.shape[1]:
        raise WireError(f"nodes need x with {graph.x.shape[1]} features, y and place")
    rows = x.shape[0]
    if y.shape != (rows,) or place.shape != (rows,) or y.dtype != torch.long or place.dtype != torch.long:
        raise WireError("nodes need one label and one place each, as whole numbers")
    if not x.is_floating_point() or not bool(torch.isfinite(x).all()):
        raise WireError("nodes have features that are not finite")
    if rows and not (int(y.min()) >= 0 and int(y.max()) < graph.num_classes):
        raise WireError("nodes have labels that are no class of the federation")
    return x, y, place.tolist()


def _read_portrait(content: Content, own: Portrait) -> Portrait:
    mean, spectrum = content.tensors.get("mean"), content.tensors.get("spectrum")
    if mean is None or spectrum is None or mean.shape != own.mean.shape or spectrum.dim() != 2:
        raise WireError(f"a portrait needs a mean of {own.mean.numel()} numbers and a spectrum")
    if spectrum.shape[0] != own.spectrum.shape[0] or spectrum.shape[1] == 0:
        raise WireError(f"a portrait needs a spectrum along {own.spectrum.shape[0]} directions")
    if not bool(torch.isfinite(mean).all() and torch.isfinite(spectrum).all()):
        raise WireError("a portrait has values that are not finite")
    return Portrait(mean.to(own.mean), spectrum.to(own.spectrum))
