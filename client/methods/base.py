"""What every method does at a client, and what a variant may do differently."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from fedtag.client.condense.examples import training_examples
from fedtag.client.context.run_context import RunContext
from fedtag.client.context.site_data import SiteData
from fedtag.client.methods.model_alone import ModelAlone
from fedtag.client.prediction.outcome import Prediction, ReleasedModel, load_released
from fedtag.client.train import passes
from fedtag.client.train.batches import Batching, as_function
from fedtag.client.train.capacity import batching_of
from fedtag.client.train.examples import Examples
from fedtag.client.train.local_steps import LocalSteps, is_replayed
from fedtag.client.train.optimisation import Training, local_epochs
from fedtag.client.train.replay import Replay
from fedtag.client.train.scoring import counted, scored_rows
from fedtag.client.train.stacked.shares import Share
from fedtag.client.train.statistics import client_statistics, validation_accuracy
from fedtag.common.errors import ConfigError, ProtocolError
from fedtag.common.models.assembly import initial_backbone
from fedtag.common.models.parameters import (
    Parameters,
    difference,
    fingerprint,
    load_parameters,
    parameters_of,
)
from fedtag.common.numerics.scores import LOCAL
from fedtag.common.secure.phases import USE
from fedtag.common.tensors import on_host
from fedtag.common.wire.records import Content, prefixed

S = TypeVar("S")

TRAIN = "train"
SCORE = "score"
CLOSE = "close"

GRAPH = "graph"
"""Scores of the received model on the client's full graph."""
Handler = Callable[[SiteData, RunContext[Any]], Content]
"""What a client does in a phase: given its data and the run, what it answers."""
Logits = Float[Tensor, "nodes classes"]


class ClientMethod(ModelAlone, Generic[S]):
    """A method at a client: it scores the received model where scores are due, then does what the phase asks for.

    Left as it is, it trains the run's backbone from the received model and sends the difference. A variant overrides
    `model`, `start`, `examples`, `balanced`, `loss`, `logits`, `judges`, `may_lack`, `after_training`, `close`,
    `check`, or adds a phase to `handlers`.

    Attributes:
        trained_by: the way of scoring in which the model is trained; statistics and the accuracy rule look at it.
    """

    trained_by = GRAPH

    def respond(self, data: SiteData, context: RunContext[S]) -> Content:
        """Scores where they are due, then the phase."""
        data = self.placed(data, context)
        handler = self.handlers().get(context.phase)
        if handler is None:
            raise ProtocolError(f"exchange '{context.phase}' is unknown here: install the same fedtag")
        sizes = {**data.sizes, "val_nodes": self._rows(data, context)["val"].numel()}
        scores = {}
        # A count of users comes with no model to score.
        if context.content.values.get("evaluate") and context.phase != USE:
            scores = prefixed("scores", self.scores(data, context))
        done = handler(data, context)
        return Content({**scores, **done.tensors}, {"sizes": sizes, **done.values})

    def may_lack(self, name: str, context: RunContext[S]) -> bool:
        """All clients that train have all tensors."""
        return False

    def handlers(self) -> Mapping[str, Handler]:
        """What is done in each phase, by the phase's name."""
        return {TRAIN: self.train, SCORE: lambda data, context: Content(), CLOSE: self.close}

    def model(self, data: SiteData, context: RunContext[S]) -> nn.Module:
        """The run's model with its initial values."""
        config, graph = context.config, data.graph
        return initial_backbone(config, graph.x.shape[1], graph.num_classes)

    def start(self, data: SiteData, context: RunContext[S]) -> Parameters:
        """The parameters with which the exchange begins: those that were received, else the initial ones."""
        return context.content.section("model") or parameters_of(self.model(data, context))

    def loaded(self, data: SiteData, context: RunContext[S]) -> Any:
        """The model that the exchange begins with."""
        return self.with_parameters(self.start(data, context), data, context)

    def with_parameters(
        self, parameters: Mapping[str, Tensor], data: SiteData, context: RunContext[S]
    ) -> Any:
        """The model with these values, on the site's device; it is one module for all of a run."""
        model = context.cached(data, "model", lambda: self.model(data, context).to(data.device))
        load_parameters(model, parameters)
        return model

    def batching(self, data: SiteData, context: RunContext[S]) -> Batching:
        """How the site takes its graph: at once, or in parts."""
        return batching_of(lambda: self.classifier(self.model(data, context).to(data.device)), data, context)

    def classifier(self, model: Any) -> Any:
        """What of the model reads the graph: all of it."""
        return model

    def placed(self, data: SiteData, context: RunContext[S]) -> SiteData:
        """The site's data on the device that computes, unless the graph is taken in parts."""
        return data if self.batching(data, context).splits(data.graph.num_nodes) else data.on_device

    def logits(self, model: Any, data: SiteData, context: RunContext[S]) -> Mapping[str, Logits]:
        """What a model says of every node, by way of scoring; each way has a column of its own."""
        return {GRAPH: passes.logits(model, data.graph.x, data.adjacency, self.batching(data, context))}

    def judges(self, data: SiteData, context: RunContext[S]) -> Bool[Tensor, " nodes"]:
        """The validation nodes by which models are judged."""
        return data.graph.val_mask

    def scores(self, data: SiteData, context: RunContext[S]) -> dict[str, Tensor]:
        """Counts of the received model on the full graph, or of its running average where the server keeps one."""
        parameters = context.content.section("average") or self.start(data, context)
        model = self.with_parameters(parameters, data, context)
        return self._counted(self.trained_by, model, data, context)

    def train(self, data: SiteData, context: RunContext[S]) -> Content:
        """Local training from the received model; an update if there is a label to learn."""
        reported = self.initial(data, context)
        model = self.loaded(data, context)
        start = parameters_of(model)
        examples, more = self.learned(model, data, context)
        reported |= more
        if examples is None:
            return Content({}, reported)
        training = self.trained(model, examples, data, context)
        contribution = self.after_training(model, start, training, data, context)
        return Content(contribution.tensors, {**reported, **contribution.values})

    def initial(self, data: SiteData, context: RunContext[S]) -> dict[str, Any]:
        """The fingerprint of the initial parameters, for comparison, where no others were received."""
        if context.content.section("model"):
            return {}
        return {"initial": fingerprint(self.start(data, context))}

    def examples(
        self, model: Any, data: SiteData, context: RunContext[S]
    ) -> tuple[Any | None, dict[str, Any]]:
        """What the model is trained on, as `loss` takes it, and what the server is told of that.

        Returns:
            None in place of examples where there is nothing to learn.
        """
        examples, reported = training_examples(model, data, context)
        return (examples if bool(examples.mask.any()) else None), reported

    def learned(
        self, model: Any, data: SiteData, context: RunContext[S]
    ) -> tuple[Any | None, dict[str, Any]]:
        """The same, with the weights of labels that settings ask for."""
        examples, reported = self.examples(model, data, context)
        if examples is None or context.config.train.class_weights != "balanced":
            return examples, reported
        return self.balanced(examples, context), reported

    def train_together(self, data: SiteData, context: RunContext[S]) -> Share:
        """What the site brings where all are trained at once, by methods whose `together` says that they do as here."""
        data = self.placed(data, context)
        model: Any = self.model(data, context).to(data.device)
        start = self.start(data, context)
        examples, reported = self.learned(model, data, context)
        return Share(model, start, examples, data.graph, data.adjacency, self.judges(data, context), reported)

    def balanced(self, examples: Any, context: RunContext[S]) -> Any:
        """The same examples, with labels that weigh the same by class.

        Raises:
            ConfigError: they are of a kind of their own, whose labels have no weights.
        """
        if isinstance(examples, Examples):
            return examples.balanced
        raise ConfigError(
            f"train.class-weights = balanced: method {context.config.method} learns from examples of its own, whose "
            "labels have no weights: set it to none, or override `balanced`"
        )

    def loss(self, model: Any, examples: Any, generator: torch.Generator) -> Callable[[], Tensor]:
        """The loss of the model as it stands, called once a step.

        Args:
            model: that is trained.
            examples: of `examples`.
            generator: of dropout and noise.
        """
        return lambda: examples.loss(model(examples.x, examples.adjacency, generator))

    def trained(self, model: Any, examples: Any, data: SiteData, context: RunContext[S]) -> Training:
        """Local epochs, in place."""
        config, seen, number = context.config.train, data.training, context.round
        generator = context.generator(number, data.site.name, "dropout", device=data.device)
        with context.timed("train"):
            accuracy = None
            if config.accuracy_threshold:
                with torch.no_grad():
                    logits = self.logits(model, seen, context)[self.trained_by]
                accuracy = validation_accuracy(logits, seen.graph, self.judges(seen, context))
            epochs = local_epochs(config.epochs, config.extra_epochs, config.accuracy_threshold, accuracy)
            replay = self._replay("loss", examples, data, context)
            until = None if replay else context.training_deadline()  # what is launched at once takes no time
            drawn, how = context.generator(number, data.site.name, "batches"), self.batching(data, context)

            def loss(one: Any, draws: torch.Generator) -> Callable[[], Tensor]:
                return as_function(self.loss(model, one, draws), self)

            steps = LocalSteps(loss, model, examples, epochs, how, drawn, config, until)
            return steps.taken(number, context.config.rounds, generator, data.device, replay)

    def after_training(
        self, model: Any, start: Parameters, training: Training, data: SiteData, context: RunContext[S]
    ) -> Content:
        """What the server gets of a training: the update, how it was trained, statistics and scores if wanted.

        Args:
            model: after training.
            start: its parameters before.
            training: what was done.
            data: of the site.
            context: of the exchange.
        """
        tensors = prefixed("update", difference(parameters_of(model), start))
        values: dict[str, Any] = {"training": vars(training)}
        if context.config.aggregation.weights == "distribution-aware":
            seen = data.training
            with context.timed("statistics"), torch.no_grad():
                logits = self.logits(model, seen, context)[self.trained_by]
                values["statistics"] = client_statistics(data, context, logits, self.judges(seen, context))
        return Content(tensors | self.local_scores(model, data, context), values)

    def local_scores(self, model: Any, data: SiteData, context: RunContext[S]) -> dict[str, Tensor]:
        """Counts of the trained model, where they are wanted."""
        if not context.content.values.get("evaluate_local"):
            return {}
        return prefixed("scores", self._counted(LOCAL, model, data, context))

    def _counted(self, path: str, model: Any, data: SiteData, context: RunContext[S]) -> dict[str, Tensor]:
        """The counts of the received model, or of the trained one on the path `local`."""

        @torch.no_grad()
        def work(*_: object) -> Mapping[str, Tensor]:
            said = self.logits(model, data, context)
            return self.counts({LOCAL: said[self.trained_by]} if path == LOCAL else said, data, context)

        with context.timed("score"):
            replay = self._replay("logits", data.graph, data, context, path)
            return on_host(replay((model, data), work, data.device) if replay else work())

    def _replay(
        self, hook: str, nodes: Any, data: SiteData, context: RunContext[S], purpose: str = ""
    ) -> Replay | None:
        """What records the work of a hook, if it is the one of this class and its work can be recorded."""
        given = getattr(type(self), hook) is getattr(ClientMethod, hook)
        if not given or not is_replayed(nodes, data.device, self.batching(data, context)):
            return None
        return context.cached(data, f"replay of {hook} {purpose}", Replay)

    def counts(
        self, logits: Mapping[str, Logits], data: SiteData, context: RunContext[S]
    ) -> dict[str, Tensor]:
        """Right and wrong predictions over the validation nodes that judge and the test nodes, by way of scoring."""
        return counted(logits, data.graph.y, self._rows(data, context))

    def _rows(self, data: SiteData, context: RunContext[S]) -> Mapping[str, Tensor]:
        test = data.graph.test_mask
        return context.cached(data, "scored rows", lambda: scored_rows(self.judges(data, context), test))

    def close(self, data: SiteData, context: RunContext[S]) -> Content:
        """The end of the run, after the last scores."""
        return Content()

    def predict(
        self, released: ReleasedModel, data: SiteData, context: RunContext[S], evidence: bool = False
    ) -> Prediction:
        """By the way of scoring that validation chose."""
        data = self.placed(data, context)
        model = load_released(self.model(data, context).to(data.device), released)
        with torch.no_grad():
            # One pass gives both, unless a variant says its logits in another way.
            hidden, logits = passes.said_by(model, data, self.batching(data, context))
            if logits is None or type(self).logits is not ClientMethod.logits:
                logits = self.logits(model, data, context)[released.path]
            return Prediction(logits, hidden=hidden)
