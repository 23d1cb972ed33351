"""The client of DANCE: what it does when an instruction comes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from fedtag.client.condense.core.of_round import core_of_round, due
from fedtag.client.methods.dance.condensation import (
    Forward,
    choose_evidence,
    chosen_views,
    core_graph,
    forward,
    views,
)
from fedtag.client.methods.dance.keeping import keep_core_evidence, keep_scored_evidence
from fedtag.client.methods.dance.local_graph import LocalGraph, local_graph
from fedtag.client.methods.dance.node_summaries import summaries_ledger
from fedtag.client.methods.dance.prediction import predicted
from fedtag.client.methods.dance.training import CoreLoss
from fedtag.client.train.optimisation import clock_limit, local_epochs, optimise, optimiser, scheduled_rate
from fedtag.client.train.scoring import score_tensors, subset_tallies
from fedtag.client.train.statistics import client_statistics, validation_accuracy
from fedtag.common.methods.dance.model import DanceModel, initial_dance_model
from fedtag.common.methods.dance.settings import DanceConfig
from fedtag.common.models.parameters import (
    Parameters,
    difference,
    fingerprint,
    load_parameters,
    parameters_of,
)
from fedtag.common.randomness import torch_generator
from fedtag.common.wire.records import Content, Instruction, prefixed

if TYPE_CHECKING:
    from fedtag.client.context.session import Session
    from fedtag.client.prediction.outcome import Prediction, ReleasedModel


class Dance:
    """Phases: `train` (score the received model, condense, train), `score`, and `close` (score, keep evidence)."""

    def respond(self, instruction: Instruction, session: Session) -> Content:
        work = Work(instruction, session)
        tensors: dict[str, Tensor] = {}
        values: dict[str, object] = {"sizes": session.sizes}
        if instruction.content.values.get("evaluate"):
            tensors |= prefixed("scores", work.scores(work.scored_parameters()))
        if instruction.phase == "train":
            update, told = work.train()
            tensors |= update
            values |= told
        if instruction.phase == "close":
            values |= work.keep_evidence()
        return Content(tensors, values)

    def predict(self, released: ReleasedModel, session: Session, evidence: bool) -> Prediction:
        return predicted(session, released, evidence)


class Work:
    """One instruction at one site."""

    def __init__(self, instruction: Instruction, session: Session) -> None:
        self.instruction = instruction
        self.session = session
        self.config = session.config
        self.received = instruction.content.section("model")
        # Values are loaded before every use, so that the module itself may last; only round 1 needs initial ones.
        build = self._fresh_model
        self.model = session.kept("dance model", build) if self.received else build()
        self.start: Parameters = dict(self.received) or parameters_of(self.model)

    def _fresh_model(self) -> DanceModel:
        graph = self.session.graph
        return initial_dance_model(self.config, graph.x.shape[1], graph.num_classes).to(self.session.device)

    def _scoring_graph(self) -> LocalGraph:
        session = self.session
        return session.kept("dance graph", lambda: local_graph(session, session.graph, session.adjacency))

    def _training_graph(self) -> LocalGraph:
        session = self.session
        if not self.config.train.inductive:
            return self._scoring_graph()
        return session.kept(
            "dance training graph",
            lambda: local_graph(session, session.training_graph, session.training_adjacency),
        )

    def scored_parameters(self) -> Parameters:
        """The running average where the server keeps one, else the global model."""
        return self.instruction.content.section("average") or self.start

    def scores(self, parameters: Parameters) -> dict[str, Tensor]:
        """Counts of both scoring paths on the full local graph: (A, t), and the fused x of every node on A."""
        session, model = self.session, self.model
        load_parameters(model, parameters)
        local = self._scoring_graph()
        with session.timed("score"), torch.no_grad():
            passed = forward(model, local)
            logits = evidence_logits(model, local, passed)
            return score_tensors("graph", subset_tallies(passed.logits, local.graph)) | score_tensors(
                "evidence", subset_tallies(logits, local.graph)
            )

    def train(self) -> tuple[dict[str, Tensor], dict[str, object]]:
        """Condense and train on the received model; the update, and what the server is told."""
        session, config = self.session, self.config
        load_parameters(self.model, self.start)
        told: dict[str, object] = {}
        if not self.received:
            told["initial"] = fingerprint(self.start)
        local = self._training_graph()
        with session.timed("condense"):
            passed = forward(self.model, local)
            core = core_of_round(
                session, config.own(DanceConfig), passed.g, passed.logits, self.instruction.round
            )
            condensed = {"core": core.nodes.numel(), "nodes": local.graph.num_nodes}
            told["condensation"] = condensed
            if not bool(local.graph.train_mask[core.nodes].any()):
                return {}, told
            selector, selecting = self._selector(local, passed)
            if selector is self.model:
                evidence, seen, found = chosen_views(selector, local, passed, core.nodes)
            else:
                evidence = choose_evidence(selector, local, selecting, core.nodes)
                seen, found = views(self.model, local, passed.g, evidence)
            with torch.no_grad():
                x = self.model.fuse(seen)
            adjacency, fell_back = core_graph(config.own(DanceConfig), local, evidence, x)
            told["condensation"] = {
                **condensed,
                "links": adjacency.edge_index.shape[1],
                "fell_back": fell_back,
            }
            self._remember(selector)
            keep_core_evidence(session, self.model, evidence, x, found, adjacency, self.instruction.round)
        generator = torch_generator(
            config.seed, self.instruction.round, session.site.name, "dropout", device=session.device
        )
        loss = CoreLoss(
            self.model, local, passed.g, core, evidence, adjacency, config.own(DanceConfig), generator, seen
        )
        train, number = config.train, self.instruction.round
        rate = scheduled_rate(train.learning_rate, train.schedule, train.final_rate, number, config.rounds)
        stepper = optimiser(
            self.model.parameters(), train.optimizer, rate, train.momentum, train.weight_decay
        )
        until = clock_limit(self.instruction.content.values.get("training_seconds"))
        with session.timed("train"):
            accuracy = None
            if train.accuracy_threshold:
                accuracy = validation_accuracy(evidence_logits(self.model, local, passed), local.graph)
            epochs = local_epochs(train.epochs, train.extra_epochs, train.accuracy_threshold, accuracy)
            training = optimise(self.model, loss, stepper, epochs, train.prox_mu, until)
        told["training"] = vars(training)
        if config.aggregation.weights == "distribution-aware":
            with session.timed("statistics"):
                # The path by which the model is trained; the plain one has no loss of its own by default.
                logits = evidence_logits(self.model, local, forward(self.model, local))
                told["statistics"] = client_statistics(session, logits, number)
        return prefixed("update", difference(parameters_of(self.model), self.start)), told

    def _selector(self, local: LocalGraph, passed: Forward) -> tuple[DanceModel, Forward]:
        """The model that chooses the evidence, and its pass: the received one, or that of the last text refresh."""
        remembered = self.session.remembered()
        if remembered is None or due(self.instruction.round, self.config.own(DanceConfig).text_refresh):
            return self.model, passed
        selector = self._fresh_model()
        load_parameters(selector, Content(remembered.tensors).section("selector"))
        return selector, forward(selector, local)

    def _remember(self, selector: DanceModel) -> None:
        """Keep the selector for rounds in which the evidence is not refreshed."""
        if self.config.own(DanceConfig).text_refresh != 1:
            self.session.remember(prefixed("selector", parameters_of(selector)), {})

    def keep_evidence(self) -> dict[str, object]:
        """Write the evidence of every node for the last model and for the best one so far; one is released."""
        values = self.instruction.content.values
        last, best = values["last_round"], values.get("best_round")
        candidates = {last: self.scored_parameters()}
        if best is not None:
            candidates[best] = self.instruction.content.section("best")
        local = self._scoring_graph()
        ledgers = [summaries_ledger(self.session, local.neighbours, local.second_neighbours)]
        for round_number, parameters in candidates.items():
            load_parameters(self.model, parameters)
            # Which of the two is released is known only when all clients have scored the last one.
            ledgers.append(keep_scored_evidence(self.session, self.model, local, round_number))
        tokens: dict[str, int] = {}
        for ledger in ledgers:
            for name, count in vars(ledger).items() if ledger is not None else ():
                tokens[name] = tokens.get(name, 0) + count
        return {"tokens": tokens} if tokens else {}


@torch.no_grad()
def evidence_logits(model: DanceModel, local: LocalGraph, passed: Forward) -> Tensor:
    """The backbone on A with the fused features of every node."""
    rows = torch.arange(local.graph.num_nodes, device=local.graph.x.device)
    _, seen, _ = chosen_views(model, local, passed, rows)
    return model.backbone(model.fuse(seen), local.adjacency)
