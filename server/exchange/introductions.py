"""Introductions: what clients must have in common before their updates can be added."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from fedtag.common.errors import WireError
from fedtag.common.wording.split import DRAWN
from fedtag.server.protocol.state import Agreement

MOST_CLASSES = 2**16
LARGEST_DIMENSION = 2**17


def parse_introduction(values: Mapping[str, Any]) -> Agreement:
    """The introduction in a reply.

    Raises:
        WireError: if it is missing or malformed.
    """
    reported = values.get("introduction")
    if not isinstance(reported, dict):
        raise WireError("the client did not introduce itself")
    classes, dimension, features = (
        reported.get("classes"),
        reported.get("dimension"),
        reported.get("features"),
    )
    if not isinstance(classes, list) or not classes or not all(isinstance(name, str) for name in classes):
        raise WireError("the introduction does not name the classes")
    if len(classes) > MOST_CLASSES or len(set(classes)) < len(classes):
        raise WireError(f"the introduction names more than {MOST_CLASSES} classes, or one of them twice")
    if type(dimension) is not int or not 1 <= dimension <= LARGEST_DIMENSION or not isinstance(features, str):
        raise WireError("the introduction does not say what the features are")
    return Agreement(tuple(classes), dimension, features)


def tells_drawn(values: Mapping[str, Any]) -> bool:
    """Whether a client introduced itself with a split that was drawn, since its data had none."""
    reported = values.get("introduction")
    return isinstance(reported, dict) and reported.get("split") == DRAWN


def majority(introductions: Mapping[str, Agreement]) -> Agreement:
    """What most clients have in common; of equally many, that of the first client by name."""
    counts = Counter(introductions[client] for client in sorted(introductions))
    most = max(counts.values())
    return next(
        introductions[client] for client in sorted(introductions) if counts[introductions[client]] == most
    )


def disagreement(own: Agreement, agreed: Agreement) -> str | None:
    """In which point a client differs from the federation, and the remedy; None if in none."""
    if own.classes != agreed.classes:
        return (
            f"its classes {json.dumps(own.classes[:6])} are not the federation's {json.dumps(agreed.classes[:6])}: "
            "agree on one ordered list in meta.json"
        )
    if own.features != agreed.features or own.dimension != agreed.dimension:
        return (
            f"its features ({own.features}, {own.dimension} dimensions) are not the federation's "
            f"({agreed.features}, {agreed.dimension}): use the same encoder everywhere, with the same files"
        )
    return None
