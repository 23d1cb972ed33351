"""What does not go with clients that are trained at once."""

from __future__ import annotations

from fedtag.common.condensers.spec import CONDENSERS, NONE
from fedtag.common.methods.spec import METHODS
from fedtag.common.models.spec import BACKBONES
from fedtag.common.settings.run_settings import RunSettings

REMEDY = "set engine = separate"


def stacked_combinations(settings: RunSettings) -> list[str]:
    """One sentence for each setting with which clients cannot be stacked; empty where they are not to be."""
    if settings.engine != "stacked":
        return []
    method = METHODS.get(settings.method)
    if not method.traits.together:
        others = ", ".join(name for name, spec in METHODS.usable().items() if spec.traits.together)
        return [
            f"engine = stacked: clients of method {settings.method} do more than train a backbone on examples that stay "
            f"as they are: {REMEDY}, or choose one of {others}"
        ]
    reasons = {
        "parts": (settings.parts, "", "parts stand around each client's own training"),
        "train.batch-size": (settings.train.batch_size, 0, "all whole graphs are computed at once"),
        "train.accuracy-threshold": (
            settings.train.accuracy_threshold,
            0.0,
            "all clients take as many steps",
        ),
        "aggregation.weights": (
            settings.aggregation.weights == "distribution-aware" and settings.aggregation.weights,
            False,
            "the mean is taken before anybody looks at statistics",
        ),
        "aggregation.rule": (settings.aggregation.rule, "mean", "nobody looks at single updates"),
        "aggregation.normalise": (settings.aggregation.normalise, "none", "all clients take as many steps"),
        "aggregation.max-update-norm": (
            settings.aggregation.max_update_norm,
            0.0,
            "nobody looks at single updates",
        ),
        "privacy.secure-aggregation": (
            settings.privacy.secure_aggregation,
            False,
            "no message crosses that masks could hide",
        ),
        "privacy.dp.mode": (settings.privacy.dp.mode, "off", "noise is drawn where updates are sent"),
    }
    wrong = [
        f"engine = stacked does not go with {key} = {str(value).lower()}, since {why}: {REMEDY}, or leave {key} out"
        for key, (value, wanted, why) in reasons.items()
        if value != wanted
    ]
    backbone = settings.model.backbone
    if not BACKBONES.get(backbone).stacks:
        others = ", ".join(name for name, spec in BACKBONES.usable().items() if spec.stacks)
        wrong.append(
            f"engine = stacked: backbone {backbone} uses parameters with more than rows of nodes: {REMEDY}, or choose one "
            f"of {others}"
        )
    condenser = settings.condenser.name
    if condenser != NONE and CONDENSERS.get(condenser).every_round:
        wrong.append(
            f"engine = stacked: condenser {condenser} makes other examples in every round: {REMEDY}, or choose another"
        )
    return wrong
