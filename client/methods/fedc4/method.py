"""FedC4: a client condenses its graph, shows each peer other condensed nodes, and trains on what it rebuilds.

Scores are those of the received model on the original local graph; the difference of the model after training on own
and received nodes is uploaded. Labels are those of own training nodes, and those that came with received nodes, which
are made of the peers' training nodes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from fedtag.client.condense.synthetic.keeping import condensed_graph
from fedtag.client.context.run_context import RunContext
from fedtag.client.context.site_data import SiteData
from fedtag.client.methods.base import ClientMethod, Handler
from fedtag.client.methods.fedc4.collaboration.rebuilding import rebuilt
from fedtag.client.methods.fedc4.exchange import receive_nodes, send_nodes, send_portraits
from fedtag.client.methods.fedc4.memory import Memory
from fedtag.client.methods.fedc4.structure import write_structure
from fedtag.client.train.examples import Examples
from fedtag.common.graph import Adjacency, normalised_adjacency
from fedtag.common.methods.fedc4.names import NODES, NODES_PHASE, PORTRAITS_PHASE
from fedtag.common.methods.fedc4.settings import FedC4Config
from fedtag.common.models.classifier import NodeClassifier
from fedtag.common.secure.names import SHOWN
from fedtag.common.synthetic.condensed import Condensed
from fedtag.common.wire.records import Content

Context = RunContext[FedC4Config]


class FedC4(ClientMethod[FedC4Config]):
    """Phases: `portraits` and `nodes` in round 1, `train` in every round, `close`."""

    def handlers(self) -> Mapping[str, Handler]:
        return {**super().handlers(), PORTRAITS_PHASE: self.portraits, NODES_PHASE: self.nodes}

    def portraits(self, data: SiteData, context: Context) -> Content:
        """Tell peers the statistics of the own condensed nodes."""
        core, condensation = condensed_graph(data, context)
        memory = Memory.of(context.memory.remembered(), data.device)
        memory = sent_portraits(memory, embedded(self.loaded(data, context), core), context)
        context.memory.remember(*memory.saved())
        return Content({}, {"condensation": condensation, **self.initial(data, context)})

    def nodes(self, data: SiteData, context: Context) -> Content:
        """Show peers of the own cluster some condensed nodes."""
        core, condensation = condensed_graph(data, context)
        memory = Memory.of(context.memory.remembered(), data.device)
        memory, shown = shown_nodes(memory, data, core, context)
        context.memory.remember(*memory.saved())
        return Content({}, {"condensation": condensation, SHOWN: {NODES: shown}})

    def examples(
        self, model: Any, data: SiteData, context: Context
    ) -> tuple[Examples | None, dict[str, Any]]:
        """Own and received nodes, linked anew; what peers get for the next round goes out with the reply."""
        core, condensation = condensed_graph(data, context)
        values: dict[str, Any] = {"condensation": condensation}
        memory = Memory.of(context.memory.remembered(), data.device)
        if context.settings.exchange != "off":
            with context.timed("exchange"):
                memory = receive_nodes(memory, context.messages, data.graph)
                if context.round > 1:
                    memory, shown = shown_nodes(memory, data, core, context)
                    values[SHOWN] = {NODES: shown}
                    memory = sent_portraits(memory, embedded(model, core), context)
            context.memory.remember(*memory.saved())
        x, y = with_received(core, memory)
        with context.timed("rebuild"):
            # The graph changes with what has been received alone.
            adjacency = context.cached(
                data, f"rebuilt with {len(memory.origin)}", lambda: linked(data, context, core, x, y)
            )
        examples = Examples(x, adjacency, y, torch.ones_like(y, dtype=torch.bool))
        return (examples if y.numel() else None), values


def sent_portraits(memory: Memory, hidden: Tensor, context: Context) -> Memory:
    """The memory after the statistics of the own nodes went out."""
    return send_portraits(
        memory, context.messages, hidden, context.settings, context.round, context.config.seed
    )


def shown_nodes(
    memory: Memory, data: SiteData, core: Condensed, context: Context
) -> tuple[Memory, dict[str, int]]:
    """The memory after own nodes went out, and to whom how many."""
    return send_nodes(memory, context.messages, data.site.name, core, context.settings, context.config.seed)


@torch.no_grad()
def embedded(model: NodeClassifier, core: Condensed) -> Tensor:
    """h: the first layer of the backbone on the condensed graph, before the activation, [core, hidden]."""
    return model.embedding(core.x, core.adjacency) if core.num_nodes else core.x.new_zeros(0, 1)


def with_received(core: Condensed, memory: Memory) -> tuple[Tensor, Tensor]:
    """Features and labels of own and received nodes; a client without own ones trains on nothing."""
    if memory.x is None or memory.y is None or not core.num_nodes:
        return core.x, core.y
    return torch.cat([core.x, memory.x]), torch.cat([core.y, memory.y])


def linked(data: SiteData, context: Context, core: Condensed, x: Tensor, y: Tensor) -> Adjacency:
    """The links between own and received nodes; what became of the structure is written at the site."""
    settings = context.settings
    if settings.rebuild and x.shape[0]:
        adjacency = rebuilt(
            x,
            alpha=settings.alpha,
            beta=settings.beta,
            candidates=settings.candidates,
            neighbours=settings.neighbours,
        )
    else:
        adjacency = normalised_adjacency(core.edge_index, x.shape[0], core.edge_weight)
    write_structure(data.site.workspace, data.training.graph, core, adjacency, y)
    return adjacency


METHOD = FedC4()
