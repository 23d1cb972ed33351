"""FedC4: a client condenses its graph, shows each peer other condensed nodes, and trains on what it rebuilds.

papers/fedc4.txt. Scores are those of the received model on the original local graph; the difference of the model
after training on own and received nodes is uploaded. Labels are those of own training nodes, and those that came
with received nodes, which are made of the peers' training nodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from fedtag.client.condense.synthetic.keeping import condensed_graph
from fedtag.client.methods.fedavg import FedAvg
from fedtag.client.methods.fedc4.collaboration.rebuilding import rebuilt
from fedtag.client.methods.fedc4.exchange import receive_nodes, send_nodes, send_portraits
from fedtag.client.methods.fedc4.memory import Memory
from fedtag.client.methods.fedc4.structure import write_structure
from fedtag.client.train.classifier import fresh_backbone
from fedtag.client.train.examples import Examples
from fedtag.common.graph import Adjacency, normalised_adjacency
from fedtag.common.methods.fedc4.names import NODES, NODES_PHASE, PORTRAITS_PHASE
from fedtag.common.methods.fedc4.settings import FedC4Config
from fedtag.common.models.classifier import NodeClassifier
from fedtag.common.models.parameters import fingerprint, load_parameters, parameters_of
from fedtag.common.secure.names import SHOWN
from fedtag.common.synthetic.condensed import Condensed
from fedtag.common.wire.records import Content, Instruction

if TYPE_CHECKING:
    from fedtag.client.context.session import Session


class FedC4(FedAvg):
    """Phases: `portraits` and `nodes` in round 1, `train` in every round, `close`."""

    def respond(self, instruction: Instruction, session: Session) -> Content:
        if instruction.phase not in (PORTRAITS_PHASE, NODES_PHASE):
            return super().respond(instruction, session)
        settings, seed, mailbox = session.config.own(FedC4Config), session.config.seed, session.mailbox
        core, told = condensed_graph(session)
        memory = Memory.of(session.remembered(), session.device)
        values: dict[str, Any] = {"sizes": session.sizes, "condensation": told}
        if instruction.phase == PORTRAITS_PHASE:
            model, received = fresh_backbone(session), instruction.content.section("model")
            if received:
                load_parameters(model, received)
            else:
                values["initial"] = fingerprint(parameters_of(model))
            memory = send_portraits(memory, mailbox, embedded(model, core), settings, instruction.round, seed)
        else:
            memory, shown = send_nodes(memory, mailbox, session.site.name, core, settings, seed)
            values[SHOWN] = {NODES: shown}
        session.remember(*memory.saved())
        return Content({}, values)

    def examples(
        self, instruction: Instruction, session: Session, model: NodeClassifier
    ) -> tuple[Examples, dict[str, Any]]:
        """Own and received nodes, linked anew; what peers get for the next round goes into the mailbox."""
        settings, seed = session.config.own(FedC4Config), session.config.seed
        core, told = condensed_graph(session)
        values: dict[str, Any] = {"condensation": told}
        memory = Memory.of(session.remembered(), session.device)
        if settings.exchange != "off":
            with session.timed("exchange"):
                mailbox, round_number = session.mailbox, instruction.round
                memory = receive_nodes(memory, mailbox, session.graph)
                if round_number > 1:
                    memory, shown = send_nodes(memory, mailbox, session.site.name, core, settings, seed)
                    values[SHOWN] = {NODES: shown}
                    hidden = embedded(model, core)
                    memory = send_portraits(memory, mailbox, hidden, settings, round_number, seed)
            session.remember(*memory.saved())
        x, y = with_received(core, memory)
        with session.timed("rebuild"):
            # The graph changes with what has been received alone.
            adjacency = session.kept(
                f"rebuilt with {len(memory.origin)}", lambda: linked(session, core, x, y)
            )
        return Examples(x, adjacency, y, torch.ones_like(y, dtype=torch.bool)), values


@torch.no_grad()
def embedded(model: NodeClassifier, core: Condensed) -> Tensor:
    """h: the first layer of the backbone on the condensed graph, before the activation, [core, hidden]."""
    return model.embedding(core.x, core.adjacency) if core.num_nodes else core.x.new_zeros(0, 1)


def with_received(core: Condensed, memory: Memory) -> tuple[Tensor, Tensor]:
    """Features and labels of own and received nodes; a client without own ones trains on nothing."""
    if memory.x is None or memory.y is None or not core.num_nodes:
        return core.x, core.y
    return torch.cat([core.x, memory.x]), torch.cat([core.y, memory.y])


def linked(session: Session, core: Condensed, x: Tensor, y: Tensor) -> Adjacency:
    """The links between own and received nodes; what became of the structure is written at the site."""
    settings = session.config.own(FedC4Config)
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
    write_structure(session.site.workspace, session.training_graph, core, adjacency, y)
    return adjacency
