"""What a card needs of Markdown: cells of tables, and Jinja2 with filters that make them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from functools import cache
from typing import Any

from jinja2 import Environment, StrictUndefined, Template

from fedtag.common.wording.scoring import over_clients
from fedtag.common.wording.visible import visible_line
from fedtag.server.tracking.disclosure_table import listed

MARKDOWN = str.maketrans({character: f"\\{character}" for character in "\\`*_[]<>|#$!&~"})
# Readers make links of addresses that stand by themselves.
ADDRESS = re.compile(r":(?=//)|(?<=www)\.|@", re.IGNORECASE)
MARK = re.compile(r"^(?:([-+=])|(\d{1,9})([.)]))")
"""How a line begins that is an item of a list or underlines the one above."""


@cache
def template(source: str) -> Template:
    """A template that has filters which make Markdown cells; compiled once."""
    made = Environment(
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    filters: dict[str, Callable[..., str]] = {"cell": cell, "item": item, "code": code, "percent": percent}
    made.filters |= filters | {"number": number, "listed": listed, "whole_percent": whole_percent}
    made.filters["over_clients"] = over_clients
    return made.from_string(source)


def cell(value: Any) -> str:
    """Text that Markdown shows as it is, on one line, wherever that begins with something else."""
    return ADDRESS.sub(r"\\\g<0>", visible_line(str(value)).translate(MARKDOWN))


def item(value: Any) -> str:
    """The same at the beginning of an item of a list."""
    return MARK.sub(lambda found: f"\\{found[1]}" if found[1] else f"{found[2]}\\{found[3]}", cell(value))


def code(value: Any) -> str:
    """Text for between backticks."""
    return visible_line(str(value)).replace("`", "'")


def percent(value: float | None) -> str:
    """A fraction as a percentage with two decimals; a dash where there is none."""
    return "–" if value is None or math.isnan(value) else f"{100 * value:.2f}%"


def whole_percent(value: float) -> str:
    """A fraction as a whole percentage."""
    return f"{100 * value:.0f}%"


def number(value: float | None) -> str:
    """A number with thin groups of thousands; a dash where there is none."""
    if value is None:
        return "–"
    return f"{value:,}" if isinstance(value, int) else f"{value:g}"
