"""A section of the report, whoever has something to say: a method, a part, or the report itself."""

# ruff: noqa: E501

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from fedtag.server.pages.chart import Chart
from fedtag.server.tracking.disclosures import Disclosure
from fedtag.server.tracking.rows import ClientRow
from fedtag.server.tracking.run_directory import RunDirectory

SECTION = """\
{% macro section_body(section) %}
{% set most_rows = 400 %}
{% for sentence in section.sentences %}<p>{{ sentence }}</p>
{% endfor %}
{% if section.drawing %}<div style="max-width:40rem">{{ section.drawing }}</div>{% endif %}
{% for table in section.tables %}
{% set cut = table.rows|length > most_rows %}
{% if table.caption or cut %}<p class="note">{{ table.caption }}{% if cut %} The first {{ most_rows }} of {{ table.rows|length }} rows; the files of the run have all.{% endif %}</p>{% endif %}
<div class="scroll" tabindex="0"><table>
<thead><tr>{% for title in table.texts %}<th scope="col">{{ title }}</th>{% endfor %}{% for title in table.numbers %}<th scope="col" class="number">{{ title }}</th>{% endfor %}</tr></thead>
<tbody>
{% for row in table.rows[:most_rows] %}<tr>{% for cell in row %}{% if loop.first %}<th scope="row"><bdi>{{ cell }}</bdi></th>{% elif loop.index0 < table.texts|length %}<td><bdi>{{ cell }}</bdi></td>{% else %}<td class="number">{{ cell }}</td>{% endif %}{% endfor %}</tr>
{% endfor %}
</tbody></table></div>
{% endfor %}
{% if section.charts %}<div class="charts">{% for chart in section.charts %}{{ figure(chart) }}{% endfor %}</div>{% endif %}
{% endmacro %}
{% macro section_of(section) %}
<h3>{{ section.title }}</h3>
{{ section_body(section) }}
{% for one in section.inner %}
{% if one.folded %}
<details><summary><bdi>{{ one.title }}</bdi>{% if one.warning %} <span class="warn">{{ one.warning }}</span>{% endif %}</summary>
{{ section_body(one) }}
</details>
{% else %}
<h4>{{ one.title }}</h4>
{{ section_body(one) }}
{% endif %}
{% endfor %}
{% endmacro %}
"""


@dataclass(frozen=True)
class Table:
    """A table of cells in words.

    Args:
        texts: headings of the columns of text, of which the first names the row.
        numbers: headings of the columns of numbers, which come after these.
        rows: a cell for each heading.
        caption: may be empty.
    """

    texts: tuple[str, ...]
    numbers: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    caption: str = ""


@dataclass(frozen=True)
class ReportSection:
    """What the page shows under a heading, in this order.

    Args:
        title: the heading.
        sentences: a paragraph each.
        drawing: an SVG element.
        tables, charts: may be empty.
        inner: sections below this one, which have none of their own.
        folded: an inner one shows its title alone until somebody opens it, with a `warning`, if there is one.
    """

    title: str
    sentences: tuple[str, ...] = ()
    drawing: Markup | None = None
    tables: tuple[Table, ...] = ()
    charts: tuple[Chart, ...] = ()
    inner: tuple[ReportSection, ...] = ()
    folded: bool = False
    warning: str = ""


@dataclass(frozen=True)
class Recorded:
    """What a run left, for whoever makes sections of it.

    Args:
        directory: of the run, finished or not.
        clients: its rows of clients.jsonl.
        disclosures: its rows of disclosures.jsonl.
    """

    directory: RunDirectory
    clients: Sequence[ClientRow]
    disclosures: Sequence[Disclosure]


Sections = Callable[[Recorded], Sequence[ReportSection]]
"""What `report` of a specification names: the sections, none where the run recorded nothing for them.

Raises:
    RunError: a file of the run is damaged.
"""
