"""DANCE on the server: FedAvg of backbone, selection and fusion weights; condensation stays with the clients."""

from __future__ import annotations

from collections.abc import Mapping

from fedtag.common.config import RunConfig
from fedtag.common.methods.dance.model import initial_dance_model
from fedtag.common.methods.dance.settings import DanceConfig
from fedtag.common.models.parameters import Parameters, parameters_of
from fedtag.server.methods.fedavg import FedAvg
from fedtag.server.methods.registry import Agreement, Kind


class Dance(FedAvg):
    """FedAvg with another model, two ways of scoring, and evidence that clients keep to themselves."""

    condenses = True
    keeps_evidence = True
    kinds: Mapping[str, Kind] = {
        **FedAvg.kinds,
        "update": Kind("the difference of backbone, selection and fusion weights after local training"),
    }

    def scoring_paths(self, config: RunConfig) -> tuple[str, ...]:
        return (
            ("graph", "evidence")
            if config.own(DanceConfig).scoring == "auto"
            else (config.own(DanceConfig).scoring,)
        )

    def initial(self, agreement: Agreement, config: RunConfig) -> Parameters:
        return parameters_of(initial_dance_model(config, agreement.dimension, len(agreement.classes)))


METHOD = Dance()
