"""The client of DANCE: what it does when an instruction comes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from fedtag.client.condense.core.members import Core
from fedtag.client.condense.core.of_round import core_of_round, due
from fedtag.client.context.run_context import RunContext
from fedtag.client.context.site_data import SiteData
from fedtag.client.methods.base import GRAPH, ClientMethod
from fedtag.client.methods.dance.condensation import (
    Forward,
    choose_evidence,
    chosen_views,
    core_graph,
    forward,
    views,
    views_of_all,
)
from fedtag.client.methods.dance.evidence import Evidence
from fedtag.client.methods.dance.keeping import keep_core_evidence, keep_scored_evidence, scored_evidence
from fedtag.client.methods.dance.local_graph import LocalGraph, local_graph
from fedtag.client.methods.dance.node_summaries import FEATURE, refuse_features, summaries_ledger
from fedtag.client.methods.dance.training import CoreLoss
from fedtag.client.prediction.outcome import Prediction, ReleasedModel, load_released
from fedtag.client.train import passes
from fedtag.common.config import RunConfig
from fedtag.common.graph import Adjacency
from fedtag.common.methods.dance.model import DanceModel, Views, initial_dance_model
from fedtag.common.methods.dance.settings import DanceConfig
from fedtag.common.models.classifier import NodeClassifier
from fedtag.common.models.parameters import load_parameters, parameters_of
from fedtag.common.wire.records import Content, prefixed

Context = RunContext[DanceConfig]

EVIDENCE = "evidence"
"""Scores of the fused features of every node, by the backbone on the original links."""


@dataclass(frozen=True)
class CoreExamples:
    """What a round trains on: the core, its evidence and its links, and what the received model gives for them.

    `balanced`: whether labels weigh the same by class.
    """

    local: LocalGraph
    passed: Forward
    core: Core
    evidence: Evidence
    adjacency: Adjacency
    seen: Views
    balanced: bool = False


class Dance(ClientMethod[DanceConfig]):
    """Phases: `train` (score the received model, condense, train), `score`, and `close` (score, keep evidence).

    There are two ways of scoring: `graph`, the backbone on (A, t), and `evidence`, the fused x of every node on A, by
    which the model is trained; the plain one has no loss of its own by default.
    """

    trained_by = EVIDENCE

    def model(self, data: SiteData, context: Context) -> DanceModel:
        return initial_dance_model(context.config, data.graph.x.shape[1], data.graph.num_classes)

    def logits(self, model: Any, data: SiteData, context: Context) -> Mapping[str, Tensor]:
        local = self.local_view(data, context)
        passed = forward(model, local)
        return {GRAPH: passed.logits, EVIDENCE: fused_pass(model, local, passed)[1]}

    def classifier(self, model: DanceModel) -> NodeClassifier:
        return model.backbone

    def examples(
        self, model: Any, data: SiteData, context: Context
    ) -> tuple[CoreExamples | None, dict[str, Any]]:
        """The core of the round; its evidence is written at the site."""
        local = self.local_view(data.training, context)
        with context.timed("condense"):
            passed = forward(model, local)
            core = core_of_round(data, context, context.settings, passed.g, passed.logits)
            condensed = {"core": core.nodes.numel(), "nodes": local.graph.num_nodes}
            if not bool(local.graph.train_mask[core.nodes].any()):
                return None, {"condensation": condensed}
            selector, selecting = self.selector(model, local, passed, data, context)
            if selector is model:
                evidence, seen, found = chosen_views(selector, local, passed, core.nodes)
            else:
                evidence = choose_evidence(selector, local, selecting, core.nodes)
                seen, found = views(model, local, passed.g, evidence)
            with torch.no_grad():
                x = model.fuse(seen)
            adjacency, made = core_graph(context.settings, local, evidence, x)
            condensed |= {"links": adjacency.edge_index.shape[1], **made}
            if context.settings.text_refresh != 1:
                # For rounds in which the evidence is not refreshed.
                context.memory.remember(prefixed("selector", parameters_of(selector)), {})
            keep_core_evidence(model, evidence, x, found, adjacency, data, context)
        return CoreExamples(local, passed, core, evidence, adjacency, seen), {"condensation": condensed}

    def selector(
        self, model: DanceModel, local: LocalGraph, passed: Forward, data: SiteData, context: Context
    ) -> tuple[DanceModel, Forward]:
        """The model that chooses the evidence, and its pass: the received one, or that of the last text refresh."""
        remembered = context.memory.remembered()
        if remembered is None or due(context.round, context.settings.text_refresh):
            return model, passed
        selector = self.model(data, context).to(data.device)
        load_parameters(selector, Content(remembered.tensors).section("selector"))
        return selector, forward(selector, local)

    def loss(self, model: Any, examples: CoreExamples, generator: torch.Generator) -> Callable[[], Tensor]:
        one, config = examples, examples.local.config
        return CoreLoss(
            model,
            one.local,
            one.passed.g,
            one.core,
            one.evidence,
            one.adjacency,
            config,
            generator,
            one.seen,
            one.balanced,
        )

    def balanced(self, examples: CoreExamples, context: Context) -> CoreExamples:
        return replace(examples, balanced=True)

    def local_scores(self, model: Any, data: SiteData, context: Context) -> dict[str, Tensor]:
        """None: another evidence of every node would take about as long as the training."""
        return {}

    def close(self, data: SiteData, context: Context) -> Content:
        """Write the evidence of every node for the last model and for the best one so far; one is released."""
        values = context.content.values
        last, best = values["last_round"], values.get("best_round")
        candidates = {last: context.content.section("average") or self.start(data, context)}
        if best is not None:
            candidates[best] = context.content.section("best")
        local = self.local_view(data, context)
        ledgers = [summaries_ledger(local.neighbours, local.second_neighbours, data, context)]
        for round_number, parameters in candidates.items():
            model = self.with_parameters(parameters, data, context)
            # Which of the two is released is known only when all clients have scored the last one.
            ledgers.append(keep_scored_evidence(model, local, round_number, data, context))
        tokens: dict[str, int] = {}
        for ledger in ledgers:
            for name, count in vars(ledger).items() if ledger is not None else ():
                tokens[name] = tokens.get(name, 0) + count
        return Content({}, {"tokens": tokens} if tokens else {})

    def predict(
        self, released: ReleasedModel, data: SiteData, context: Context, evidence: bool = False
    ) -> Prediction:
        """Logits of every node and, if asked for, the evidence of each, made as at the end of a run.

        On the path `graph` the evidence is that of the other path, whose prediction the packs name.
        """
        model = load_released(self.model(data, context), released).to(data.device)
        fused = released.path != GRAPH
        local = local_graph(data, context, fused or evidence, self.batching(data, context))
        passed = forward(model, local)
        if not (fused or evidence):
            return Prediction(passed.logits, hidden=passed.g)
        if not evidence:
            hidden, logits = fused_pass(model, local, passed)
            return Prediction(logits, hidden=hidden)
        hidden, logits, packs = scored_evidence(model, local, passed, released.round, data)
        if not fused:
            hidden, logits = passed.g, passed.logits
        return Prediction(logits, packs, hidden=hidden)

    def local_view(self, data: SiteData, context: Context) -> LocalGraph:
        """The site's graph for DANCE, in full or as training may see it; made once in a run."""
        batching = self.batching(data, context)
        return context.cached(data, "dance graph", lambda: local_graph(data, context, batching=batching))

    def check(self, data: SiteData, config: RunConfig) -> None:
        if config.own(DanceConfig).summaries == FEATURE:
            refuse_features(data)


@torch.no_grad()
def fused_pass(model: DanceModel, local: LocalGraph, passed: Forward) -> tuple[Tensor, Tensor]:
    """The backbone on A with the fused features of every node: representation and logits."""
    _, seen, _ = views_of_all(model, local, passed)
    return passes.hidden_and_logits(model.backbone, model.fuse(seen), local.adjacency, local.batching)


METHOD = Dance()
