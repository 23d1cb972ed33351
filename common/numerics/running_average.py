"""The exponential average of models over rounds."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor


def running_average(
    average: Mapping[str, Tensor], model: Mapping[str, Tensor], decay: float, count: int
) -> dict[str, Tensor]:
    """The exponential average of the first `count` models, in which the initial model has no part.

    Σ_s decay^(count − s) ω_s / Σ_s decay^(count − s), from the average of the models before; the first
    average is the first model. Integer and boolean tensors are those of the newest model.

    Args:
        average: of count − 1 models; without meaning for count 1.
        model: the newest, ω_count.
        decay: in (0, 1).
        count: at least 1.
    """
    kept = decay * (1 - decay ** (count - 1)) / (1 - decay**count)
    return {
        name: kept * average[name] + (1 - kept) * value if value.is_floating_point() else value
        for name, value in model.items()
    }
