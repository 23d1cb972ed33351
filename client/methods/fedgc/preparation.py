"""What a client of FedGC condenses and scores by: its features, and the labels that may be learned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from fedtag.client.context.run_context import RunContext
from fedtag.client.context.site_data import SiteData
from fedtag.client.data.shadow_nodes import outside_splits, shadow_half
from fedtag.client.methods.fedgc import bottleneck
from fedtag.client.methods.fedgc.pseudo_labels import surest_half, with_pseudo_labels
from fedtag.client.site.state import Remembered, newest_kept
from fedtag.client.train import passes
from fedtag.client.train.batches import Batching
from fedtag.common.errors import ProtocolError
from fedtag.common.graph import Graph
from fedtag.common.methods.fedgc.model import initial_teacher
from fedtag.common.methods.fedgc.names import TEACHER
from fedtag.common.methods.fedgc.settings import FedGCConfig
from fedtag.common.models.classifier import NodeClassifier
from fedtag.common.models.parameters import fingerprint, load_parameters
from fedtag.common.wire.records import Content

Context = RunContext[FedGCConfig]

NAME = "prepared"
NO_TEACHER, FINGERPRINT = "none", 16


@dataclass(frozen=True, eq=False)
class Prepared:
    """What follows from the site's data and the self-trained model, the same in all later rounds.

    Args:
        x: features of every node, by which it is condensed, fine-tuned and scored.
        y: labels that may be learned; −1 elsewhere.
        labelled: where there is one: training nodes, those with a pseudo-label, or both.
    """

    x: Float[Tensor, "nodes dim"]
    y: Int[Tensor, " nodes"]
    labelled: Bool[Tensor, " nodes"]

    def graph(self, data: SiteData) -> Graph:
        """The graph that training may see, with these features and labels."""
        return replace(data.training.graph, x=self.x, y=self.y, train_mask=self.labelled)


def prepared(batching: Batching, data: SiteData, context: Context) -> Prepared:
    """The site's features and labels in a run; made when the self-trained model comes, then kept on disk.

    Args:
        batching: of the site's graph.
        data: of the site.
        context: of the exchange.

    Raises:
        ProtocolError: the site has lost them, and the model did not come again.
    """
    content = context.content
    version = version_of(content)

    def made() -> Remembered:
        parameters = content.section(TEACHER)
        if TEACHER in content.values and not parameters:
            raise ProtocolError(
                f"{data.site.name} has lost what it made of the self-trained model, which comes with the next round"
            )
        return Remembered(vars(prepared_by(parameters, batching, data, context)), {})

    def restored() -> Prepared:
        kept = context.memory.derived(f"{NAME}-{version}", made)
        return Prepared(**{name: value.to(data.device) for name, value in kept.tensors.items()})

    return context.cached(data, f"{NAME} {version}", restored)


def version_of(content: Content) -> str:
    """What a site's preparation for an exchange is called by: the self-trained model that its server names.

    Raises:
        ProtocolError: it names none.
    """
    version = str(content.values.get(TEACHER, NO_TEACHER))[:FINGERPRINT]
    if not version.isalnum():
        raise ProtocolError(f"the fingerprint {version!r} of the self-trained model is none")
    return version


def version_with(teacher: Mapping[str, Tensor]) -> str:
    """The same by the parameters of that model; empty for a run without."""
    return fingerprint(teacher)[:FINGERPRINT] if teacher else NO_TEACHER


def kept_preparation(state: Path, version: str) -> Prepared | None:
    """What a site has kept of its newest run with a self-trained model, on the CPU; None if it has not.

    Args:
        state: folder of the site.
        version: of the preparation.
    """
    kept = newest_kept(state, f"{NAME}-{version}")
    return None if kept is None else Prepared(**kept.tensors)


def prepared_by(
    parameters: Mapping[str, Tensor], batching: Batching, data: SiteData, context: Context
) -> Prepared:
    """The site's features and labels, by the parameters of the self-trained model; empty in a run without."""
    graph, config = data.training.graph, context.config
    y, labelled = torch.where(graph.train_mask, graph.y, -1), graph.train_mask
    teacher = teacher_with(parameters, data, context) if parameters else None
    if teacher is not None and context.settings.learn_from != "training":
        with context.timed("pseudo-labels"), torch.no_grad():
            logits = passes.logits(teacher, graph.x, data.training.adjacency, batching)
            set_aside = shadow_half(outside_splits(graph), config.seed, data.site.name)
            if context.settings.learn_from == "pseudo":
                y, labelled = surest_half(graph, logits, set_aside)
            else:
                y, labelled = with_pseudo_labels(graph, logits, context.settings.confidence, set_aside)
    return Prepared(transformed(teacher, data, context), y, labelled)


def teacher_with(
    parameters: Mapping[str, Tensor], data: SiteData, context: RunContext[FedGCConfig]
) -> NodeClassifier:
    """The self-trained model with the given parameters, on the site's device."""
    graph = data.graph
    model = initial_teacher(context.config, graph.x.shape[1], graph.num_classes).to(data.device)
    load_parameters(model, parameters)
    return model


def seen_nodes(data: SiteData, context: Context) -> Bool[Tensor, " nodes"]:
    """The nodes that training may see: where it is inductive, none of test."""
    hidden = data.graph.test_mask
    return ~hidden if context.config.train.inductive else torch.ones_like(hidden)


def transformed(
    teacher: NodeClassifier | None, data: SiteData, context: Context
) -> Float[Tensor, "nodes dim"]:
    """The features by which nodes are condensed, fine-tuned and scored.

    Args:
        teacher: the self-trained model; None in a run without.
        data: of the site.
        context: of the run.
    """
    settings, graph, adjacency = context.settings, data.training.graph, data.training.adjacency
    if teacher is None or not settings.bottleneck:
        return graph.x
    with context.timed("bottleneck"):
        return bottleneck.transformed(
            graph.x,
            adjacency,
            lambda z: teacher(z, adjacency),
            seen_nodes(data, context),
            compression=settings.compression,
            epochs=settings.bottleneck_epochs,
            rate=settings.bottleneck_rate,
            generator=context.generator(data.site.name, "bottleneck", device=data.device),
        )
