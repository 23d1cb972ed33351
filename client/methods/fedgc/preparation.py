"""What a client of FedGC condenses and scores by: its features, and the labels that may be learned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from fedtag.client.data.shadow_nodes import outside_splits, shadow_half
from fedtag.client.methods.fedgc import bottleneck
from fedtag.client.methods.fedgc.pseudo_labels import with_pseudo_labels
from fedtag.client.parts.neighbour_exchange.features import exchanged
from fedtag.client.site.state import Remembered, newest_kept
from fedtag.common.errors import ProtocolError
from fedtag.common.graph import Graph
from fedtag.common.methods.fedgc.model import initial_teacher
from fedtag.common.methods.fedgc.names import TEACHER
from fedtag.common.methods.fedgc.settings import FedGCConfig
from fedtag.common.models.classifier import NodeClassifier
from fedtag.common.models.parameters import fingerprint, load_parameters
from fedtag.common.randomness import torch_generator
from fedtag.common.wire.records import Instruction

if TYPE_CHECKING:
    from pathlib import Path

    from fedtag.client.context.session import Session

NAME = "prepared"


@dataclass(frozen=True, eq=False)
class Prepared:
    """What follows from the site's data and the self-trained model, the same in all later rounds.

    Args:
        x: features of every node, by which it is condensed, fine-tuned and scored.
        y: labels that may be learned; −1 elsewhere.
        labelled: training nodes, and those with a pseudo-label.
    """

    x: Float[Tensor, "nodes dim"]
    y: Int[Tensor, " nodes"]
    labelled: Bool[Tensor, " nodes"]

    def graph(self, session: Session) -> Graph:
        """The graph that training may see, with these features and labels."""
        return replace(session.training_graph, x=self.x, y=self.y, train_mask=self.labelled)


def transformed(
    session: Session,
    x: Float[Tensor, "nodes dim"],
    teacher: NodeClassifier | None,
) -> Float[Tensor, "nodes dim"]:
    """The features by which nodes are condensed, fine-tuned and scored.

    Args:
        session: of the site.
        x: as of `exchanged`.
        teacher: the self-trained model; None in a run without.
    """
    settings, graph, adjacency = session.config.own(FedGCConfig), session.graph, session.training_adjacency
    if teacher is None or not settings.bottleneck:
        return x
    # Where training is inductive, no loss may look at test nodes.
    hidden = graph.test_mask if session.config.train.inductive else torch.zeros_like(graph.test_mask)
    with session.timed("bottleneck"):
        return bottleneck.transformed(
            x,
            adjacency,
            lambda z: teacher(z, adjacency),
            ~hidden,
            compression=settings.compression,
            epochs=settings.bottleneck_epochs,
            rate=settings.bottleneck_rate,
            generator=torch_generator(
                session.config.seed, session.site.name, "bottleneck", device=session.device
            ),
        )


def received_teacher(session: Session, parameters: Mapping[str, Tensor]) -> NodeClassifier:
    """The self-trained model with the given parameters, on the session's device."""
    graph = session.graph
    dimension = exchanged(session).shape[1]
    model = session.kept(
        "teacher", lambda: initial_teacher(session.config, dimension, graph.num_classes).to(session.device)
    )
    load_parameters(model, parameters)
    return model


def prepared(session: Session, instruction: Instruction) -> Prepared:
    """The site's features and labels in a run; made when the self-trained model comes, then kept on disk.

    Raises:
        ProtocolError: the site has lost them, and the model did not come again.
    """
    version = str(instruction.content.values.get(TEACHER, "none"))[:16]
    if not version.isalnum():
        raise ProtocolError(f"the fingerprint {version!r} of the self-trained model is none")

    def made() -> Remembered:
        parameters = instruction.content.section(TEACHER)
        if TEACHER in instruction.content.values and not parameters:
            raise ProtocolError(
                f"{session.site.name} has lost what it made of the self-trained model, which comes with the next round"
            )
        return Remembered(vars(prepared_by(session, parameters)), {})

    def restored() -> Prepared:
        kept = session.derived(f"{NAME}-{version}", made)
        return Prepared(**{name: value.to(session.device) for name, value in kept.tensors.items()})

    return session.kept(f"{NAME} {version}", restored)


def kept_preparation(state: Path, teacher: Mapping[str, Tensor]) -> Prepared | None:
    """What a site has kept of its newest run with a self-trained model, on the CPU; None if it has not.

    Args:
        state: folder of the site.
        teacher: parameters of the model; empty for a run without.
    """
    version = fingerprint(teacher)[:16] if teacher else "none"
    kept = newest_kept(state, f"{NAME}-{version}")
    return None if kept is None else Prepared(**kept.tensors)


def prepared_by(session: Session, parameters: Mapping[str, Tensor]) -> Prepared:
    """The site's features and labels, by the parameters of the self-trained model; empty in a run without."""
    graph, x = session.training_graph, exchanged(session)
    y, labelled = torch.where(graph.train_mask, graph.y, -1), graph.train_mask
    teacher = received_teacher(session, parameters) if parameters else None
    if teacher is not None and session.config.own(FedGCConfig).self_training:
        with session.timed("pseudo-labels"), torch.no_grad():
            logits = teacher(x, session.training_adjacency)
            set_aside = shadow_half(outside_splits(graph), session.config.seed, session.site.name)
            y, labelled = with_pseudo_labels(
                graph, logits, session.config.own(FedGCConfig).confidence, set_aside
            )
    return Prepared(transformed(session, x, teacher), y, labelled)
