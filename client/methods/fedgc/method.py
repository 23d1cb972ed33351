"""The client of FedGC: what it does when an instruction comes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from fedtag.client.attacks.population import Population
from fedtag.client.attacks.targets import Target
from fedtag.client.attacks.transcript import Seen, Transcript
from fedtag.client.condense.synthetic.sampling import ClassSampler
from fedtag.client.context.run_context import RunContext
from fedtag.client.context.site_data import SiteData
from fedtag.client.methods.base import ClientMethod, Handler
from fedtag.client.methods.fedgc.class_sums import feature_sums, gradient_sums, told_counts
from fedtag.client.methods.fedgc.preparation import Prepared, prepared, prepared_by, seen_nodes
from fedtag.client.methods.fedgc.private_sums import clipped_sums, noise_share, noised
from fedtag.client.methods.fedgc.targets import GRAPH as GRAPH_TENSORS
from fedtag.client.methods.fedgc.targets import asked_of
from fedtag.client.methods.fedgc.transcript import transcripts
from fedtag.client.methods.fedgc.tuning import fine_tune
from fedtag.client.methods.side import Sites
from fedtag.client.prediction.outcome import Prediction, ReleasedModel, load_released
from fedtag.client.train import passes
from fedtag.common.config import RunConfig
from fedtag.common.methods.fedgc.model import initial_teacher
from fedtag.common.methods.fedgc.names import (
    CONDENSE_PHASE,
    CONDENSED,
    COUNTS,
    FEATURES,
    GRADIENT,
    LABELLED,
    MATCHED,
    MOMENTS,
    NODES,
    SEEN,
    SQUARES,
    TEACHER,
    THETA,
    TRAIN_PHASE,
    TRAINED,
    TUNED,
    unit,
)
from fedtag.common.methods.fedgc.settings import FedGCConfig
from fedtag.common.methods.fedgc.stages import teaches
from fedtag.common.methods.fedgc.student import student
from fedtag.common.models.assembly import initial_backbone
from fedtag.common.models.classifier import NodeClassifier
from fedtag.common.models.parameters import Parameters, load_parameters
from fedtag.common.numerics.noise import entropy_generator
from fedtag.common.synthetic.condensed import Condensed
from fedtag.common.synthetic.gradients import Weights, initial_weights, logits
from fedtag.common.wire.records import Content, prefixed

Context = RunContext[FedGCConfig]

FIRST_ROUND = 1
"""A model of a condensed graph comes of no rounds; it is fitted as if it came of one."""


class FedGC(ClientMethod[FedGCConfig]):
    """Phases: `train` (self-training), `condense` (class-wise gradients), `close`; all of them score.

    What is scored on the client's full local graph, each in a column of its own:

    - `graph`: after rounds of self-training, the self-trained model.
    - `condensed`: after the others, the model that the server trained on the condensed graph.
    - `tuned`: that model after some steps on the client's own graph.
    """

    seen_phases = (TRAIN_PHASE, CONDENSE_PHASE)

    def handlers(self) -> Mapping[str, Handler]:
        return {**super().handlers(), CONDENSE_PHASE: self.condense}

    def model(self, data: SiteData, context: Context) -> NodeClassifier:
        """That of self-training."""
        return initial_teacher(context.config, data.graph.x.shape[1], data.graph.num_classes)

    def start(self, data: SiteData, context: Context) -> Parameters:
        teacher = context.content.section(TEACHER)
        return teacher if teacher and not context.content.section("model") else super().start(data, context)

    def scores(self, data: SiteData, context: Context) -> dict[str, Tensor]:
        """Counts of the model of the round before."""
        if teaches(context.round - 1, context.config):
            return super().scores(data, context)
        batching = self.batching(data, context)
        ready = prepared(batching, data, context)
        student = context.cached(data, "student", lambda: self.student(data, context))
        load_parameters(student, context.content.section("model"))
        tuned = bool(context.settings.fine_tune_steps)
        found = self.counted(CONDENSED, student, ready, data, context)
        if tuned:
            fine_tune(student, ready, context.round - 1, batching, data, context)
            found |= self.counted(TUNED, student, ready, data, context)
        return found

    def condense(self, data: SiteData, context: Context) -> Content:
        """Sums over classes, from clients that have training nodes."""
        # Also where there is nothing to tell: what it is made of does not come a second time.
        ready = prepared(self.batching(data, context), data, context)
        if context.settings.dp_mode != "off":
            return Content(prefixed("update", private_sums(ready, data, context)))
        if not data.sizes["train_nodes"]:
            return Content()
        update, reported = class_sums(ready, data, context)
        return Content(prefixed("update", update), reported)

    def predict(
        self, released: ReleasedModel, data: SiteData, context: Context, evidence: bool = False
    ) -> Prediction:
        """By the released model; with fine-tuning it is first fitted to the folder, where that has training nodes.

        With a bottleneck, features are first transformed anew by the self-trained model, which is released, too; the
        seed and the name of a site make the same of the same features.
        """
        teacher = Content(released.parameters).section(TEACHER)
        own = {name: value for name, value in released.parameters.items() if "/" not in name}
        model = load_released(self.student(data, context), replace(released, parameters=own))
        batching = self.batching(data, context)
        ready = prepared_by(teacher, batching, data, context)
        if released.path == TUNED:
            fine_tune(model, ready, released.round, batching, data, context)
        with torch.no_grad():
            hidden, logits = passes.hidden_and_logits(model, ready.x, data.adjacency, batching)
            return Prediction(logits, hidden=hidden)

    def audited_path(self, path: str) -> str:
        """A site fits the model to its own nodes after the release, and gives nobody what comes of it."""
        return CONDENSED if path == TUNED else path

    def targets(
        self, tensors: Mapping[str, Tensor], known: Mapping[str, Tensor], sites: Sites, people: Population
    ) -> Sequence[Target]:
        return asked_of(tensors, known, sites, people)

    def transcripts(self, seen: Sequence[Seen], sites: Sites, people: Population) -> Sequence[Transcript]:
        return transcripts(seen, sites, people)

    def trained_on(self, tensors: Mapping[str, Tensor], config: RunConfig, classes: int) -> NodeClassifier:
        own = config.own(FedGCConfig)
        condensed = Condensed.from_tensors(Content(tensors).section(GRAPH_TENSORS), copies=False)
        steps, rate = own.model_steps, own.model_rate
        return student(condensed, config, classes, steps, rate, own.weight_decay, config.seed)

    def fits(
        self, model: nn.Module, tensors: Mapping[str, Tensor], data: SiteData, context: Context
    ) -> Iterator[tuple[str, Tensor]]:
        classifier = cast(NodeClassifier, model)
        batching = self.batching(data, context)
        ready = prepared_by(Content(tensors).section(TEACHER), batching, data, context)
        with torch.no_grad():
            yield CONDENSED, classifier(ready.x, data.adjacency)
        if context.settings.fine_tune_steps and data.sizes["train_nodes"]:
            fine_tune(classifier, ready, FIRST_ROUND, batching, data, context)
            with torch.no_grad():
                yield TUNED, classifier(ready.x, data.adjacency)

    def student(self, data: SiteData, context: Context) -> NodeClassifier:
        """The run's backbone, which is trained on the condensed graph."""
        config, graph = context.config, data.graph
        model = initial_backbone(config, graph.x.shape[1], graph.num_classes)
        return model.to(data.device)

    def counted(
        self, path: str, model: NodeClassifier, ready: Prepared, data: SiteData, context: Context
    ) -> dict[str, Tensor]:
        """Counts of a model on the features by which it is scored."""
        with context.timed("score"), torch.no_grad():
            said = passes.logits(model, ready.x, data.adjacency, self.batching(data, context))
            return self.counts({path: said}, data, context)


def class_sums(ready: Prepared, data: SiteData, context: Context) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Sums over classes, in the unit in which they are averaged; and what the server is told of them.

    Under secure summation a class counts if there are enough labelled nodes of it in all.
    """
    config, settings, asked = context.config, context.settings, context.content.values
    graph, seen = ready.graph(data), data.training.graph
    classes = graph.num_classes
    labelled, trained = (
        torch.bincount(graph.y[rows], minlength=classes)
        for rows in (graph.train_mask, graph.train_mask & seen.train_mask)
    )
    enough = asked.get(MATCHED) if config.privacy.secure_aggregation else None
    counts = told_counts(
        labelled,
        settings.min_class_count,
        None if enough is None else torch.tensor(enough, device=labelled.device),
    )
    with context.timed("gradients"):
        weights = matching_weights(data, context)
        batch = class_sampler(ready, data, context).batch()
        sums = {
            f"{GRADIENT}/{place}": value for place, value in enumerate(gradient_sums(weights, batch, counts))
        }
        # Of no labelled node there is no loss.
        loss = functional.cross_entropy(logits(weights, batch), batch.y) if batch.y.numel() else None
    sums |= {COUNTS: counts, LABELLED: labelled, TRAINED: trained, **node_sums(ready, data, context)}
    return in_unit(sums, data, context), {} if loss is None else {
        "training": {"loss": float(loss), "steps": 0}
    }


def private_sums(ready: Prepared, data: SiteData, context: Context) -> dict[str, Tensor]:
    """The same with noise for single training nodes; nothing of a site whose part does not count.

    Counts are asked for once: whose labels are learned does not change.
    """
    settings, table = context.settings, context.sum_weights
    if not (data.sizes["train_nodes"] if table is None else table.get(data.site.name)):
        return {}
    share = noise_share(context)
    with context.timed("gradients"):
        weights, counted = matching_weights(data, context), bool(context.content.values.get(MOMENTS))
        sums = clipped_sums(weights, ready.graph(data), data.training.adjacency, settings.dp_clip, counted)
    with context.timed("noise"):
        sums = noised(sums, settings.dp_clip, share, entropy_generator())
    return in_unit({**sums, **node_sums(ready, data, context)}, data, context)


def matching_weights(data: SiteData, context: Context) -> Weights:
    """θ of the exchange."""
    settings, graph = context.settings, data.graph
    theta = torch.Generator().manual_seed(context.content.values[THETA])
    return initial_weights(
        settings.matching_model, graph.x.shape[1], settings.hidden, graph.num_classes, theta, data.device
    )


def node_sums(ready: Prepared, data: SiteData, context: Context) -> dict[str, Tensor]:
    """The number of nodes and, where they are asked for, sums of features: the same whoever is labelled."""
    sums = {NODES: torch.tensor([ready.x.shape[0]])}
    if context.content.values.get(MOMENTS):
        rows = seen_nodes(data, context)
        found = feature_sums(ready.x, rows, context.settings.min_class_count)
        sums |= dict(zip((SEEN, FEATURES, SQUARES), found, strict=True))
    return sums


def in_unit(sums: Mapping[str, Tensor], data: SiteData, context: Context) -> dict[str, Tensor]:
    """Sums as they are averaged over clients."""
    scale = unit(context.config.aggregation.weights, data.sizes["train_nodes"])
    return {name: (value.double() * scale).float().cpu() for name, value in sums.items()}


def class_sampler(ready: Prepared, data: SiteData, context: Context) -> ClassSampler:
    """Draws the class subgraphs of the round; where no budget binds, those of all rounds are one and the same."""
    settings = context.settings
    generator = context.generator(context.round, data.site.name, "class subgraphs")

    def fresh() -> ClassSampler:
        return ClassSampler(ready.graph(data), settings.class_budget, settings.neighbours, generator)

    version = context.content.values.get(TEACHER)
    kept = context.cached(data, f"class subgraphs {version}", fresh)
    return kept if kept.exact else fresh()


METHOD = FedGC()
