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
        sentence = (
            f"engine = stacked: clients of method {settings.method} do more than train a backbone on examples that "
            f"stay as they are: {REMEDY}, or choose one of {others}"
        )
        return [sentence]
    train, aggregation, privacy = settings.train, settings.aggregation, settings.privacy
    alike, single = "all clients take as many steps", "nobody looks at single updates"
    weighed = aggregation.weights if aggregation.weights == "distribution-aware" else ""
    reasons: dict[str, tuple[object, object, str]] = {
        "parts": (settings.parts, "", "parts stand around each client's own training"),
        "train.batch-size": (train.batch_size, 0, "all whole graphs are computed at once"),
        "train.accuracy-threshold": (train.accuracy_threshold, 0, alike),
        "aggregation.weights": (weighed, "", "nobody looks at statistics before the mean is taken"),
        "aggregation.rule": (aggregation.rule, "mean", single),
        "aggregation.normalise": (aggregation.normalise, "none", alike),
        "aggregation.max-update-norm": (aggregation.max_update_norm, 0, single),
        "privacy.secure-aggregation": (privacy.secure_aggregation, False, "there are no messages to mask"),
        "privacy.dp.mode": (privacy.dp.mode, "off", "there are no messages to add noise to"),
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
            f"engine = stacked: backbone {backbone} uses parameters with more than rows of nodes: {REMEDY}, or choose "
            f"one of {others}"
        )
    condenser = settings.condenser.name
    if condenser != NONE and CONDENSERS.get(condenser).every_round:
        wrong.append(
            f"engine = stacked: condenser {condenser} makes other examples in every round: {REMEDY}, or choose another"
        )
    return wrong
