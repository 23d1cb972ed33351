"""The HTML report: one self-contained page for one or several runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from common.errors import RunError
from server.report.faithfulness import CurveLines
from server.report.page_template import TEMPLATE
from server.report.plots import CSS_DASHES, SERIES_COLOURS, Line, line_plot, stacked_plot
from server.report.run_view import RunView, view_run
from server.report.wording import (
    count,
    duration,
    fixed,
    local_note,
    percent,
    score_title,
    size,
    spans,
    unit_of,
    visible,
    ways,
)
from server.tracking.disclosure_table import listed
from server.tracking.durable_files import write_atomically
from server.tracking.rows import RoundRow

OTHER = "other"


@dataclass(frozen=True)
class Key:
    """One entry of a legend: text, colour and dash of the line, or a filled square."""

    text: str
    colour: int
    dash: str = ""
    filled: bool = False


@dataclass(frozen=True)
class Chart:
    """One figure: `alt` says in words what the plot shows."""

    title: str
    note: str
    alt: str
    svg: Markup
    keys: tuple[Key, ...]


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
    page = render_report([view_run(path, name) for path, name in named(run_dirs)])
    write_atomically(out, page.encode("utf-8", "replace"))


def render_report(runs: Sequence[RunView]) -> str:
    """The page as text; equal runs give equal text."""
    return (
        environment()
        .from_string(TEMPLATE)
        .render(
            runs=runs,
            overview=[chart for chart in overview_charts(runs) if chart],
            phase_charts=[phase_chart(run, f"phases{index}") for index, run in enumerate(runs)],
            curve_charts=[curve_charts(run, f"curves{index}") for index, run in enumerate(runs)],
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
    """Accuracy, loss and traffic over rounds, all runs in each."""
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
        chart("Accuracy", lines, accuracy_words, accuracy, "accuracy", accuracy_keys, in_percent=True),
        chart("Training loss", "", loss_words, loss, "loss", single_keys),
        chart(
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
    ]


def seconds_chart(runs: Sequence[RunView], keys: Sequence[Key]) -> Chart | None:
    """Seconds a round, one line a run."""
    lines = [line(run, "seconds", index) for index, run in enumerate(runs)]
    alt = "; ".join(f"{run.name}: median {duration(run.seconds_per_round)}" for run in runs)
    return chart("Seconds per round", "", alt, lines, "seconds", keys, y_label="seconds", from_zero=True)


def line(run: RunView, name: str, colour: int, *, dash: int = 0) -> Line:
    """One number of every round."""
    return Line([row.round for row in run.rounds], [getattr(row, name) for row in run.rounds], colour, dash)


def chart(
    title: str,
    note: str,
    alt: str,
    lines: Sequence[Line],
    identity: str,
    keys: Sequence[Key],
    *,
    y_label: str = "",
    in_percent: bool = False,
    from_zero: bool = False,
) -> Chart | None:
    """A chart of the lines that have values, None where none has."""
    drawn = [one for one in lines if not one.is_empty]
    if not drawn:
        return None
    svg = Markup(line_plot(drawn, y_label, identity, percent=in_percent, from_zero=from_zero))
    return Chart(title, note, alt, svg, tuple(keys))


def phase_chart(run: RunView, identity: str) -> Chart | None:
    """Seconds a round, split by phase; what no phase accounts for is `other`.

    Where there are more phases than colours, `other` also takes the shortest ones, and a note names them.
    """
    if not run.rounds:
        return None
    phases = list(dict.fromkeys(phase for row in run.rounds for phase in row.seconds_by_phase))
    layers = [[row.seconds_by_phase.get(phase, 0.0) for row in run.rounds] for phase in phases]
    rest = [max(0.0, row.seconds - sum(row.seconds_by_phase.values())) for row in run.rounds]
    if sum(rest) > 0.01 * sum(row.seconds for row in run.rounds) or not phases:
        phases, layers = [*phases, OTHER], [*layers, rest]
    phases, layers, folded = distinguishable(phases, layers)
    svg = Markup(stacked_plot([row.round for row in run.rounds], layers, "seconds", identity))
    totals = ", ".join(f"{name} {duration(sum(layer))}" for name, layer in zip(phases, layers, strict=True))
    keys = tuple(Key(name, index % SERIES_COLOURS, filled=True) for index, name in enumerate(phases))
    note = f"Other: {', '.join(folded)}." if folded else ""
    return Chart("Seconds per round, by phase", note, f"Over all rounds: {totals}.", svg, keys)


def distinguishable(
    phases: list[str], layers: list[list[float]]
) -> tuple[list[str], list[list[float]], list[str]]:
    """At most as many phases as there are colours, in their order, and the names of those in `other`."""
    if len(phases) <= SERIES_COLOURS:
        return phases, layers, []
    totals = {name: sum(layer) for name, layer in zip(phases, layers, strict=True) if name != OTHER}
    kept = set(sorted(totals, key=lambda name: -totals[name])[: SERIES_COLOURS - 1])
    apart = [(name, layer) for name, layer in zip(phases, layers, strict=True) if name in kept]
    rest = [layer for name, layer in zip(phases, layers, strict=True) if name not in kept]
    names = [*(name for name, _ in apart), OTHER]
    shown = [*(layer for _, layer in apart), [sum(column) for column in zip(*rest, strict=True)]]
    return names, shown, [name for name in phases if name not in kept and name != OTHER]


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


def environment() -> Environment:
    """Jinja2 with escaping and the filters of the page."""
    made = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=visible,
    )
    filters: dict[str, Callable[..., str]] = {"percent": percent, "size": size, "duration": duration}
    made.filters |= filters | {"count": count, "fixed": fixed, "listed": listed, "spans": spans}
    made.filters |= {"score_title": score_title, "ways": ways, "local_note": local_note}
    return made
