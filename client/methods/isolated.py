"""Isolated training: every client trains a model of its own and uploads scores only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedtag.client.train.classifier import (
    fresh_backbone,
    local_examples,
    predict_by_backbone,
    score_backbone,
    train_backbone,
)
from fedtag.common.models.parameters import load_parameters, parameters_of
from fedtag.common.wire.records import Content, Instruction, prefixed

if TYPE_CHECKING:
    from fedtag.client.context.session import Session
    from fedtag.client.prediction.outcome import Prediction, ReleasedModel


class Isolated:
    """The client without a federation. Its model stays in its state folder from round to round."""

    def respond(self, instruction: Instruction, session: Session) -> Content:
        model = fresh_backbone(session)
        remembered = session.remembered()
        if remembered is not None:
            load_parameters(model, remembered.tensors)
        values: dict[str, object] = {"sizes": session.sizes}
        tensors = {}
        if instruction.content.values.get("evaluate"):
            tensors = prefixed("scores", score_backbone(session, model, "graph"))
        if instruction.phase == "train":
            training = train_backbone(session, model, local_examples(session), instruction.round)
            if training is not None:
                values["training"] = {"loss": training.loss, "steps": training.steps}
            session.remember(parameters_of(model), {})
        return Content(tensors, values)

    def predict(self, released: ReleasedModel, session: Session, evidence: bool) -> Prediction:
        return predict_by_backbone(session, released)


METHOD = Isolated()
