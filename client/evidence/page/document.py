"""The file of an audit page: one HTML document that needs nothing beside it."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from fedtag.client.evidence.faithfulness_view import faithfulness_view
from fedtag.client.evidence.measured import NOT_EFFECT, NOT_LOWER, OTHER_INPUTS, shown
from fedtag.client.evidence.page.content import SAMPLE, Content, block
from fedtag.client.evidence.page.views import AuditedSite, Views
from fedtag.client.site.whole_file import write_whole
from fedtag.common.wording.signs import signed
from fedtag.common.wording.visible import visible_value

MOST_NODES = 5000
MOST_BYTES = 6_000_000
"""A page holds no more; `fedtag audit --serve` shows any number of nodes."""
SCRIPTS = (
    "elements",
    "matching",
    "source",
    "wording",
    "verdicts",
    "charts",
    "overview",
    "nodes",
    "neighbourhood",
    "spans",
    "node",
    "routes",
)
"""Of a page, in the order in which they are put together."""


def write_page(
    site: AuditedSite,
    out: Path,
    sample: int = SAMPLE,
    summary: Mapping[str, Any] | None = None,
    most: int = MOST_NODES,
    most_bytes: int = MOST_BYTES,
) -> int:
    """Write the audit page of a site.

    All packs are verified. The page holds texts of the institution: it is for readers inside it. It loads nothing and
    sends nothing, and its content security policy lets no text of a node do so. Where it has no room for all nodes,
    those with violations come first, then the drawn sample and what was surely wrong.

    Args:
        site: whose evidence it is.
        out: the HTML file.
        sample: how many nodes are drawn for an auditor.
        summary: faithfulness of the site, as its file holds it.
        most, most_bytes: of nodes and bytes on the page.

    Returns:
        how many nodes it holds.
    """
    content = Content(Views(site), sample)
    kept = min(most, len(site.packs))
    while True:
        rows = content.first(kept).tolist()
        page = document(site.title, (content.overview(kept), block(content, rows)), summary).encode()
        if len(page) <= most_bytes or kept <= 1:
            break
        kept = max(1, int(kept * 0.95 * most_bytes / len(page)))
    write_whole(out, page)
    return kept


def document(
    title: str, data: tuple[dict[str, Any], dict[str, Any]] | None, summary: Mapping[str, Any] | None
) -> str:
    """The HTML of a page.

    Args:
        title: its heading.
        data: overview, and what `block` gives; None where the page asks the server that it comes from.
        summary: as of `write_page`.
    """
    script, style = _script(), _asset("page.css")
    return (
        _environment()
        .get_template("page.html.j2")
        .render(
            title=title,
            script=script,
            style=style,
            sources={"script": _digest(script), "style": _digest(style)},
            data=None
            if data is None
            else dict(zip(("overview", "rest"), map(compressed, data), strict=True)),
            measured=None if summary is None else faithfulness_view(summary),
            words=json.dumps({"notLower": NOT_LOWER, "otherInputs": OTHER_INPUTS}),
            not_effect=NOT_EFFECT,
        )
    )


def compressed(data: Mapping[str, Any]) -> str:
    """JSON under gzip, in base64; the same data give the same text."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()


@cache
def _script() -> str:
    parts = "\n".join(_asset(f"scripts/{name}.js") for name in SCRIPTS)
    return f'(function () {{\n"use strict";\n{parts}\nstart();\n}})();'


def _asset(name: str) -> str:
    return (Path(__file__).parent / name).read_text(encoding="utf-8")


def _digest(source: str) -> str:
    """The source expression that allows exactly this inline script or style."""
    return "sha256-" + base64.b64encode(hashlib.sha256(source.encode()).digest()).decode()


def _code(sentence: str) -> Markup:
    """A sentence of ours, whose `commands` stand in a type of their own."""
    return Markup(re.sub("`(.+?)`", r"<code>\1</code>", str(escape(sentence))))


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(Path(__file__).parent),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=visible_value,
    )
    environment.filters["share"] = shown
    environment.filters["signed"] = signed
    environment.filters["code"] = _code
    return environment
