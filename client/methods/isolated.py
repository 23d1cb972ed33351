"""Isolated training: every client trains a model of its own and uploads scores only."""

from __future__ import annotations

from typing import Any

from fedtag.client.context.run_context import RunContext
from fedtag.client.context.site_data import SiteData
from fedtag.client.methods.base import ClientMethod
from fedtag.client.train.optimisation import Training
from fedtag.common.models.parameters import Parameters, parameters_of
from fedtag.common.wire.records import Content


class Isolated(ClientMethod[None]):
    """The client without a federation. Its model stays in its state folder from round to round."""

    def start(self, data: SiteData, context: RunContext[None]) -> Parameters:
        kept = context.memory.remembered()
        return super().start(data, context) if kept is None else dict(kept.tensors)

    def initial(self, data: SiteData, context: RunContext[None]) -> dict[str, Any]:
        """Nothing: nobody else has a model to compare with."""
        return {}

    def after_training(
        self, model: Any, start: Parameters, training: Training, data: SiteData, context: RunContext[None]
    ) -> Content:
        context.memory.remember(parameters_of(model), {})
        return Content({}, {"training": {"loss": training.loss, "steps": training.steps}})


METHOD = Isolated()
