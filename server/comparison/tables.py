"""The tables of a comparison as Markdown and CSV.

Scores and costs are kept apart: with the same seeds on the same machine scores are the same to the last
digit, while durations, and the bytes of messages that report durations, differ from run to run.
"""

from __future__ import annotations

from fedtag.server.comparison.audit_tables import audit_markdown, audit_reading
from fedtag.server.comparison.cells import NOTHING, csv_text, markdown_table, percents
from fedtag.server.comparison.convergence import Point
from fedtag.server.comparison.results import Comparison, Line, Result, lines
from fedtag.server.comparison.statistics import Difference, Spread
from fedtag.server.pages.wording import count, duration, size
from fedtag.server.tracking.markdown import cell, code

SCORE_COLUMNS = ("row", "data", "seed", "best_round", "val", "test", "macro_f1", "ece", "run")
SUMMARY_COSTS = (
    *("rounds", "bytes_up", "bytes_down", "seconds", "seconds_per_round"),
    *("encoder_tokens", "llm_tokens", "llm_tokens_full_text", "peak_rss_mb"),
)
COST_COLUMNS = ("row", "data", "seed", *SUMMARY_COSTS, "cpu_seconds")
SUMMARY_SCORES = ("val", "test", "macro_f1", "ece", "plateau", "rounds_to_plateau")
CONVERGENCE_COLUMNS = ("row", "data", "round", "seeds", "val_mean", "val_std", "test_mean", "test_std")


def markdown(comparison: Comparison) -> str:
    """The scores: one table a data set, with what was compared and how to read it."""
    headings = ["row", "seeds", "validation", "test", "difference", "macro-F1", "calibration error"]
    headings += ["plateau", "rounds to it"]
    parts = [f"# {cell(comparison.title)}", *about(comparison)]
    for data in comparison.data:
        cells = [
            [cell(line.row), seeds_done(line), *scores(line, comparison.baseline), *convergence(line)]
            for line in lines(comparison)
            if line.data == data
        ]
        parts += [f"## {cell(data)}", markdown_table(headings, cells), *audit_markdown(comparison, data)]
    parts += [
        "![Test accuracy of each row](comparison.png)",
        "![Test accuracy over rounds](convergence.png)",
        *reading(comparison),
        *audit_reading(comparison),
        *row_settings(comparison),
    ]
    return "\n\n".join(parts) + "\n"


def costs_markdown(comparison: Comparison) -> str:
    """What the runs cost: means over seeds, one table a data set."""
    headings = [
        *("row", "bytes up a round", "bytes down a round", "seconds a round", "time to plateau"),
        *("time of a run", "processor time of a run", "encoder tokens", "language model tokens"),
    ]
    parts = [f"# {cell(comparison.title)}: costs"]
    for data in comparison.data:
        cells = [[cell(line.row), *costs(line)] for line in lines(comparison) if line.data == data]
        parts += [f"## {cell(data)}", markdown_table(headings, cells)]
    parts.append("![Test accuracy against the time of a run](time.png)")
    parts.append(
        "Means over the finished seeds; seconds a round are the median of a run. They depend on the machine and on "
        "what else it does. Texts are encoded in the first run that needs them, and its row bears their cost. Time to "
        "plateau: until the validation accuracy reaches 99% of its mean over the last ten scored rounds; runs of "
        "fewer than 20 have none."
    )
    return "\n\n".join(parts) + "\n"


def about(comparison: Comparison) -> list[str]:
    """What was compared."""
    settings = ", ".join(f"`{code(key)} = {code(value)}`" for key, value in comparison.settings.items())
    seeds = ", ".join(map(str, comparison.seeds))
    named = [f"Source: {cell(comparison.source)}."] if comparison.source else []
    common = f" Settings of all rows: {settings}." if settings else " All settings are the defaults."
    noted = [cell(comparison.note)] if comparison.note else []
    return [*named, f"Seeds: {seeds}.{common}", *noted]


def reading(comparison: Comparison) -> list[str]:
    """How the numbers are to be read."""
    percentages = (
        "Percentages: mean ± sample standard deviation over seeds. Each run is scored at the round with the best "
        "validation accuracy; test labels choose nothing."
    )
    differences = (
        f"Difference: of test accuracy to {cell(comparison.baseline)}, in percentage points, paired by seed; in "
        "brackets the 95% interval of Student's t over the seeds that both rows have. An interval around 0 means "
        "that these seeds do not tell the two apart. An interval needs at least three seeds, and differences "
        "that are not all equal."
    )
    plateau = (
        "Plateau: mean validation accuracy of the last ten scored rounds; rounds to it: the first whose validation "
        "accuracy is at least 99% of it; runs of fewer than 20 scored rounds have "
        "none. Scores of each round, over seeds, are in convergence.csv and .png."
    )
    return [percentages, differences, plateau]


def row_settings(comparison: Comparison) -> list[str]:
    """The settings in which the rows differ from the others."""
    cells = [
        [
            cell(row.name),
            ", ".join(f"`{code(key)} = {code(value)}`" for key, value in row.settings.items()) or NOTHING,
        ]
        for row in comparison.rows
    ]
    return ["## Rows", markdown_table(["row", "its own settings"], cells, numeric=False)]


def seeds_done(line: Line) -> str:
    """How many of the runs have finished."""
    return str(line.wanted) if line.finished == line.wanted else f"{line.finished} of {line.wanted}"


def scores(line: Line, baseline: str) -> list[str]:
    """Validation, test, difference, macro-F1, calibration error as a person reads them."""
    difference = NOTHING if line.row == baseline else points(line.difference)
    return [percents(line.val), percents(line.test), difference, percents(line.macro_f1), percents(line.ece)]


def convergence(line: Line) -> list[str]:
    """Plateau and rounds to it as a person reads them."""
    found = line.rounds_to_plateau
    if found is None:
        return [NOTHING, NOTHING]
    return [
        percents(line.plateau),
        f"{found.mean:.1f}" + ("" if found.std is None else f" ± {found.std:.1f}"),
    ]


def costs(line: Line) -> list[str]:
    """Bytes, durations and tokens as a person reads them."""
    bytes_and_times = [
        size(mean(line.bytes_up)),
        size(mean(line.bytes_down)),
        duration(mean(line.seconds_per_round)),
        duration(mean(line.seconds_to_plateau)),
        duration(mean(line.seconds)),
        duration(mean(line.cpu_seconds)),
    ]
    tokens = [mean(line.encoder_tokens), mean(line.llm_tokens)]
    return [*bytes_and_times, *(NOTHING if value is None else count(round(value)) for value in tokens)]


def points(found: Difference | None) -> str:
    """A difference of fractions in percentage points, with its interval where there is one."""
    if found is None:
        return NOTHING
    interval = (
        "" if found.low is None or found.high is None else f" [{signed(found.low)}, {signed(found.high)}]"
    )
    return f"{signed(found.mean)}{interval}"


def signed(value: float) -> str:
    """A fraction in percentage points with its sign; zero has none."""
    text = f"{100 * value:+.2f}"
    return "0.00" if text in ("+0.00", "-0.00") else text.replace("-", "−")


def mean(found: Spread | None) -> float | None:
    """The mean, None of nothing."""
    return None if found is None else found.mean


def scores_csv(comparison: Comparison) -> str:
    """One line a run: scores as fractions; empty where there is none."""
    return csv_text(SCORE_COLUMNS, (score_record(result) for result in comparison.ordered()))


def costs_csv(comparison: Comparison) -> str:
    """One line a run: bytes, seconds, tokens; empty where there is none."""
    return csv_text(COST_COLUMNS, (cost_record(result) for result in comparison.ordered()))


def summary_csv(comparison: Comparison) -> str:
    """One line a row and data set: means, standard deviations and the paired difference.

    They are fractions, but for the rounds to the plateau.
    """
    pairs = [f"{name}_{part}" for name in SUMMARY_SCORES for part in ("mean", "std")]
    ends = ["difference", "difference_low", "difference_high"]
    columns = ["row", "data", "seeds", *pairs, "baseline", *ends]
    return csv_text(columns, (summary_record(line, comparison.baseline) for line in lines(comparison)))


def convergence_csv(comparison: Comparison) -> str:
    """One line for each row, data set and round: accuracies as fractions over the finished seeds."""
    records = (
        convergence_record(row.name, data, point)
        for data in comparison.data
        for row in comparison.rows
        for point in comparison.curve(row.name, data)
    )
    return csv_text(CONVERGENCE_COLUMNS, records)


def score_record(result: Result) -> dict[str, object]:
    """The line of a run with its scores."""
    record: dict[str, object] = {name: getattr(result, name) for name in ("row", "data", "seed", "run")}
    found = result.summary
    if found is not None:
        record |= {"best_round": found.best_round, "val": found.val_accuracy, "test": found.test_accuracy}
        record |= {"macro_f1": found.test_macro_f1, "ece": found.test_ece}
    return record


def cost_record(result: Result) -> dict[str, object]:
    """The line of a run with its costs."""
    record: dict[str, object] = {name: getattr(result, name) for name in ("row", "data", "seed")}
    if result.summary is not None:
        record |= {name: getattr(result.summary, name) for name in SUMMARY_COSTS}
        record["cpu_seconds"] = result.cpu_seconds
    return record


def convergence_record(row: str, data: str, point: Point) -> dict[str, object]:
    """The line of a round."""
    record: dict[str, object] = {"row": row, "data": data, "round": point.round, "seeds": point.test.count}
    record |= {"test_mean": point.test.mean, "test_std": point.test.std}
    if point.val is not None:
        record |= {"val_mean": point.val.mean, "val_std": point.val.std}
    return record


def summary_record(line: Line, baseline: str) -> dict[str, object]:
    """The line of a row on one data set."""
    record: dict[str, object] = {"row": line.row, "data": line.data, "seeds": line.finished}
    for name in SUMMARY_SCORES:
        found: Spread | None = getattr(line, name)
        if found is not None:
            record |= {f"{name}_mean": found.mean, f"{name}_std": found.std}
    if line.difference is not None:
        record |= {"baseline": baseline, "difference": line.difference.mean}
        record |= {"difference_low": line.difference.low, "difference_high": line.difference.high}
    return record
