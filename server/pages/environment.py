"""Jinja2 as all pages use it."""

from __future__ import annotations

from collections.abc import Callable

from jinja2 import Environment, StrictUndefined

from fedtag.common.wording.scoring import over_clients
from fedtag.common.wording.visible import visible_value
from fedtag.server.pages.wording import (
    count,
    duration,
    fixed,
    percent,
    score_title,
    size,
    spans,
    ways,
)
from fedtag.server.tracking.disclosure_table import listed


def environment() -> Environment:
    """Jinja2 with escaping and the filters of the page."""
    made = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=visible_value,
    )
    filters: dict[str, Callable[..., str]] = {"percent": percent, "size": size, "duration": duration}
    made.filters |= filters | {"count": count, "fixed": fixed, "listed": listed, "spans": spans}
    made.filters |= {"score_title": score_title, "ways": ways, "over_clients": over_clients}
    return made
