"""The section of the report on condensed graphs: what clients showed one another, and what became of structure."""

# ruff: noqa: E501

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedtag.common.errors import RunError
from fedtag.common.methods.fedc4.names import STRUCTURE_FILE
from fedtag.common.secure.phases import SHARES
from fedtag.server.report.chart import Chart, Key, line_chart
from fedtag.server.report.plots import CSS_DASHES, SERIES_COLOURS, Line
from fedtag.server.report.wording import unit_of
from fedtag.server.tracking.disclosure_table import SERVER
from fedtag.server.tracking.rows import ClientRow, Disclosure

GRAPHS = ("original", "condensed", "rebuilt")

SECTION = """\
{% macro collaboration(view, charts) %}
{% if view.shown or view.condensed or view.structures %}
<h3>Condensed graphs</h3>
{% if view.condensed %}
<div class="scroll"><table>
<caption>Copied: condensed nodes whose features are those of a real node. Close: those nearer to a real node than any other real node is. Both are signs of a leak.</caption>
<thead><tr><th scope="col">Client</th><th scope="col" class="number">Nodes</th><th scope="col" class="number">Condensed</th><th scope="col" class="number">Copied</th><th scope="col" class="number">Close</th></tr></thead>
<tbody>
{% for client, told in view.condensed.items() %}<tr><th scope="row"><bdi>{{ client }}</bdi></th><td class="number">{{ told.get("nodes")|count }}</td><td class="number">{{ told.get("core")|count }}</td><td class="number">{{ told.get("copied")|percent }}</td><td class="number">{{ told.get("close")|percent }}</td></tr>
{% endfor %}
</tbody></table></div>
{% endif %}
{% if view.structures %}
<div class="scroll"><table>
<caption>Structure of the graphs at each site, as far as this machine has it. Divergence: of degrees over their mean from those of the original graph, in nats.</caption>
<thead><tr><th scope="col">Client</th><th scope="col">Graph</th><th scope="col" class="number">Nodes</th><th scope="col" class="number">Density</th><th scope="col" class="number">Homophily</th><th scope="col" class="number">Divergence</th></tr></thead>
<tbody>
{% for client, graphs in view.structures.items() %}{% for name, one in graphs.items() %}<tr><th scope="row"><bdi>{{ client }}</bdi></th><td>{{ name }}</td><td class="number">{{ one.nodes|count }}</td><td class="number">{{ one.density|fixed(3) }}</td><td class="number">{{ one.homophily|fixed(3) }}</td><td class="number">{{ one.degree_divergence|fixed(3) }}</td></tr>
{% endfor %}{% endfor %}
</tbody></table></div>
{% endif %}
{% if view.shown %}
<h4>Between clients</h4>
{% if charts %}<div class="charts">{% for chart in charts %}{{ figure(chart) }}{% endfor %}</div>{% endif %}
<div class="scroll"><table>
<caption>What each client showed to whom. The server carried it sealed, and saw sizes, numbers and addresses.</caption>
<thead><tr><th scope="col">From</th><th scope="col">To</th><th scope="col">Kind</th><th scope="col" class="number">Records</th><th scope="col" class="number">Bytes</th></tr></thead>
<tbody>
{% for line in view.shown %}<tr><th scope="row"><bdi>{{ line.sender }}</bdi></th><td><bdi>{{ line.receiver }}</bdi></td><td><bdi>{{ line.kind }}</bdi></td><td class="number">{{ line.count|count }}</td><td class="number">{{ line.bytes|size }}</td></tr>
{% endfor %}
</tbody></table></div>
{% endif %}
{% endif %}
{% endmacro %}
"""


@dataclass(frozen=True)
class Shown:
    """All records of a kind that one client showed another."""

    sender: str
    receiver: str
    kind: str
    count: int
    bytes: int


@dataclass(frozen=True)
class CollaborationView:
    """What the section shows.

    Args:
        shown: one line a pair of clients and kind.
        bytes_by_round: of each kind, by round.
        condensed: what clients told of their condensed graphs, by client.
        structures: of the graphs of each site whose folder is here, by client and graph.
    """

    shown: tuple[Shown, ...]
    bytes_by_round: Mapping[str, Mapping[int, int]]
    condensed: Mapping[str, Mapping[str, float | None]]
    structures: Mapping[str, Mapping[str, Mapping[str, Any]]]


def view_collaboration(
    disclosures: Sequence[Disclosure], clients: Sequence[ClientRow], sites: Path
) -> CollaborationView:
    """What a run's records say of condensed graphs and of letters between clients.

    Args:
        disclosures: of the run.
        clients: rows of clients.jsonl.
        sites: folder of the sites, which is there in simulations and after `fedtag up` only.
    """
    totals: dict[tuple[str, str, str], list[Disclosure]] = {}
    by_round: dict[str, dict[int, int]] = {}
    for row in disclosures:
        if SERVER in (row.sender, row.receiver) or row.kind == SHARES:
            continue
        totals.setdefault((row.sender, row.receiver, row.kind), []).append(row)
        kind = by_round.setdefault(row.kind, {})
        kind[row.round] = kind.get(row.round, 0) + row.bytes
    shown = tuple(
        Shown(*pair, sum(row.count for row in rows), sum(row.bytes for row in rows))
        for pair, rows in sorted(totals.items())
    )
    condensed = {row.client: row.condensation for row in clients if row.condensation}
    return CollaborationView(shown, by_round, dict(sorted(condensed.items())), _structures(sites))


def collaboration_charts(view: CollaborationView, identity: str) -> list[Chart]:
    """Bytes between clients by kind over the rounds; none where no letter was sent."""
    largest = max((value for kind in view.bytes_by_round.values() for value in kind.values()), default=0)
    unit, scale = unit_of(float(largest))
    lines, keys = [], []
    last = max((number for kind in view.bytes_by_round.values() for number in kind), default=0)
    for index, (kind, sizes) in enumerate(sorted(view.bytes_by_round.items())):
        rounds = list(range(1, last + 1))
        values: list[float | None] = [sizes.get(number, 0) / scale for number in rounds]
        lines.append(Line(rounds, values, index % SERIES_COLOURS, index))
        keys.append(Key(kind, index % SERIES_COLOURS, CSS_DASHES[index % len(CSS_DASHES)]))
    total = sum(sum(sizes.values()) for sizes in view.bytes_by_round.values())
    alt = f"Sealed letters between clients: {total} bytes over {last} rounds."
    chart = line_chart(
        "Between clients, per round", "", alt, lines, identity, keys, y_label=unit, from_zero=True
    )
    return [chart] if chart else []


def _structures(sites: Path) -> dict[str, dict[str, dict[str, Any]]]:
    found = {}
    for path in sorted(sites.glob(f"*/{STRUCTURE_FILE}")):
        try:
            told = json.loads(path.read_text())
            found[path.parent.name] = {name: dict(told[name]) for name in GRAPHS}
        except (ValueError, KeyError, TypeError) as error:
            raise RunError(
                f"{path} is damaged ({error}); delete it, the site's next run writes it anew"
            ) from error
    return found
