"""The HTML report: one self-contained page for one or several runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import accumulate
from pathlib import Path

from markupsafe import Markup

from fedtag.common.errors import RunError
from fedtag.server.pages.chart import Chart, Key, line_chart
from fedtag.server.pages.environment import environment
from fedtag.server.pages.plots import CSS_DASHES, SERIES_COLOURS, Line, line_plot
from fedtag.server.pages.reliability import Curve, reliability_chart
from fedtag.server.pages.wording import (
    duration,
    percent,
    size,
    unit_of,
)
from fedtag.server.report.aggregation import aggregation_charts
from fedtag.server.report.faithfulness import CurveLines
from fedtag.server.report.page_template import TEMPLATE
from fedtag.server.report.phases import phase_chart
from fedtag.server.report.privacy import privacy_charts
from fedtag.server.report.run_view import RunView, view_run
from fedtag.server.tracking.durable_files import write_atomically
from fedtag.server.tracking.rows import RoundRow


def write_report(run_dirs: Sequence[Path], out: Path) -> None:
    """Write the report of one or several run directories, finished or not.

    Args:
        run_dirs: at least one; the first is the first in every table.
        out: the HTML file; replaced atomically.

    Raises:
        RunError: no directory was given, one is no run directory, or a file in it is damaged.
    """
    if not run_dirs:
        raise RunError("a report of no run was asked for; name at least one run directory")
    out.parent.mkdir(parents=True, exist_ok=True)
    views = [view_run(path, name, f"own{index}") for index, (path, name) in enumerate(named(run_dirs))]
    write_atomically(out, render_report(views).encode("utf-8", "replace"))


def render_report(runs: Sequence[RunView]) -> str:
    """The page as text; equal runs give equal text."""
    return (
        environment()
        .from_string(TEMPLATE)
        .render(
            runs=runs,
            overview=[chart for chart in overview_charts(runs) if chart],
            phase_charts=[phase_chart(run, f"phases{index}") for index, run in enumerate(runs)],
            aggregation_charts=[
                aggregation_charts(run.aggregation, f"aggregation{index}") for index, run in enumerate(runs)
            ],
            curve_charts=[curve_charts(run, f"curves{index}") for index, run in enumerate(runs)],
            privacy_charts=[privacy_charts(run.privacy, f"privacy{index}") for index, run in enumerate(runs)],
            several=len(runs) > 1,
        )
    )


def named(run_dirs: Sequence[Path]) -> list[tuple[Path, str]]:
    """Each directory with its name: the shortest end of its path that tells all of them apart."""
    parts = [path.resolve().parts for path in run_dirs]
    different, longest = len(set(parts)), max(map(len, parts))
    length = next(n for n in range(1, longest + 1) if len({own[-n:] for own in parts}) == different)
    return [(path, "/".join(own[-length:])) for path, own in zip(run_dirs, parts, strict=True)]


def overview_charts(runs: Sequence[RunView]) -> list[Chart | None]:
    """Accuracy, loss and traffic over rounds, and reliability in the best one, all runs in each."""
    if len(runs) == 1:
        pairs = [(runs[0], 0, 1)]
        accuracy_keys = [Key("test", 0), Key("validation", 1, CSS_DASHES[1])]
        traffic_keys = [Key("up", 0), Key("down", 1, CSS_DASHES[1])]
        single_keys = []
    else:
        pairs = [(run, index, index) for index, run in enumerate(runs)]
        single_keys = [Key(run.name, index % SERIES_COLOURS) for index, run in enumerate(runs)]
        accuracy_keys = traffic_keys = single_keys
    accuracy, loss, traffic = [], [], []
    for run, solid, dashed in pairs:
        accuracy += [line(run, "test_accuracy", solid), line(run, "val_accuracy", dashed, dash=1)]
        loss.append(line(run, "train_loss", solid))
        for name, colour, dash in (("bytes_up", solid, 0), ("bytes_down", dashed, 1)):
            totals = accumulate(float(getattr(row, name)) for row in run.rounds)
            numbers = [row.round for row in run.rounds]
            traffic.append(Line(numbers, list(totals), colour, dash))
    unit, scale = unit_of(max((value or 0.0 for one in traffic for value in one.values), default=0.0))
    scaled = [
        Line(one.rounds, [(value or 0.0) / scale for value in one.values], one.colour, one.dash)
        for one in traffic
    ]
    lines = "Solid: test. Dashed: validation." if len(runs) > 1 else ""
    directions = "Solid: from clients to the server. Dashed: to the clients." if len(runs) > 1 else ""
    accuracy_words = words(runs, "test_accuracy", "Test accuracy", percent)
    loss_words = words(runs, "train_loss", "Training loss", lambda value: f"{value:.3f}")
    sent = "; ".join(f"{run.name}: {size(run.bytes_up)} up, {size(run.bytes_down)} down" for run in runs)
    return [
        line_chart("Accuracy", lines, accuracy_words, accuracy, "accuracy", accuracy_keys, in_percent=True),
        line_chart("Training loss", "", loss_words, loss, "loss", single_keys),
        line_chart(
            "Traffic, cumulative",
            directions,
            sent,
            scaled,
            "traffic",
            traffic_keys,
            y_label=unit,
            from_zero=True,
        ),
        seconds_chart(runs, single_keys) if len(runs) > 1 else None,
        reliability_chart(reliability_curves(runs), "reliability"),
    ]


def seconds_chart(runs: Sequence[RunView], keys: Sequence[Key]) -> Chart | None:
    """Seconds a round, one line a run."""
    lines = [line(run, "seconds", index) for index, run in enumerate(runs)]
    alt = "; ".join(f"{run.name}: median {duration(run.seconds_per_round)}" for run in runs)
    return line_chart("Seconds per round", "", alt, lines, "seconds", keys, y_label="seconds", from_zero=True)


def reliability_curves(runs: Sequence[RunView]) -> list[Curve]:
    """The curves of the runs that have calibration bins, in the colours of their lines."""
    return [
        Curve(run.name, run.reliability, run.test_ece, index)
        for index, run in enumerate(runs)
        if run.reliability
    ]


def line(run: RunView, name: str, colour: int, *, dash: int = 0) -> Line:
    """One number of every round."""
    return Line([row.round for row in run.rounds], [getattr(row, name) for row in run.rounds], colour, dash)


def curve_charts(run: RunView, identity: str) -> list[list[Chart]]:
    """For each way of predicting whose faithfulness was measured, its deletion and insertion curves."""
    if run.faithfulness is None:
        return []
    return [
        [curve_chart(curves, f"{identity}-{row}-{column}") for column, curves in enumerate(predictor.curves)]
        for row, predictor in enumerate(run.faithfulness.predictors)
    ]


def curve_chart(curves: CurveLines, identity: str) -> Chart:
    """Probabilities over the number of chunks."""
    svg = Markup(
        line_plot(curves.lines, "mean probability", identity, x_label="chunks", percent=True, from_zero=True)
    )
    keys = tuple(Key(name, number, CSS_DASHES[number]) for number, name in enumerate(curves.names))
    return Chart(curves.title, curves.note, curves.alt, svg, keys)


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
