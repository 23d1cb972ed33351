"""DANCE on the server: backbone, selection and fusion weights are averaged; condensation stays with the clients."""

from __future__ import annotations

from fedtag.common.methods.dance.model import initial_dance_model
from fedtag.common.methods.dance.settings import DanceConfig
from fedtag.common.models.parameters import Parameters, parameters_of
from fedtag.server.protocol.context import ServerContext
from fedtag.server.protocol.method import ServerMethod
from fedtag.server.protocol.state import Agreement


class Dance(ServerMethod):
    """Another model than the backbone alone, and two ways of scoring it."""

    def scoring_paths(self, context: ServerContext) -> tuple[str, ...]:
        scoring = context.settings.own(DanceConfig).scoring
        return ("graph", "evidence") if scoring == "auto" else (scoring,)

    def initial(self, agreement: Agreement, context: ServerContext) -> Parameters:
        return parameters_of(
            initial_dance_model(context.settings, agreement.dimension, len(agreement.classes))
        )


METHOD = Dance()
