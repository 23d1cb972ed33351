"""The section of the report on a graph that a federation condensed together (FedGC)."""

# ruff: noqa: E501

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fedtag.common.errors import RunError
from fedtag.common.methods.fedgc.names import CONDENSED, GRAPH, LABELLED, NODES, TRAINED, TUNED
from fedtag.common.parts.neighbour_exchange.names import COUNTS, KEY, PARTS, REQUEST
from fedtag.server.methods.fedgc.course import DISTANCES, TOTALS
from fedtag.server.methods.fedgc.course import FILE as COURSE_FILE
from fedtag.server.parts.neighbour_exchange.method import FILE as NEIGHBOUR_FILE
from fedtag.server.report.chart import Chart, Key, line_chart
from fedtag.server.report.plots import CSS_DASHES, Line
from fedtag.server.report.wording import percent
from fedtag.server.tracking.condensed_release import FILE as GRAPH_FILE
from fedtag.server.tracking.condensed_release import CondensedRelease, read_condensed
from fedtag.server.tracking.disclosure_table import SERVER
from fedtag.server.tracking.rows import ClientRow, Disclosure
from fedtag.server.tracking.run_directory import RunDirectory, read_object

EXCHANGED = {
    REQUEST: "requests, between institutions",
    KEY: "keys, between institutions",
    f"{PARTS} up": "enciphered parts, to the server",
    f"{PARTS} down": "sums, to institutions",
}
"""The records of the exchange in the order of its phases: asked, given, taken."""

WAYS = {
    GRAPH: "self-trained model",
    CONDENSED: "condensed graph, before",
    TUNED: "condensed graph, fine-tuned",
}
"""What each way of scoring scores."""

SECTION = """\
{% macro federated_condensation(view, charts) %}
{% if view.graph or view.exchange or view.classes or charts %}
<h3>One condensed graph of all clients</h3>
{% if view.graph %}
<p>{{ view.graph.nodes|count }} nodes and {{ view.graph.links|count }} links, {{ view.graph.ratio|percent }} of all clients' nodes, as of round {{ view.graph.round }}, after {{ view.graph.rounds }} of condensation. Every node is learned; none was copied.</p>
{% endif %}
{% if view.classes %}
<div class="scroll"><table>
<caption>Over all clients that took part in the last round of condensation. The server knows no pseudo-label of a single client{% if view.real_nodes is not none %}; together they have {{ view.real_nodes|count }} nodes{% endif %}.</caption>
<thead><tr><th scope="col">Class</th><th scope="col" class="number">Condensed nodes</th><th scope="col" class="number">Training nodes</th><th scope="col" class="number">Pseudo-labelled</th></tr></thead>
<tbody>
{% for one in view.classes %}<tr><th scope="row"><bdi>{{ one.name }}</bdi></th><td class="number">{{ one.condensed|count }}</td><td class="number">{{ one.trained|count }}</td><td class="number">{{ one.pseudo|count }}</td></tr>
{% endfor %}
<tr><th scope="row">all</th>{% for field in ("condensed", "trained", "pseudo") %}<td class="number">{{ (view.classes|map(attribute=field)|reject("none")|sum if view.classes[0][field] is not none else none)|count }}</td>{% endfor %}</tr>
</tbody></table></div>
{% endif %}
{% if charts %}<div class="charts">{% for chart in charts %}{{ figure(chart) }}{% endfor %}</div>{% endif %}
{% if view.exchange %}
<h4>Sums over neighbours elsewhere</h4>
<div class="scroll"><table>
<caption>Boundary: nodes with neighbours at other institutions. Too few: those with fewer such neighbours than a sum needs. Missing: those whose sum did not come whole.</caption>
<thead><tr><th scope="col">Client</th><th scope="col" class="number">Boundary</th><th scope="col" class="number">Got a sum</th><th scope="col" class="number">Too few</th><th scope="col" class="number">Missing</th></tr></thead>
<tbody>
{% for client, counts in view.exchange.items() %}<tr><th scope="row"><bdi>{{ client }}</bdi></th>{% for value in counts %}<td class="number">{{ value|count }}</td>{% endfor %}</tr>
{% endfor %}
<tr><th scope="row">all</th>{% for value in view.exchange_total %}<td class="number">{{ value|count }}</td>{% endfor %}</tr>
</tbody></table></div>
{% endif %}
{% if view.traffic %}
<p>The exchange took{% for what, bytes in view.traffic.items() %}{{ "" if loop.first else ";" }} {{ bytes|size }} of {{ what }}{% endfor %}.</p>
{% endif %}
{% endif %}
{% endmacro %}
"""


@dataclass(frozen=True)
class GraphFigures:
    """The released graph: how large, of which ratio, taken after which round, after how many of condensation."""

    nodes: int
    links: int
    ratio: float
    round: int
    rounds: int


@dataclass(frozen=True)
class ClassLine:
    """One class: its nodes in the condensed graph, training nodes and pseudo-labels; None where not recorded."""

    name: str
    condensed: int | None
    trained: int | None
    pseudo: int | None


@dataclass(frozen=True)
class CondensationView:
    """What the section shows; empty for runs of other methods.

    Args:
        graph: of the release; None where there is none yet.
        classes: one line each.
        real_nodes: of the clients behind the last round of condensation.
        distances: round, then the distance of gradients before its first and its last step.
        accuracies: test accuracy over all clients that told theirs, by way of scoring and round.
        exchange: of each client, the counts of `fedtag.common.parts.neighbour_exchange.messages.COUNTS`.
        exchange_total: over the clients.
        traffic: bytes of each kind of record of the exchange.
    """

    graph: GraphFigures | None
    classes: tuple[ClassLine, ...]
    real_nodes: int | None
    distances: tuple[tuple[int, float, float], ...]
    accuracies: Mapping[str, Mapping[int, float]]
    exchange: Mapping[str, tuple[int, ...]]
    exchange_total: tuple[int, ...]
    traffic: Mapping[str, int]


def view_condensation(
    run: RunDirectory, method: str, disclosures: Sequence[Disclosure], clients: Sequence[ClientRow]
) -> CondensationView:
    """What a run directory says of a condensed graph that all clients learned.

    Raises:
        RunError: a file is damaged.
    """
    if method != "fedgc":
        return CondensationView(None, (), None, (), {}, {}, (), {})
    release = read_condensed(run.path) if (run.path / GRAPH_FILE).is_file() else None
    names = list(release.card.classes) if release is not None else []
    condensed = release.graph.y.bincount(minlength=len(names)).tolist() if release is not None else None
    course = read_object(run.path / COURSE_FILE) or {}
    told = read_object(run.path / NEIGHBOUR_FILE) or {}
    try:
        totals = course.get(TOTALS)
        distances = tuple(
            (int(one["round"]), float(one["first"]), float(one["last"])) for one in course.get(DISTANCES, ())
        )
        trained = pseudo = real_nodes = None
        if totals is not None:
            trained, real_nodes = list(map(int, totals[TRAINED])), int(totals[NODES])
            pseudo = [int(all_) - own for all_, own in zip(totals[LABELLED], trained, strict=True)]
        exchange = {client: _counts(one) for client, one in told.get("clients", {}).items()}
        total = _counts(told["total"]) if told else ()
        if trained is not None and condensed is not None and len(trained) != len(condensed):
            raise ValueError(f"{len(trained)} classes in place of {len(condensed)}")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RunError(
            f"{run.path / COURSE_FILE} or {NEIGHBOUR_FILE} beside it is damaged ({error}): restore them from the run"
        ) from error
    known = names or [f"class {number}" for number in range(len(trained or ()))]
    classes = tuple(
        ClassLine(
            name,
            condensed[number] if condensed is not None else None,
            trained[number] if trained is not None else None,
            pseudo[number] if pseudo is not None else None,
        )
        for number, name in enumerate(known)
    )
    return CondensationView(
        None if release is None else _figures(release),
        classes,
        real_nodes,
        distances,
        _accuracies(clients),
        exchange,
        total,
        _traffic(disclosures),
    )


def condensation_charts(view: CondensationView, identity: str) -> list[Chart]:
    """The distance of gradients over rounds, and accuracy before and after fine-tuning."""
    numbers = [number for number, _, _ in view.distances]
    ends = (("before the first step", 1), ("before the last step", 2))
    distances = [
        Line(numbers, [one[place] for one in view.distances], place - 1, place - 1) for _, place in ends
    ]
    said = "; ".join(f"round {number}: {first:.4g} to {last:.4g}" for number, first, last in view.distances)
    ways = {name: view.accuracies[way] for way, name in WAYS.items() if way in view.accuracies}
    accuracies = [
        Line(list(found), list(found.values()), place, place) for place, found in enumerate(ways.values())
    ]
    scored = "; ".join(
        f"{name}, round {number}: {percent(value)}"
        for name, found in ways.items()
        for number, value in found.items()
    )
    charts = [
        line_chart(
            "Distance of gradients",
            "Every round has a new matching model: the first step's distance is on one that the graph never saw.",
            said,
            distances,
            f"{identity}-distance",
            [Key(name, place - 1, CSS_DASHES[place - 1]) for name, place in ends],
            from_zero=True,
        ),
        line_chart(
            "Accuracy before and after fine-tuning",
            "On the test nodes of all clients together, each scored by its own model where that is fine-tuned.",
            scored,
            accuracies,
            f"{identity}-ways",
            [Key(name, place, CSS_DASHES[place]) for place, name in enumerate(ways)],
            in_percent=True,
        ),
    ]
    return [chart for chart in charts if chart is not None]


def _figures(release: CondensedRelease) -> GraphFigures:
    graph, card = release.graph, release.card
    return GraphFigures(graph.num_nodes, graph.edge_index.shape[1] // 2, card.ratio, card.round, card.rounds)


def _counts(told: Mapping[str, int]) -> tuple[int, ...]:
    return tuple(int(told[name]) for name in COUNTS)


def _accuracies(clients: Sequence[ClientRow]) -> dict[str, dict[int, float]]:
    """Right test nodes over test nodes, of the clients that scored a way in a round."""
    right: dict[tuple[str, int], float] = defaultdict(float)
    nodes: dict[tuple[str, int], int] = defaultdict(int)
    for row in clients:
        for way in WAYS:
            share = row.scores.get(f"test_accuracy_{way}")
            if share is not None and row.test_nodes:
                right[way, row.round] += share * row.test_nodes
                nodes[way, row.round] += row.test_nodes
    found: dict[str, dict[int, float]] = {}
    for (way, number), count in nodes.items():
        found.setdefault(way, {})[number] = right[way, number] / count
    return found


def _traffic(disclosures: Sequence[Disclosure]) -> dict[str, int]:
    """Bytes of each kind of record of the exchange of neighbour sums; empty without."""
    sizes: dict[str, int] = defaultdict(int)
    for row in disclosures:
        if row.kind == PARTS:
            sizes[f"{PARTS} {'up' if row.receiver == SERVER else 'down'}"] += row.bytes
        elif row.kind in (REQUEST, KEY) and SERVER not in (row.sender, row.receiver):
            sizes[row.kind] += row.bytes
    return {name: sizes[kind] for kind, name in EXCHANGED.items() if kind in sizes}
