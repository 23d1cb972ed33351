"""The client of DA-DFGAS: what it does when an instruction comes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Bool
from torch import Tensor, nn

from fedtag.client.context.run_context import RunContext
from fedtag.client.context.site_data import SiteData
from fedtag.client.methods.base import ClientMethod, Handler
from fedtag.client.methods.da_dfgas.networks import (
    convinces,
    keep_architecture,
    kept_architecture,
    network,
    own_architecture,
    own_logits,
    shared_architecture,
)
from fedtag.client.methods.da_dfgas.training import logits_of, train_network, validation_halves
from fedtag.client.prediction.outcome import Prediction, ReleasedModel, load_released
from fedtag.client.train import passes
from fedtag.client.train.batches import Batching
from fedtag.client.train.optimisation import Training
from fedtag.common.errors import RunError
from fedtag.common.methods.da_dfgas.course import first_supernet, stages_of, tells_architectures
from fedtag.common.methods.da_dfgas.settings import DaDfgasConfig
from fedtag.common.models.classifier import NodeClassifier
from fedtag.common.models.parameters import Parameters, parameters_of
from fedtag.common.models.supernet.architecture import Architecture
from fedtag.common.models.supernet.documents import documents
from fedtag.common.models.supernet.logits import is_architecture
from fedtag.common.models.supernet.network import always_used, parameter_count, used_names
from fedtag.common.models.supernet.stages import OWN, SHARED, SUPERNET, Stages
from fedtag.common.models.supernet.supernet import Supernet
from fedtag.common.secure.phases import USE
from fedtag.common.wire.records import Content, prefixed

Context = RunContext[DaDfgasConfig]


class DaDfgas(ClientMethod[DaDfgasConfig]):
    """Phases: `train` (score the received model, then search or train), `close` (score it), and under secure
    aggregation, once, `use` (count among those that use a tensor).

    What is scored on the client's full local graph, each in a column of its own:

    - `supernet`: while the architecture is searched, the received supernet with its global architecture logits.
    - `own`: in retraining, the received, merged weights in the client's own architecture.
    - `shared`: in retraining, the received weights in the architecture of the global logits.
    - `local`: the personal model, that is what local training has just led to: the supernet with the client's own
      logits, or the network that it trains.

    Half B of the validation nodes judges, in scores and in ACC; half A is what the architecture was searched on. With a
    condenser the weights are trained on what it makes of the graph; all else is as without.
    """

    def handlers(self) -> Mapping[str, Handler]:
        return {**super().handlers(), USE: self.use}

    def may_lack(self, name: str, context: Context) -> bool:
        """In retraining, all but what every architecture uses, where clients have architectures of their own."""
        retrains = context.phase == USE or not searches(context, context.round)
        return context.settings.personal and retrains and not always_used(name)

    def model(self, data: SiteData, context: Context) -> Supernet:
        return first_supernet(context.config, data.graph.x.shape[1], data.graph.num_classes)

    def judges(self, data: SiteData, context: Context) -> Bool[Tensor, " nodes"]:
        return validation_halves(data, context).judged

    def loaded(self, data: SiteData, context: Context) -> Any:
        """The supernet, or after the search the network that the client trains, with the received weights."""
        if searches(context, context.round):
            return super().loaded(data, context)
        start = self.start(data, context)
        return network(own_architecture(context, start), start, data, context)

    def scores(self, data: SiteData, context: Context) -> dict[str, Tensor]:
        """Counts of the model of the round before: the received one, the running average, or what the search left."""
        content, start, settings = context.content, self.start(data, context), context.settings
        scored = content.section("searched") or content.section("average") or start
        models: dict[str, NodeClassifier] = {}
        if searches(context, context.round - 1):
            models[SUPERNET] = self.with_parameters(scored, data, context)
        else:
            if settings.personal:
                models[OWN] = network(own_architecture(context, start), scored, data, context)
            if not settings.personal or settings.scoring != OWN:
                models[SHARED] = network(shared_architecture(context, start), scored, data, context)
        batching = self.batching(data, context)
        with context.timed("score"):
            logits = {path: logits_of(model, data, batching) for path, model in models.items()}
            return self.counts(logits, data, context)

    def examples(self, model: Any, data: SiteData, context: Context) -> tuple[Any | None, dict[str, Any]]:
        """As of every method; with them goes the architecture of the network that is trained."""
        examples, reported = super().examples(model, data, context)
        if searches(context, context.round):
            return examples, reported
        architecture = own_architecture(context, self.start(data, context))
        return examples, {**reported, **reported_network(model, architecture, context)}

    def trained(self, model: Any, examples: Any, data: SiteData, context: Context) -> Training:
        """Search or retraining; a client that lags behind works longer, and may go on from its own weights."""
        longer = data.site.name in context.content.values.get("longer", ())
        if longer and context.settings.keep_local:
            resume(model, context)
        batching = self.batching(data, context)
        return train_network(model, examples, stages(context), longer, batching, data, context)

    def after_training(
        self, model: Any, start: Parameters, training: Training, data: SiteData, context: Context
    ) -> Content:
        remember(parameters_of(model), start, self.batching(data, context), data, context)
        return super().after_training(model, start, training, data, context)

    def use(self, data: SiteData, context: Context) -> Content:
        """An update that says by its names what the client will train; the numbers in it mean nothing.

        It never leaves the site: what does is one masked coordinate a tensor.
        """
        trains = bool(data.training.graph.train_mask.any())
        names = used_names(own_architecture(context, self.start(data, context))) if trains else frozenset()
        return Content(prefixed("update", {name: torch.zeros(()) for name in sorted(names)}))

    def predict(
        self, released: ReleasedModel, data: SiteData, context: Context, evidence: bool = False
    ) -> Prediction:
        """By the released weights in the site's own architecture; in that of all where it is not at hand.

        Raises:
            RunError: the released supernet has no such network.
        """
        data, batching = self.placed(data, context), self.batching(data, context)
        supernet = load_released(self.model(data, context).to(data.device), released)
        if released.path == SUPERNET:
            return predicted(supernet, SUPERNET, data, batching)
        own = kept_architecture(context) if released.path == OWN else None
        architecture = own or shared_architecture(context, released.parameters)
        cells = context.settings.cells
        if len(architecture.cells) != cells:
            raise RunError(
                f"the architecture has {len(architecture.cells)} cells, and the model {cells}: "
                "give the workspace that the site had in the run that the model is from"
            )
        model = network(architecture, released.parameters, data, context)
        return predicted(model, SHARED if own is None else OWN, data, batching)


@torch.no_grad()
def predicted(model: NodeClassifier, path: str, data: SiteData, batching: Batching) -> Prediction:
    """What a model says of every node, by a way of scoring."""
    hidden, logits = passes.hidden_and_logits(model, data.graph.x, data.adjacency, batching)
    return Prediction(logits, path=path, hidden=hidden)


def stages(context: Context) -> Stages:
    """Of the run, whose search may have ended early."""
    return stages_of(context.config, context.content.values.get("search_rounds"))


def searches(context: Context, round_number: int) -> bool:
    """Whether a round is one of the search."""
    return stages(context).searches(round_number)


def reported_network(model: nn.Module, architecture: Architecture, context: Context) -> dict[str, Any]:
    """What the server is told of the client's network, which the site keeps to predict by."""
    keep_architecture(architecture, context)
    described = {**architecture.as_json(), "parameters": parameter_count(model)}
    if tells_architectures(context.config):
        return {"architecture": described}
    for name, text in documents("architecture", described).items():
        context.memory.document(name, text)
    return {}


def resume(model: nn.Module, context: Context) -> None:
    """Put the client's own weights of its last round in the place of the global ones, where it has them."""
    remembered, own = context.memory.remembered(), dict[str, Tensor]()
    if remembered is not None and remembered.values.get("search") == searches(context, context.round):
        own = Content(remembered.tensors).section("model")
    state = model.state_dict()
    kept = {name: own[name].to(value.device) if name in own else value for name, value in state.items()}
    model.load_state_dict(kept)


def remember(
    after: Parameters, start: Parameters, batching: Batching, data: SiteData, context: Context
) -> None:
    """Keep the logits of the client's own search if they convince, and its weights where it may go on from them."""
    settings, search = context.settings, searches(context, context.round)
    searched = search and bool(validation_halves(data, context).searched.any())
    if not settings.keep_local and not (settings.personal and searched):
        return
    kept = own_logits(context)
    if searched:
        convinced = settings.own == "always" or convinces(after, start, batching, data, context)
        kept = {name: value for name, value in after.items() if convinced and is_architecture(name)}
    weights = {
        name: value for name, value in after.items() if settings.keep_local and not is_architecture(name)
    }
    context.memory.remember({**kept, **prefixed("model", weights)}, {"search": search})


METHOD = DaDfgas()
