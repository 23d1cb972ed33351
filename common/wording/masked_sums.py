"""What one member can do to masked sums, for every place that says so."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedtag.common.numerics.robust_rules import GROUP_RULES

SPOILABLE = (
    "One member can put anything into a masked sum over all, and nobody can tell whether one did: the model is as good "
    "as its worst member lets it be"
)


def spoilable(settings: Mapping[str, Any]) -> bool:
    """Whether one member can put anything into the sums of a run.

    Args:
        settings: by dotted key.
    """
    return (
        settings.get("privacy.secure-aggregation") is True
        and settings.get("aggregation.rule") not in GROUP_RULES
    )
