"""FedAvg (McMahan et al., 2017): train the received model on the local graph, upload the difference.

With train.prox-mu above 0 it is FedProx (Li et al., 2020); with a condenser the model is trained on what it makes of
the graph, and scored on the full one all the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor

from fedtag.client.condense.examples import training_examples
from fedtag.client.train.classifier import (
    backbone_statistics,
    fresh_backbone,
    predict_by_backbone,
    score_backbone,
    train_backbone,
)
from fedtag.client.train.examples import Examples
from fedtag.common.models.classifier import NodeClassifier
from fedtag.common.models.parameters import difference, fingerprint, load_parameters, parameters_of
from fedtag.common.wire.records import Content, Instruction, prefixed

if TYPE_CHECKING:
    from fedtag.client.context.session import Session
    from fedtag.client.prediction.outcome import Prediction, ReleasedModel


class FedAvg:
    """The client of FedAvg. Phases: `train` (score the received model, then train it) and `close` (score it)."""

    def respond(self, instruction: Instruction, session: Session) -> Content:
        received = instruction.content.section("model")
        if received:
            # Its values are replaced by those that came, so that the module itself may last.
            model = session.kept("backbone", lambda: fresh_backbone(session))
            load_parameters(model, received)
        else:
            model = fresh_backbone(session)
        start = parameters_of(model)
        tensors: dict[str, Tensor] = {}
        values: dict[str, object] = {"sizes": session.sizes}
        if instruction.content.values.get("evaluate"):
            scored = instruction.content.section("average")
            if scored:
                load_parameters(model, scored)
            tensors |= prefixed("scores", score_backbone(session, model, "graph"))
            load_parameters(model, start)
        if instruction.phase == "train":
            if not received:
                values["initial"] = fingerprint(start)
            allowed = instruction.content.values.get("training_seconds")
            examples, told = self.examples(instruction, session, model)
            values |= told
            training = train_backbone(session, model, examples, instruction.round, allowed)
            if training is not None:
                values["training"] = vars(training)
                if session.config.aggregation.weights == "distribution-aware":
                    values["statistics"] = backbone_statistics(session, model, instruction.round)
                tensors |= prefixed("update", difference(parameters_of(model), start))
                if instruction.content.values.get("evaluate_local"):
                    tensors |= prefixed("scores", score_backbone(session, model, "local"))
        return Content(tensors, values)

    def examples(
        self, instruction: Instruction, session: Session, model: NodeClassifier
    ) -> tuple[Examples, dict[str, Any]]:
        """What the received model is trained on, and what the server is told of it."""
        return training_examples(session, model, instruction.round)

    def predict(self, released: ReleasedModel, session: Session, evidence: bool) -> Prediction:
        return predict_by_backbone(session, released)


METHOD = FedAvg()
