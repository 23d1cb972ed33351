"""The charts of a comparison: a mark a row with its seeds, or lines along a setting; scores over rounds and time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf

from fedtag.server.comparison.attacked import NAMES
from fedtag.server.comparison.audit_tables import area
from fedtag.server.comparison.audits import AuditLine, audit_lines, kinds
from fedtag.server.comparison.cells import percents
from fedtag.server.comparison.results import Comparison, Line, Row, own_lines, tested
from fedtag.server.comparison.statistics import Spread
from fedtag.server.comparison.tables import mean
from fedtag.server.pages.chart import SERIES_COLOURS, Axis, Chart, Panel, Rule, Series, bounded, line_chart
from fedtag.server.pages.reliability import Curve, reliability_chart
from fedtag.server.pages.wording import duration


def of_all_data(chart: Callable[[Comparison, str], Chart | None], comparison: Comparison) -> list[Chart]:
    """A kind of chart of each data set that has it."""
    return [found for data in comparison.data if (found := chart(comparison, data)) is not None]


def score_chart(comparison: Comparison, data: str) -> Chart:
    """The metric of every row on test nodes."""
    own = own_lines(comparison, data)
    words = "; ".join(f"{line.row}: {percents(line.test)} percent" for line in own)
    panel = along_panel(comparison, own) if comparison.axis else rows_panel(comparison, own)
    note = "Mean and standard deviation, within 0 and 100%" + ("." if comparison.axis else ", and each seed.")
    return Chart(
        titled(comparison, f"Test {comparison.title_of_metric}", data), note, words, (bounded(panel),)
    )


def rows_panel(comparison: Comparison, own: Sequence[Line]) -> Panel:
    """A mark and its standard deviation a row, the runs of single seeds faint beside it.

    Marks and not bars, because the axis does not start at zero.
    """
    series = []
    for place, line in enumerate(own):
        if line.test is None:
            continue
        colour = int(line.row == comparison.baseline)
        single = list(tested(comparison.of(line.row, line.data), comparison.metric).values())
        each = [float(place)] * len(single)
        series.append(Series(f"{line.row}, a seed", single, each, colour, drawn="marks", faint=True))
        low, high = around(line.test)
        series.append(
            Series(
                line.row,
                [line.test.mean],
                [float(place)],
                colour,
                drawn="marks",
                left=[low],
                right=[high],
                legend="baseline" if colour else "rows",
            )
        )
    x = Axis(f"test {comparison.title_of_metric}", "percent")
    return Panel(x, Axis(names=tuple(line.row for line in own)), tuple(series))


def along_panel(comparison: Comparison, own: Sequence[Line]) -> Panel:
    """One line a series along the axis; rows without a place on it lie across."""
    rows = {row.name: row for row in comparison.rows}
    placed = [(rows[line.row], line.test) for line in own if line.test is not None]
    x = Axis(comparison.axis)
    there = [(row, row.place, test) for row, test in placed if row.place is not None]
    ends = sorted(place for _, place, _ in there)
    series: list[Series] = []
    for name in dict.fromkeys(row.series for row, _, _ in there):
        members = sorted(
            (place, test.mean, *around(test)) for row, place, test in there if row.series == name
        )
        places, means, low, high = zip(*members, strict=True)
        series.append(Series(name or comparison.axis, places, means, len(series), low=low, high=high))
    for row, test in placed:
        if row.place is None and ends:
            across = [test.mean, test.mean]
            series.append(Series(row.name, [ends[0], ends[-1]], across, len(series), dash=1))
    return Panel(x, Axis(f"test {comparison.title_of_metric}", "percent"), tuple(series))


def rounds_chart(comparison: Comparison, data: str) -> Chart | None:
    """The metric over rounds on test nodes, one line a row, in colours and dashes by its place."""
    curves = {row.name: comparison.curve(row.name, data) for row in comparison.rows}
    series = []
    for place, (name, points) in enumerate(curves.items()):
        low, high = (
            [ends[side] for ends in map(around, (point.test for point in points))] for side in (0, 1)
        )
        rounds, means = [point.round for point in points], [point.test.mean for point in points]
        series.append(Series(name, rounds, means, *colours(place), low=low, high=high))
    words = "; ".join(
        f"{name}: {100 * points[-1].test.mean:.2f} percent in round {points[-1].round}"
        for name, points in curves.items()
        if points
    )
    note = "Of the global model of each round: mean over seeds, band of one standard deviation, within 0 and 100%."
    title = titled(comparison, f"Test {comparison.title_of_metric} over rounds", data)
    label = f"test {comparison.title_of_metric}"
    return line_chart(title, note, words, series, y_label=label, kind="percent")


def time_chart(comparison: Comparison, data: str) -> Chart | None:
    """The metric on test nodes against the time of a run, a mark a row."""
    series, said = [], []
    for place, line in enumerate(own_lines(comparison, data)):
        if line.test is None or line.seconds is None:
            continue
        (low, high), (left, right) = around(line.test), around(line.seconds, most=inf)
        series.append(
            Series(
                line.row,
                [line.seconds.mean],
                [line.test.mean],
                *colours(place),
                "marks",
                low=[low],
                high=[high],
                left=[left],
                right=[right],
            )
        )
        said.append(f"{line.row}: {percents(line.test)} percent in {duration(line.seconds.mean)}")
    title = titled(comparison, f"Test {comparison.title_of_metric} against the time of a run", data)
    x, note = Axis("seconds of a run"), "Mean and standard deviation over seeds, within 0 and 100%."
    return line_chart(
        title,
        note,
        "; ".join(said),
        series,
        y_label=f"test {comparison.title_of_metric}",
        kind="percent",
        x=x,
    )


def audit_chart(comparison: Comparison, data: str) -> Chart | None:
    """Areas to the right, accuracy upwards; colours tell rows, marks tell what was attacked.

    Faint marks are single runs. A thin line joins the rows, in their order, that set the same settings to other values.
    """
    there = audit_lines(comparison, data)
    if not there:
        return None
    found = kinds(comparison)
    series = settings_lines(comparison.rows, there, found)
    for number, kind in enumerate(found):
        for place, line in enumerate(there):
            if not line.own.get(kind):
                continue
            areas, accuracies = zip(*line.own[kind], strict=True)
            name = f"{line.row}, {NAMES[kind]}"
            series.append(
                Series(f"{name}, a run", areas, accuracies, place, number, drawn="marks", faint=True)
            )
            area_there, accuracy = centre(line, kind)
            series.append(Series(name, [area_there], [accuracy], place, number, drawn="marks"))
    words = "; ".join(
        f"{line.row}, {NAMES[kind]}: AUC {area(line.areas[kind])}, accuracy {percents(line.test)} percent"
        for line in there
        for kind in line.areas
    )
    note = "A mark a row and target, faint ones single runs; lines join rows that set the same settings."
    title = titled(comparison, "Test accuracy against the strongest attack", data)
    x = Axis("AUC of the strongest attack (dotted: guessing)")
    rules = [Rule("guessing", x=(0.5, 0.5))]
    return line_chart(title, note, words, series, y_label="test accuracy", kind="percent", x=x, rules=rules)


def settings_lines(rows: Sequence[Row], there: Sequence[AuditLine], found: Sequence[str]) -> list[Series]:
    """Lines through the rows of the same settings, of each kind of target."""
    keys = {row.name: frozenset(row.settings) for row in rows}
    series = []
    for kind in found:
        attacked = [line for line in there if line.own.get(kind)]
        for setting in dict.fromkeys(keys[line.row] for line in attacked):
            along = [centre(line, kind) for line in attacked if keys[line.row] == setting]
            if len(along) > 1:
                areas, accuracies = zip(*along, strict=True)
                name = f"rows of one setting, {NAMES[kind]}"
                series.append(Series(name, areas, accuracies, 6, 2, faint=True))
    return series


def reliability_of(comparison: Comparison, data: str) -> Chart | None:
    """The rows that have calibration bins, in colours and dashes by their place."""
    curves = [
        Curve(line.row, bins, mean(line.ece), *colours(place))
        for place, line in enumerate(own_lines(comparison, data))
        if (bins := comparison.reliability(line.row, line.data))
    ]
    return reliability_chart(curves, "Bins hold the nodes of all seeds, the errors are means over seeds.")


def titled(comparison: Comparison, title: str, data: str) -> str:
    """A title that names the data set where there are several."""
    return f"{title}, {data}" if len(comparison.data) > 1 else title


def colours(place: int) -> tuple[int, int]:
    """Colour and dash of the row at a place."""
    return place % SERIES_COLOURS, place // SERIES_COLOURS


def around(found: Spread, most: float = 1.0) -> tuple[float, float]:
    """One standard deviation below and above a mean, no further than shares, or durations, go."""
    deviation = found.std or 0.0
    return max(0.0, found.mean - deviation), min(most, found.mean + deviation)


def centre(line: AuditLine, kind: str) -> tuple[float, float]:
    """Mean area and mean accuracy of the runs in which a kind was attacked."""
    areas, accuracies = zip(*line.own[kind], strict=True)
    return sum(areas) / len(areas), sum(accuracies) / len(accuracies)
