"""The page of a comparison: tables, plots and the runs behind them in one self-contained file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from fedtag.server.comparison.attacked import NAMES
from fedtag.server.comparison.audit_plots import audit_svg
from fedtag.server.comparison.audit_tables import area, audit_cells, audit_headings
from fedtag.server.comparison.audits import READING, audit_lines, kinds
from fedtag.server.comparison.cells import percents
from fedtag.server.comparison.convergence import Point
from fedtag.server.comparison.page_template import TEMPLATE
from fedtag.server.comparison.plots import curve_lines, score_svg
from fedtag.server.comparison.results import Comparison, Line, lines
from fedtag.server.comparison.tables import convergence, costs, mean, scores, seeds_done
from fedtag.server.pages import plots
from fedtag.server.pages.chart import Chart, Key
from fedtag.server.pages.environment import environment
from fedtag.server.pages.plots import SERIES_COLOURS
from fedtag.server.pages.reliability import Curve, reliability_chart


@dataclass(frozen=True)
class PartLine:
    """One row of the tables: its name and what stands in the columns."""

    name: str
    scores: Sequence[str]
    costs: Sequence[str]


@dataclass(frozen=True)
class AuditPart:
    """What audits found: headings, the cells of each row, and the plot."""

    headings: Sequence[str]
    lines: Sequence[tuple[str, Sequence[str]]]
    chart: Chart


@dataclass(frozen=True)
class Part:
    """What the page shows of one data set; `audit` is None where no run was audited."""

    data: str
    lines: Sequence[PartLine]
    charts: Sequence[Chart]
    audit: AuditPart | None


def render_comparison(comparison: Comparison) -> str:
    """The page as text; equal comparisons give equal text."""
    every = list(lines(comparison))
    parts = [
        part(comparison, data, [line for line in every if line.data == data], f"data{index}")
        for index, data in enumerate(comparison.data)
    ]
    template = environment().from_string(TEMPLATE)
    return template.render(
        comparison=comparison, parts=parts, audit_reading=READING, runs=comparison.ordered()
    )


def part(comparison: Comparison, data: str, own: Sequence[Line], identity: str) -> Part:
    """Table and charts of one data set."""
    rows = [
        PartLine(
            line.row,
            [seeds_done(line), *scores(line, comparison.baseline), *convergence(line)],
            costs(line),
        )
        for line in own
    ]
    words = "; ".join(f"{line.row}: {percents(line.test)} percent" for line in own)
    charts = [
        Chart("Test accuracy", "", words, Markup(score_svg(comparison, data, f"{identity}-scores")), ())
    ]
    curves = {row.name: comparison.curve(row.name, data) for row in comparison.rows}
    if any(len(found) > 1 for found in curves.values()):
        charts.append(curve_chart(curves, f"{identity}-rounds"))
    reliability = reliability_chart(
        reliability_curves(comparison, own),
        f"{identity}-reliability",
        "Bins hold the nodes of all seeds, the errors are means over seeds.",
    )
    if reliability is not None:
        charts.append(reliability)
    return Part(data, rows, charts, audit_part(comparison, data, f"{identity}-audit"))


def audit_part(comparison: Comparison, data: str, identity: str) -> AuditPart | None:
    """What audits of the runs on a data set found."""
    lines = audit_lines(comparison, data)
    if not lines:
        return None
    found = kinds(comparison)
    words = "; ".join(
        f"{line.row}, {NAMES[kind]}: AUC {area(line.areas[kind])}, accuracy {percents(line.test)} percent"
        for line in lines
        for kind in line.areas
    )
    note = "A mark a row and target, faint ones single runs; lines join rows that set the same settings."
    svg = Markup(audit_svg(comparison, data, identity))
    chart = Chart("Test accuracy against the strongest attack", note, words, svg, ())
    cells = [(line.row, audit_cells(line, found)) for line in lines]
    return AuditPart(audit_headings(comparison), cells, chart)


def reliability_curves(comparison: Comparison, own: Sequence[Line]) -> list[Curve]:
    """The rows that have calibration bins, in colours and dashes by their place."""
    return [
        Curve(line.row, bins, mean(line.ece), place % SERIES_COLOURS, place // SERIES_COLOURS)
        for place, line in enumerate(own)
        if (bins := comparison.reliability(line.row, line.data))
    ]


def curve_chart(curves: Mapping[str, Sequence[Point]], identity: str) -> Chart:
    """Test accuracy over rounds, one line a row."""
    drawn = curve_lines(curves)
    keys = [
        Key(name, line.colour, plots.CSS_DASHES[line.dash % len(plots.CSS_DASHES)])
        for name, line in drawn.items()
    ]
    words = (
        f"{name}: {100 * curves[name][-1].test.mean:.2f} percent in round {curves[name][-1].round}"
        for name in drawn
    )
    svg = Markup(plots.line_plot(list(drawn.values()), "", identity, percent=True))
    note = "Of the global model of each round: mean over seeds, band of one standard deviation."
    return Chart("Test accuracy over rounds", note, "; ".join(words), svg, tuple(keys))
