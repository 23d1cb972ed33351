"""Noise for single training nodes on the server: counts that are told once, and what all of it guarantees."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from fedtag.common.config import RunConfig
from fedtag.common.methods.fedgc.names import COUNTS, UNIT
from fedtag.common.methods.fedgc.noise import LIMITS, WHAT
from fedtag.common.methods.fedgc.noise import UNIT as PROTECTED
from fedtag.common.methods.fedgc.settings import FedGCConfig
from fedtag.common.methods.fedgc.stages import teaching_rounds
from fedtag.common.numerics.accounting import distributed_sensitivity
from fedtag.server.strategies.accounting import privacy_spent

NOISY = "noisy counts"
"""In the values of the state: what the clients' counts with noise came to, by class."""
TOLD = "noisy sums"
"""In the values of the state: how many sums with noise clients were asked for."""


def is_private(config: RunConfig) -> bool:
    """Whether sums carry noise for single training nodes."""
    return config.own(FedGCConfig).dp_mode != "off"


def with_counts(
    step: Mapping[str, Tensor], values: dict[str, Any], scale: float, config: RunConfig
) -> Mapping[str, Tensor]:
    """What came of a round, with the counts that clients tell in the first one alone.

    Classes whose noisy counts are less than the least have none.

    Args:
        step: the mean of what clients sent.
        values: of the state; noisy counts are put there.
        scale: by which the mean is multiplied to be a sum again.
        config: of the run.
    """
    if COUNTS in step:
        values[NOISY] = (step[COUNTS].double() * scale).tolist()
    counts = torch.tensor(values[NOISY], dtype=torch.float64)
    counts = torch.where(counts >= config.own(FedGCConfig).min_class_count, counts, 0.0)
    return {**step, COUNTS: counts / scale}


def asked(values: Mapping[str, Any], counted: bool) -> int:
    """How many sums with noise clients were asked for, with those of one more round.

    Args:
        values: of the state.
        counted: whether counts were among them.
    """
    return values.get(TOLD, 0) + 1 + counted


def guarantee(sums: int | None, dimension: int, config: RunConfig) -> Mapping[str, Any] | None:
    """What the noise guarantees, as a table for summary.json; None without noise.

    Each sum, of gradients or of counts, is one Gaussian mechanism whose noise is z times what one node changes.

    Args:
        sums: that clients were asked for; None: as many as a run asks for.
        dimension: numbers in a sum of gradients, all classes together.
        config: of the run.

    Raises:
        ConfigError: dp-accounting is not installed.
    """
    own = config.own(FedGCConfig)
    if own.dp_mode == "off":
        return None
    rounds = config.rounds - teaching_rounds(own)
    sensitivity = own.dp_clip
    if own.dp_mode == "distributed":
        # Rounding to fixed point is of what is sent: in units, by weight, two nodes' worth of half a step.
        sent = UNIT / config.clients
        bits = config.privacy.scale_bits - 1
        sensitivity = distributed_sensitivity(own.dp_clip * sent, dimension, bits) / sent
        # Counts, which one node changes by 1, are rounded alike.
        sensitivity = own.dp_clip * max(
            sensitivity / own.dp_clip, distributed_sensitivity(sent, dimension, bits) / sent
        )
    due = rounds + 1 if sums is None else sums
    spent = privacy_spent(own.dp_mode, own.dp_noise, own.dp_clip, own.dp_delta, due, sensitivity)
    return {
        **vars(spent),
        "unit": PROTECTED,
        "rounds": rounds,
        "sums": due,
        "what": WHAT,
        "limits": list(LIMITS),
    }


def dimension_of(shapes: Mapping[str, Any]) -> int:
    """Numbers in a sum of gradients, from the shapes in the values of the state."""
    classes = shapes["classes"]
    return sum(classes * int(torch.tensor(shape).prod()) for shape in shapes["theta"])
