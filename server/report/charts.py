"""The charts of runs: scores, loss, traffic and time over rounds, and what methods, parts and audits bring."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate

from fedtag.common.wording.scoring import ACCURACY, METRICS, capital, column
from fedtag.server.pages.chart import Chart, Rule, Series, line_chart
from fedtag.server.pages.reliability import Curve, reliability_chart
from fedtag.server.pages.section import ReportSection
from fedtag.server.pages.wording import duration, percent, size, unit_of
from fedtag.server.report.aggregation import aggregation_charts
from fedtag.server.report.client_series import series_chart
from fedtag.server.report.phases import phase_chart
from fedtag.server.report.privacy import privacy_charts
from fedtag.server.report.run_view import RunView
from fedtag.server.tracking.rows import RoundRow


def overview_charts(runs: Sequence[RunView]) -> list[Chart]:
    """Scores, loss and traffic over rounds, and reliability in the best one, all runs in each."""
    several = len(runs) > 1
    metrics = [
        ACCURACY,
        *(one for one in METRICS if one != ACCURACY and any(run.metric == one for run in runs)),
    ]
    loss = [over_rounds(run, "train_loss", run.name, place) for place, run in enumerate(runs)]
    loss_words = words(runs, "train_loss", "Training loss", lambda value: f"{value:.3f}")
    charts = [
        *(metric_chart(runs, metric) for metric in metrics),
        line_chart("Training loss", "", loss_words, loss, y_label="training loss"),
        traffic_chart(runs),
        seconds_chart(runs) if several else None,
        reliability_chart(reliability_curves(runs)),
    ]
    return [chart for chart in charts if chart]


def charts_of(run: RunView, place: int = 0) -> dict[str, list[Chart]]:
    """The charts that a run has for itself, by the section of the page in which they stand.

    Args:
        run: whose they are.
        place: of its record of clients in the page.
    """
    found: dict[str, Sequence[Chart | None]] = {
        "time": [phase_chart(run)],
        "clients": [series_chart("test accuracy", "", run.client_tests, "test_accuracy", place, "percent")],
        "privacy": privacy_charts(run.privacy),
        "aggregation": aggregation_charts(run.aggregation, place),
    }
    return {section: [chart for chart in charts if chart] for section, charts in found.items()}


def every_chart(run: RunView) -> Iterator[Chart]:
    """All charts of a page of one run."""
    yield from overview_charts([run])
    own = charts_of(run)
    for section in ("time", "clients"):
        yield from own[section]
    for predictor in run.faithfulness.predictors if run.faithfulness else ():
        yield from predictor.curves
    yield from own["privacy"]
    yield from section_charts(run.sections)
    yield from own["aggregation"]


def section_charts(sections: Sequence[ReportSection]) -> Iterator[Chart]:
    """The charts of sections and of those below them."""
    for section in sections:
        yield from section.charts
        yield from section_charts(section.inner)


def metric_chart(runs: Sequence[RunView], metric: str) -> Chart | None:
    """A metric over rounds, on test and on validation nodes; of one run with its released round.

    Args:
        runs: all of them.
        metric: a value of `evaluation.metric`.
    """
    name, title = column(metric), METRICS[metric]
    several = len(runs) > 1
    series = [
        over_rounds(
            run,
            f"{subset}_{name}",
            f"{run.name}, {said}" if several else said,
            place if several else dash,
            dash=dash,
            legend=run.name if several else "",
        )
        for place, run in enumerate(runs)
        for dash, (subset, said) in enumerate((("test", "test"), ("val", "validation")))
    ]
    released = None if several else runs[0].best_round
    note = "Solid: test. Dashed: validation." if several else ""
    note = note if released is None else f"Dotted: the released round, {released}."
    rules = [] if released is None else [Rule(f"released: round {released}", x=(released, released))]
    alt = words(runs, f"test_{name}", f"Test {title}", percent)
    return line_chart(capital(title), note, alt, series, y_label=title, kind="percent", rules=rules)


def traffic_chart(runs: Sequence[RunView]) -> Chart | None:
    """Bytes from and to the clients up to each round."""
    several = len(runs) > 1
    totals = {
        (place, run.name, direction): list(accumulate(float(getattr(row, name)) for row in run.rounds))
        for place, run in enumerate(runs)
        for direction, name in (("up", "bytes_up"), ("down", "bytes_down"))
    }
    unit, scale = unit_of(max((value for own in totals.values() for value in own), default=0.0))
    series = [
        Series(
            f"{name}, {direction}" if several else direction,
            [row.round for row in runs[place].rounds],
            [value / scale for value in own],
            place if several else int(direction == "down"),
            int(direction == "down"),
            legend=name if several else "",
        )
        for (place, name, direction), own in totals.items()
    ]
    note = "Solid: from clients to the server. Dashed: to the clients." if several else ""
    sent = "; ".join(f"{run.name}: {size(run.bytes_up)} up, {size(run.bytes_down)} down" for run in runs)
    return line_chart("Traffic, cumulative", note, sent, series, y_label=unit, from_zero=True)


def seconds_chart(runs: Sequence[RunView]) -> Chart | None:
    """Seconds a round, one line a run."""
    series = [over_rounds(run, "seconds", run.name, place) for place, run in enumerate(runs)]
    alt = "; ".join(f"{run.name}: median {duration(run.seconds_per_round)}" for run in runs)
    return line_chart("Seconds per round", "", alt, series, y_label="seconds", from_zero=True)


def reliability_curves(runs: Sequence[RunView]) -> list[Curve]:
    """The curves of the runs that have calibration bins, in the colours of their lines."""
    return [
        Curve(run.name, run.reliability, run.test_ece, place)
        for place, run in enumerate(runs)
        if run.reliability
    ]


def over_rounds(
    run: RunView, field: str, name: str, colour: int, *, dash: int = 0, legend: str = ""
) -> Series:
    """One number of every round."""
    values = [getattr(row, field) for row in run.rounds]
    return Series(name, [row.round for row in run.rounds], values, colour, dash, legend=legend)


def words(runs: Sequence[RunView], name: str, title: str, show: Callable[[float], str]) -> str:
    """From where to where a number went, for readers who do not see the plot."""
    sentences = []
    for run in runs:
        rows: list[RoundRow] = [row for row in run.rounds if getattr(row, name) is not None]
        if rows:
            first, last = rows[0], rows[-1]
            sentences.append(
                f"{title} of {run.name}: {show(getattr(first, name))} in round {first.round}, "
                f"{show(getattr(last, name))} in round {last.round}."
            )
    return " ".join(sentences)
