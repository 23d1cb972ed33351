"""The client of FedGC: what it does when an instruction comes (papers/fedgc.txt)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional

from fedtag.client.condense.synthetic.sampling import ClassSampler
from fedtag.client.methods.fedgc.class_sums import feature_sums, gradient_sums, told_counts
from fedtag.client.methods.fedgc.preparation import (
    Prepared,
    prepared,
    prepared_by,
    received_teacher,
)
from fedtag.client.methods.fedgc.tuning import fine_tune
from fedtag.client.parts.neighbour_exchange.exchange import take_part
from fedtag.client.parts.neighbour_exchange.features import exchanged
from fedtag.client.prediction.outcome import Prediction, load_released
from fedtag.client.train.classifier import fresh_backbone, train_backbone
from fedtag.client.train.examples import Examples
from fedtag.client.train.scoring import score_tensors, subset_tallies
from fedtag.common.methods.fedgc.model import initial_teacher
from fedtag.common.methods.fedgc.names import (
    CONDENSE_PHASE,
    CONDENSED,
    COUNTS,
    FEATURES,
    GRADIENT,
    GRAPH,
    LABELLED,
    MATCHED,
    MOMENTS,
    NODES,
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
from fedtag.common.models.classifier import NodeClassifier
from fedtag.common.models.parameters import difference, fingerprint, load_parameters, parameters_of
from fedtag.common.parts.neighbour_exchange.names import PHASES as EXCHANGE
from fedtag.common.randomness import torch_generator
from fedtag.common.synthetic.gradients import initial_weights, logits
from fedtag.common.wire.records import Content, Instruction, prefixed

if TYPE_CHECKING:
    from fedtag.client.context.session import Session
    from fedtag.client.prediction.outcome import ReleasedModel

LOCAL = "local"


class FedGC:
    """Phases: `train` (self-training), `condense` (class-wise gradients), `close`; all of them score.

    What is scored on the client's full local graph, each in a column of its own:

    - `graph`: after rounds of self-training, the self-trained model.
    - `condensed`: after the others, the model that the server trained on the condensed graph.
    - `tuned`: that model after some steps on the client's own graph.
    """

    def respond(self, instruction: Instruction, session: Session) -> Content:
        if instruction.phase in EXCHANGE:
            return take_part(instruction, session)
        work = Work(instruction, session)
        tensors: dict[str, Tensor] = {}
        values: dict[str, Any] = {"sizes": session.sizes}
        if instruction.content.values.get("evaluate"):
            tensors |= prefixed("scores", work.scores())
        if instruction.phase == TRAIN_PHASE:
            update, told = work.teach()
            tensors |= update
            values |= told
        if instruction.phase == CONDENSE_PHASE:
            # Also where there is nothing to tell: what it is made of does not come a second time.
            ready = prepared(session, instruction)
            if session.sizes["train_nodes"]:
                update, told = work.sums(ready)
                tensors |= prefixed("update", update)
                values |= told
        return Content(tensors, values)

    def predict(self, released: ReleasedModel, session: Session, evidence: bool) -> Prediction:
        """By the released model; with fine-tuning it is first fitted to the folder, where that has training nodes.

        With a bottleneck, features are first transformed anew by the self-trained model, which is released, too; the
        seed and the name of a site make the same of the same features.
        """
        teacher = Content(released.parameters).section(TEACHER)
        own = {name: value for name, value in released.parameters.items() if "/" not in name}
        model = load_released(fresh_backbone(session), replace(released, parameters=own))
        ready = prepared_by(session, teacher)
        if released.path == TUNED:
            fine_tune(session, model, ready, released.round)
        with torch.no_grad():
            return Prediction(model(ready.x, session.adjacency))


class Work:
    """One instruction at one site."""

    def __init__(self, instruction: Instruction, session: Session) -> None:
        self.instruction = instruction
        self.session = session
        self.config = session.config
        self.received = instruction.content.section("model")

    def scores(self) -> dict[str, Tensor]:
        """Counts of the model of the round before."""
        session, number = self.session, self.instruction.round
        if teaches(number - 1, self.config):
            parameters = self.received or self.instruction.content.section(TEACHER)
            return self._counts(GRAPH, received_teacher(session, parameters), exchanged(session))
        ready = prepared(session, self.instruction)
        model = session.kept("student", lambda: fresh_backbone(session))
        load_parameters(model, self.received)
        found = self._counts(CONDENSED, model, ready.x)
        if self.config.own(FedGCConfig).fine_tune_steps:
            fine_tune(session, model, ready, number - 1)
            found |= self._counts(TUNED, model, ready.x)
        return found

    def teach(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """A round of FedAvg on the training nodes; the update, and what the server is told."""
        session, told = self.session, self.instruction.content.values
        graph, x = session.training_graph, exchanged(session)
        values: dict[str, Any] = {}
        if not self.received:
            fresh = initial_teacher(self.config, x.shape[1], graph.num_classes)
            self.received = parameters_of(fresh)
            values["initial"] = fingerprint(self.received)
        model = received_teacher(session, self.received)
        examples = Examples(x, session.training_adjacency, graph.y, graph.train_mask)
        training = train_backbone(
            session, model, examples, self.instruction.round, told.get("training_seconds")
        )
        if training is None:
            return {}, values
        values["training"] = vars(training)
        tensors = prefixed("update", difference(parameters_of(model), self.received))
        if told.get("evaluate_local"):
            tensors |= prefixed("scores", self._counts(LOCAL, model, x))
        return tensors, values

    def sums(self, ready: Prepared) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Sums over classes, in the unit in which they are averaged; and what the server is told.

        Under secure summation a class counts if there are enough labelled nodes of it in all.
        """
        session, config, told = self.session, self.config, self.instruction.content.values
        graph = ready.graph(session)
        settings, classes = config.own(FedGCConfig), graph.num_classes
        labelled = torch.bincount(graph.y[graph.train_mask], minlength=classes)
        trained = torch.bincount(
            session.training_graph.y[session.training_graph.train_mask], minlength=classes
        )
        enough = told.get(MATCHED) if config.privacy.secure_aggregation else None
        counts = told_counts(
            labelled,
            settings.min_class_count,
            None if enough is None else torch.tensor(enough, device=labelled.device),
        )
        with session.timed("gradients"):
            theta = torch.Generator().manual_seed(told[THETA])
            weights = initial_weights(
                settings.matching_model,
                graph.x.shape[1],
                settings.hidden,
                classes,
                theta,
                session.device,
            )
            batch = self._sampler(ready).batch()
            sums = {
                f"{GRADIENT}/{place}": value
                for place, value in enumerate(gradient_sums(weights, batch, counts))
            }
            loss = functional.cross_entropy(logits(weights, batch), batch.y)
        sums |= {COUNTS: counts, LABELLED: labelled, TRAINED: trained}
        sums[NODES] = torch.tensor([graph.num_nodes])
        if told.get(MOMENTS):
            rows = graph.train_mask
            sums[FEATURES], sums[SQUARES] = feature_sums(graph.x[rows], graph.y[rows], counts)
        scale = unit(config.aggregation.weights, session.sizes["train_nodes"])
        update = {name: (value.double() * scale).float().cpu() for name, value in sums.items()}
        return update, {"training": {"loss": float(loss), "steps": 0}}

    def _sampler(self, ready: Prepared) -> ClassSampler:
        """Draws the class subgraphs of the round; where no budget binds, those of all rounds are one and the same."""
        settings, session = self.config.own(FedGCConfig), self.session
        generator = torch_generator(
            self.config.seed, self.instruction.round, session.site.name, "class subgraphs"
        )

        def fresh() -> ClassSampler:
            graph = ready.graph(session)
            return ClassSampler(graph, settings.class_budget, settings.neighbours, generator)

        version = self.instruction.content.values.get(TEACHER)
        kept = session.kept(f"class subgraphs {version}", fresh)
        return kept if kept.exact else fresh()

    def _counts(self, path: str, model: NodeClassifier, x: Tensor) -> dict[str, Tensor]:
        with self.session.timed("score"), torch.no_grad():
            said = model(x, self.session.adjacency)
            return score_tensors(path, subset_tallies(said, self.session.graph))
