"""Jinja2 as all pages use it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from jinja2 import Environment, StrictUndefined, Template

from fedtag.common.wording.scoring import capital, over_clients
from fedtag.common.wording.visible import visible_value
from fedtag.server.pages.page_parts import scripts
from fedtag.server.pages.wording import (
    count,
    date,
    duration,
    fixed,
    from_folder,
    percent,
    score_title,
    size,
    spans,
    unparted,
    ways,
)
from fedtag.server.tracking.disclosure_table import listed


@cache
def template(source: str) -> Template:
    """A template with escaping and the filters of pages; compiled once."""
    made = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=visible_value,
    )
    filters: dict[str, Callable[..., str]] = {"percent": percent, "size": size, "duration": duration}
    made.filters |= filters | {"count": count, "fixed": fixed, "listed": listed, "spans": spans}
    made.filters |= {
        "score_title": score_title,
        "ways": ways,
        "unparted": unparted,
        "date": date,
        "from_folder": from_folder,
        "over_clients": over_clients,
        "capital": capital,
    }
    made.globals["scripts"] = scripts
    return made.from_string(source)
