"""The page of a comparison: tables, plots and the runs behind them in one self-contained file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fedtag.server.comparison.audit_tables import audit_cells, audit_headings
from fedtag.server.comparison.audits import READING, audit_lines, kinds
from fedtag.server.comparison.charts import (
    audit_chart,
    reliability_of,
    rounds_chart,
    score_chart,
    time_chart,
)
from fedtag.server.comparison.page_template import TEMPLATE
from fedtag.server.comparison.results import Comparison, own_lines, score
from fedtag.server.comparison.tables import convergence, costs, scores, seeds_done
from fedtag.server.pages.chart import Chart
from fedtag.server.pages.chart_block import ChartBlock
from fedtag.server.pages.environment import template


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
    return template(TEMPLATE).render(
        comparison=comparison,
        parts=[part(comparison, data) for data in comparison.data],
        audit_reading=READING,
        runs=comparison.ordered(),
        score=score,
        block=ChartBlock(),
    )


def part(comparison: Comparison, data: str) -> Part:
    """Table and charts of one data set."""
    rows = [
        PartLine(line.row, [seeds_done(line), *scores(line, comparison), *convergence(line)], costs(line))
        for line in own_lines(comparison, data)
    ]
    rounds = any(len(comparison.curve(row.name, data)) > 1 for row in comparison.rows)
    charts = [
        score_chart(comparison, data),
        rounds_chart(comparison, data) if rounds else None,
        time_chart(comparison, data),
        reliability_of(comparison, data),
    ]
    return Part(data, rows, [chart for chart in charts if chart], audit_part(comparison, data))


def audit_part(comparison: Comparison, data: str) -> AuditPart | None:
    """What audits of the runs on a data set found."""
    chart = audit_chart(comparison, data)
    if chart is None:
        return None
    found = kinds(comparison)
    cells = [(line.row, audit_cells(line, found)) for line in audit_lines(comparison, data)]
    return AuditPart(audit_headings(comparison), cells, chart)
