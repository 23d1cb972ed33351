"""The section of the report on a graph that a federation condensed together (FedGC)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from fedtag.common.errors import RunError
from fedtag.common.methods.fedgc.names import CONDENSED, GRAPH, LABELLED, NODES, TRAINED, TUNED
from fedtag.server.methods.fedgc.course import DISTANCES, TOTALS
from fedtag.server.methods.fedgc.course import FILE as COURSE_FILE
from fedtag.server.methods.fedgc.release import FILE as GRAPH_FILE
from fedtag.server.methods.fedgc.release import CondensedRelease, read_condensed
from fedtag.server.pages.chart import Chart, Series, line_chart
from fedtag.server.pages.section import Recorded, ReportSection, Table
from fedtag.server.pages.wording import count, percent
from fedtag.server.tracking.durable_files import read_object
from fedtag.server.tracking.rows import ClientRow
from fedtag.server.tracking.run_directory import RunDirectory

WAYS = {
    GRAPH: "self-trained model",
    CONDENSED: "condensed graph, before",
    TUNED: "condensed graph, fine-tuned",
}
"""What each way of scoring scores."""


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
    """What the section shows.

    Args:
        graph: of the release; None where there is none yet.
        classes: one line each.
        real_nodes: of the clients behind the last round of condensation.
        distances: round, then the distance of gradients before its first and its last step.
        accuracies: test accuracy over all clients that told theirs, by way of scoring and round.
    """

    graph: GraphFigures | None
    classes: tuple[ClassLine, ...]
    real_nodes: int | None
    distances: tuple[tuple[int, float, float], ...]
    accuracies: Mapping[str, Mapping[int, float]]


def sections(recorded: Recorded) -> Sequence[ReportSection]:
    """The released graph, its classes, and how condensation went.

    Raises:
        RunError: a file is damaged.
    """
    view = view_condensation(recorded.directory, recorded.clients)
    charts = condensation_charts(view)
    if view.graph is None and not view.classes and not charts:
        return []
    return [
        ReportSection(
            "One condensed graph of all clients",
            () if view.graph is None else (_graph_sentence(view.graph),),
            tables=(_class_table(view),) if view.classes else (),
            charts=tuple(charts),
        )
    ]


def view_condensation(run: RunDirectory, clients: Sequence[ClientRow]) -> CondensationView:
    """What a run directory says of a condensed graph that all clients learned.

    Raises:
        RunError: a file is damaged.
    """
    release = read_condensed(run.path) if (run.path / GRAPH_FILE).is_file() else None
    names = list(release.card.classes) if release is not None else []
    condensed = release.graph.y.bincount(minlength=len(names)).tolist() if release is not None else None
    course = read_object(run.path / COURSE_FILE) or {}
    try:
        totals = course.get(TOTALS)
        distances = tuple(
            (int(one["round"]), float(one["first"]), float(one["last"])) for one in course.get(DISTANCES, ())
        )
        trained = pseudo = real_nodes = None
        if totals is not None:
            trained, real_nodes = list(map(int, totals[TRAINED])), int(totals[NODES])
            pseudo = [int(all_) - own for all_, own in zip(totals[LABELLED], trained, strict=True)]
        if trained is not None and condensed is not None and len(trained) != len(condensed):
            raise ValueError(f"{len(trained)} classes in place of {len(condensed)}")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise RunError(f"{run.path / COURSE_FILE} is damaged ({error}): restore it from the run") from error
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
    )


def condensation_charts(view: CondensationView) -> list[Chart]:
    """The distance of gradients over rounds, and accuracy before and after fine-tuning."""
    numbers = [number for number, _, _ in view.distances]
    ends = (("before the first step", 1), ("before the last step", 2))
    distances = [
        Series(name, numbers, [one[place] for one in view.distances], place - 1, place - 1)
        for name, place in ends
    ]
    said = "; ".join(f"round {number}: {first:.4g} to {last:.4g}" for number, first, last in view.distances)
    ways = {name: view.accuracies[way] for way, name in WAYS.items() if way in view.accuracies}
    accuracies = [
        Series(name, list(found), list(found.values()), place, place)
        for place, (name, found) in enumerate(ways.items())
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
            from_zero=True,
        ),
        line_chart(
            "Accuracy before and after fine-tuning",
            "On the test nodes of all clients together, each scored by its own model where that is fine-tuned.",
            scored,
            accuracies,
            kind="percent",
        ),
    ]
    return [chart for chart in charts if chart is not None]


def _graph_sentence(graph: GraphFigures) -> str:
    return (
        f"{count(graph.nodes)} nodes and {count(graph.links)} links, {percent(graph.ratio)} of all clients' nodes, "
        f"as of round {graph.round}, after {graph.rounds} of condensation. Every node is learned; none was copied."
    )


def _class_table(view: CondensationView) -> Table:
    """The nodes of each class, and of all."""
    lines = [(one.name, one.condensed, one.trained, one.pseudo) for one in view.classes]
    columns = [
        [value for value in column if value is not None]
        for column in zip(*((line[1], line[2], line[3]) for line in lines), strict=True)
    ]
    sums = [sum(column) if column else None for column in columns]
    told = [(line[0], line[1:]) for line in lines] + [("all", tuple(sums))]
    rows = [(str(name), *(count(value) for value in values)) for name, values in told]
    together = "" if view.real_nodes is None else f"; together they have {count(view.real_nodes)} nodes"
    return Table(
        ("Class",),
        ("Condensed nodes", "Training nodes", "Pseudo-labelled"),
        tuple(rows),
        "Over all clients that took part in the last round of condensation. The server knows no pseudo-label of a "
        f"single client{together}.",
    )


def _figures(release: CondensedRelease) -> GraphFigures:
    graph, card = release.graph, release.card
    return GraphFigures(graph.num_nodes, graph.edge_index.shape[1] // 2, card.ratio, card.round, card.rounds)


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
    for (way, number), tested in nodes.items():
        found.setdefault(way, {})[number] = right[way, number] / tested
    return found
