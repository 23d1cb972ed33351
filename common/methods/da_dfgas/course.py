"""What the settings of DA-DFGAS say of the course of a run."""

from __future__ import annotations

from fedtag.common.methods.da_dfgas.settings import DaDfgasConfig
from fedtag.common.models.supernet.stages import Stages
from fedtag.common.models.supernet.supernet import Supernet, initial_supernet
from fedtag.common.settings.run_settings import RunSettings


def stages_of(settings: RunSettings, ended: int | None = None) -> Stages:
    """Which rounds belong to the search, as the settings say, or with a search that ended earlier."""
    return Stages.planned(settings.own(DaDfgasConfig).search_share, settings.rounds, ended)


def first_supernet(settings: RunSettings, dimension: int, classes: int) -> Supernet:
    """The run's supernet with its initial values."""
    return initial_supernet(
        settings.model, settings.own(DaDfgasConfig).cells, dimension, classes, settings.seed
    )


def tells_architectures(settings: RunSettings) -> bool:
    """Whether clients tell the server the architectures of their networks.

    Not where each has its own and updates are masked: an architecture says which tensors the update behind the mask
    has, and what it was searched on are the client's validation nodes.
    """
    return not (settings.own(DaDfgasConfig).personal and settings.privacy.secure_aggregation)
