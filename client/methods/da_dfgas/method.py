"""The client of DA-DFGAS: what it does when an instruction comes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from fedtag.client.condense.examples import training_examples
from fedtag.client.methods.da_dfgas.networks import (
    convinces,
    network,
    own_architecture,
    own_logits,
    shared_architecture,
)
from fedtag.client.methods.da_dfgas.training import logits_of, train_network, validation_halves
from fedtag.client.prediction.outcome import Prediction, load_released
from fedtag.client.train.scoring import score_tensors
from fedtag.client.train.statistics import client_statistics
from fedtag.common.errors import RunError
from fedtag.common.methods.da_dfgas.course import first_supernet, stages_of, tells_architectures
from fedtag.common.methods.da_dfgas.settings import DaDfgasConfig
from fedtag.common.models.parameters import difference, fingerprint, load_parameters, parameters_of
from fedtag.common.models.supernet.architecture import Architecture
from fedtag.common.models.supernet.documents import documents
from fedtag.common.models.supernet.logits import is_architecture
from fedtag.common.models.supernet.network import DiscreteNetwork, parameter_count, used_names
from fedtag.common.models.supernet.stages import OWN, SHARED, SUPERNET
from fedtag.common.models.supernet.supernet import Supernet
from fedtag.common.numerics.scores import tally
from fedtag.common.secure.phases import USE
from fedtag.common.wire.records import Content, Instruction, prefixed

if TYPE_CHECKING:
    from fedtag.client.context.session import Session
    from fedtag.client.prediction.outcome import ReleasedModel

LOCAL = "local"


class DaDfgas:
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

    def respond(self, instruction: Instruction, session: Session) -> Content:
        work = Work(instruction, session)
        told = instruction.content.values
        if instruction.phase == USE:
            return work.use()
        tensors: dict[str, Tensor] = {}
        values: dict[str, object] = {"sizes": work.sizes()}
        if told.get("evaluate"):
            tensors |= prefixed("scores", work.scores())
        if instruction.phase == "train":
            if not work.received:
                values["initial"] = fingerprint(work.start)
            update, more = work.train()
            tensors |= update
            values |= more
        return Content(tensors, values)

    def predict(self, released: ReleasedModel, session: Session, evidence: bool) -> Prediction:
        """By the released weights in a given architecture or that of the released logits, or as the supernet itself.

        Raises:
            RunError: the released supernet has no such network.
        """
        supernet = load_released(_fresh(session), released)
        if released.path == SUPERNET:
            return Prediction(logits_of(supernet, session))
        architecture = released.architecture or shared_architecture(session, released.parameters)
        cells = session.config.own(DaDfgasConfig).cells
        if len(architecture.cells) != cells:
            raise RunError(
                f"the architecture has {len(architecture.cells)} cells, and the model {cells}: "
                "take one of the run that the model is from"
            )
        return Prediction(logits_of(network(session, architecture, released.parameters), session))


class Work:
    """One instruction at one site."""

    def __init__(self, instruction: Instruction, session: Session) -> None:
        self.instruction = instruction
        self.session = session
        self.config = session.config
        self.received = instruction.content.section("model")
        self.stages = stages_of(self.config, instruction.content.values.get("search_rounds"))
        self.start = dict(self.received) or parameters_of(_fresh(session))

    def use(self) -> Content:
        """An update that says by its names what the client will train; the numbers in it mean nothing.

        It never leaves the site: what does is one masked coordinate a tensor.
        """
        trains = bool(self.session.training_graph.train_mask.any())
        names = used_names(own_architecture(self.session, self.start)) if trains else frozenset()
        update = {name: torch.zeros(()) for name in sorted(names)}
        return Content(prefixed("update", update), {"sizes": self.sizes()})

    def found(self, model: nn.Module, architecture: Architecture) -> dict[str, Any]:
        """What the server is told of the client's network; where that is nothing, the site keeps it in its state."""
        told = described(model, architecture)
        if tells_architectures(self.config):
            return {"architecture": told}
        for name, text in documents("architecture", told).items():
            self.session.document(name, text)
        return {}

    def sizes(self) -> dict[str, int]:
        """Counts of nodes; of validation nodes those of half B, by which models are judged."""
        return {**self.session.sizes, "val_nodes": int(validation_halves(self.session).judged.sum())}

    def scores(self) -> dict[str, Tensor]:
        """Counts of the model of the round before: the received one, the running average, or what the search left."""
        content = self.instruction.content
        scored = content.section("searched") or content.section("average") or self.start
        if self.stages.searches(self.instruction.round - 1):
            return self._counts(SUPERNET, self._supernet(scored))
        found: dict[str, Tensor] = {}
        if self.config.own(DaDfgasConfig).personal:
            own = own_architecture(self.session, self.start)
            found |= self._counts(OWN, network(self.session, own, scored))
        if not self.config.own(DaDfgasConfig).personal or self.config.own(DaDfgasConfig).scoring != OWN:
            shared = shared_architecture(self.session, self.start)
            found |= self._counts(SHARED, network(self.session, shared, scored))
        return found

    def train(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Search or retrain from the received model; the update, and what the server is told.

        Without a label to learn there is no update.
        """
        instruction, told = self.instruction, self.instruction.content.values
        longer = bool(told.get("longer"))
        search = self.stages.searches(instruction.round)
        more: dict[str, Any] = {}
        model: Supernet | DiscreteNetwork
        if search:
            model = self._supernet(self.start)
        else:
            model, architecture = self.retrained()
            more |= self.found(model, architecture)
        examples, condensed = training_examples(self.session, model, instruction.round)
        more |= condensed
        if not bool(examples.mask.any()):
            return {}, more
        if longer and self.config.own(DaDfgasConfig).keep_local:
            self._resume(model)
        allowed = told.get("training_seconds")
        training = train_network(
            self.session, model, examples, self.stages, instruction.round, longer, allowed
        )
        after = parameters_of(model)
        self._remember(after, search)
        more["training"] = vars(training)
        if self.config.aggregation.weights == "distribution-aware":
            with self.session.timed("statistics"):
                logits = logits_of(model, self.session, training=True)
                judges = validation_halves(self.session).judged
                more["statistics"] = client_statistics(self.session, logits, instruction.round, judges)
        before = {name: self.start[name] for name in after}
        tensors = prefixed("update", difference(after, before))
        if told.get("evaluate_local"):
            tensors |= prefixed("scores", self._counts(LOCAL, model))
        return tensors, more

    def retrained(self) -> tuple[DiscreteNetwork, Architecture]:
        """The network that the client trains after the search, with the received weights."""
        architecture = own_architecture(self.session, self.start)
        return network(self.session, architecture, self.start), architecture

    def _supernet(self, parameters: Mapping[str, Tensor]) -> Supernet:
        model = self.session.kept("supernet", lambda: _fresh(self.session))
        load_parameters(model, parameters)
        return model

    def _counts(self, path: str, model: nn.Module) -> dict[str, Tensor]:
        graph = self.session.graph
        with self.session.timed("score"):
            logits = logits_of(model, self.session)
            judged = validation_halves(self.session).judged
            return score_tensors(
                path,
                {"val": tally(logits, graph.y, judged), "test": tally(logits, graph.y, graph.test_mask)},
            )

    def _resume(self, model: nn.Module) -> None:
        """Put the client's own weights of its last round in the place of the global ones, where it has them."""
        remembered = self.session.remembered()
        search = self.stages.searches(self.instruction.round)
        own: dict[str, Tensor] = {}
        if remembered is not None and remembered.values.get("search") == search:
            own = Content(remembered.tensors).section("model")
        state = model.state_dict()
        kept = {name: own[name].to(value.device) if name in own else value for name, value in state.items()}
        model.load_state_dict(kept)

    def _remember(self, after: Mapping[str, Tensor], search: bool) -> None:
        """Keep the logits of the client's own search if they convince, and its weights where it may go on from them."""
        keeps = self.config.own(DaDfgasConfig).keep_local
        searched = search and bool(validation_halves(self.session).searched.any())
        if not keeps and not (self.config.own(DaDfgasConfig).personal and searched):
            return
        kept = own_logits(self.session)
        if searched:
            always = self.config.own(DaDfgasConfig).own == "always"
            convinced = always or convinces(self.session, after, self.start)
            kept = {name: value for name, value in after.items() if convinced and is_architecture(name)}
        weights = {name: value for name, value in after.items() if keeps and not is_architecture(name)}
        self.session.remember({**kept, **prefixed("model", weights)}, {"search": search})


def described(model: nn.Module, architecture: Architecture) -> dict[str, Any]:
    """An architecture as it is told to the server, with the number of its trained parameters."""
    return {**architecture.as_json(), "parameters": parameter_count(model)}


def _fresh(session: Session) -> Supernet:
    graph = session.graph
    model = first_supernet(session.config, graph.x.shape[1], graph.num_classes)
    return model.to(session.device)


METHOD = DaDfgas()
