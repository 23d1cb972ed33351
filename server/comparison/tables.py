"""The tables of a comparison as Markdown and CSV.

Scores and costs are kept apart: with the same seeds on the same machine scores are the same to the last
digit, while durations, and the bytes of messages that report durations, differ from run to run.
"""

from __future__ import annotations

from fedtag.common.wording.engine import engine_words
from fedtag.common.wording.scoring import METRICS, column
from fedtag.common.wording.signs import signed
from fedtag.server.comparison.audit_tables import audit_markdown, audit_reading
from fedtag.server.comparison.cells import NOTHING, csv_text, markdown_table, percents
from fedtag.server.comparison.convergence import Point
from fedtag.server.comparison.results import Comparison, Line, Result, lines, own_lines, score
from fedtag.server.comparison.statistics import Difference, Spread
from fedtag.server.pages.wording import count, duration, size
from fedtag.server.tracking.markdown import cell, code

SCORE_COLUMNS = (
    *("row", "data", "seed", "best_round", "metric", "val", "test"),
    *(column(metric) for metric in METRICS),
    *("ece", "engine", "run"),
)
SUMMARY_COSTS = (
    *("rounds", "bytes_up", "bytes_down", "seconds", "seconds_per_round"),
    *("encoder_tokens", "llm_tokens", "llm_tokens_full_text", "peak_rss_mb"),
)
COST_COLUMNS = ("row", "data", "seed", *SUMMARY_COSTS, "cpu_seconds")
CLASS_SCORES = ("nodes", "precision", "recall", "f1", "auroc", "auprc")
CLASS_COLUMNS = ("row", "data", "seed", "class", *CLASS_SCORES)
CONVERGENCE_COLUMNS = ("row", "data", "round", "seeds", "val_mean", "val_std", "test_mean", "test_std")


def markdown(comparison: Comparison, figures: bool = False) -> str:
    """The scores: one table a data set, with what was compared and how to read it.

    Args:
        comparison: its results.
        figures: whether they lie beside the tables.
    """
    headings = ["row", "seeds", "validation", "test", "difference", *comparison.other_metrics.values()]
    headings += ["calibration error", "plateau", "rounds to it"]
    title = comparison.title_of_metric
    parts = [f"# {cell(comparison.title)}", *about(comparison)]
    for data in comparison.data:
        cells = [
            [cell(line.row), seeds_done(line), *scores(line, comparison), *convergence(line)]
            for line in own_lines(comparison, data)
        ]
        parts += [f"## {cell(data)}", markdown_table(headings, cells), *audit_markdown(comparison, data)]
    drawn = [f"![Test {title} of each row](comparison.png)", f"![Test {title} over rounds](convergence.png)"]
    parts += [
        *(drawn if figures else []),
        *reading(comparison),
        *audit_reading(comparison, figures),
        *at_once(comparison),
        *row_settings(comparison),
    ]
    return "\n\n".join(parts) + "\n"


def costs_markdown(comparison: Comparison, figures: bool = False) -> str:
    """What the runs cost: means over seeds, one table a data set."""
    headings = [
        *("row", "bytes up a round", "bytes down a round", "seconds a round", "time to plateau"),
        *("time of a run", "processor time of a run", "encoder tokens", "language model tokens"),
    ]
    parts = [f"# {cell(comparison.title)}: costs"]
    for data in comparison.data:
        cells = [[cell(line.row), *costs(line)] for line in own_lines(comparison, data)]
        parts += [f"## {cell(data)}", markdown_table(headings, cells)]
    title = comparison.title_of_metric
    if figures:
        parts.append(f"![Test {title} against the time of a run](time.png)")
    parts.append(
        "Means over the finished seeds; seconds a round are the median of a run. They depend on the machine and on "
        "what else it does. Texts are encoded in the first run that needs them, and its row bears their cost. Time to "
        f"plateau: until the validation {title} reaches 99% of its mean over the last ten scored rounds; runs of "
        "fewer than 20 have none."
    )
    return "\n\n".join([*parts, *at_once(comparison)]) + "\n"


def at_once(comparison: Comparison) -> list[str]:
    """A sentence on the rows whose clients were trained at once, if there are any."""
    found = [(row, words) for row in comparison.rows if (words := _engine_words(comparison, row.name))]
    names = ", ".join(row.name for row, _ in found)
    return [f"{cell(names)}: {found[0][1]}."] if found else []


def _engine_words(comparison: Comparison, row: str) -> str:
    runs = (summary for data in comparison.data for _, summary in comparison.of(row, data))
    return next((words for one in runs if (words := engine_words(one.engine))), "")


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
    title = comparison.title_of_metric
    percentages = (
        f"Percentages: mean ± sample standard deviation over seeds; validation and test: {title}. Each run is scored "
        "at the round that validation chose by `evaluation.metric`; test labels choose nothing."
    )
    differences = (
        f"Difference: of test {title} to {cell(comparison.baseline)}, in percentage points, paired by seed; in "
        "brackets the 95% interval of Student's t over the seeds that both rows have. An interval around 0 means "
        "that these seeds do not tell the two apart. An interval needs at least three seeds, and differences "
        "that are not all equal."
    )
    plateau = (
        f"Plateau: mean validation {title} of the last ten scored rounds; rounds to it: the first whose validation "
        f"{title} is at least 99% of it; runs of fewer than 20 scored rounds have "
        "none. Scores of each round, over seeds, are in convergence.csv."
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


def scores(line: Line, comparison: Comparison) -> list[str]:
    """Validation, test, difference, all other metrics, calibration error as a person reads them."""
    difference = NOTHING if line.row == comparison.baseline else points(line.difference)
    others = [percents(line.metrics[metric]) for metric in comparison.other_metrics]
    return [percents(line.val), percents(line.test), difference, *others, percents(line.ece)]


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
    middle, *ends = (
        signed(100 * value, 2) for value in (found.mean, found.low, found.high) if value is not None
    )
    return f"{middle} [{', '.join(ends)}]" if ends else middle


def mean(found: Spread | None) -> float | None:
    """The mean, None of nothing."""
    return None if found is None else found.mean


def scores_csv(comparison: Comparison) -> str:
    """One line a run: scores as fractions; empty where there is none."""
    records = (score_record(result, comparison.metric) for result in comparison.ordered())
    return csv_text(SCORE_COLUMNS, records)


def classes_csv(comparison: Comparison) -> str:
    """One line a run and class: its test nodes, and its scores on them; empty where there is none."""
    records = (
        {"row": result.row, "data": result.data, "seed": result.seed, **one}
        for result in comparison.ordered()
        for one in (result.summary.test_classes if result.summary else None) or ()
    )
    return csv_text(CLASS_COLUMNS, records)


def costs_csv(comparison: Comparison) -> str:
    """One line a run: bytes, seconds, tokens; empty where there is none."""
    return csv_text(COST_COLUMNS, (cost_record(result) for result in comparison.ordered()))


def summary_csv(comparison: Comparison) -> str:
    """One line a row and data set: means, standard deviations and the paired difference.

    They are fractions, but for the rounds to the plateau.
    """
    names = ("val", "test", *map(column, METRICS), "ece", "plateau", "rounds_to_plateau")
    pairs = [f"{name}_{part}" for name in names for part in ("mean", "std")]
    ends = ["difference", "difference_low", "difference_high"]
    columns = ["row", "data", "seeds", "metric", *pairs, "baseline", *ends]
    return csv_text(columns, (summary_record(line, comparison) for line in lines(comparison)))


def convergence_csv(comparison: Comparison) -> str:
    """One line for each row, data set and round: the metric as a fraction over the finished seeds."""
    records = (
        convergence_record(row.name, data, point)
        for data in comparison.data
        for row in comparison.rows
        for point in comparison.curve(row.name, data)
    )
    return csv_text(CONVERGENCE_COLUMNS, records)


def score_record(result: Result, metric: str) -> dict[str, object]:
    """The line of a run with its scores."""
    record: dict[str, object] = {name: getattr(result, name) for name in ("row", "data", "seed", "run")}
    found = result.summary
    if found is not None:
        record |= {"best_round": found.best_round, "metric": metric, "ece": found.test_ece}
        record["engine"] = found.engine
        record |= {subset: score(found, subset, metric) for subset in ("val", "test")}
        record |= {column(name): score(found, "test", name) for name in METRICS}
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


def summary_record(line: Line, comparison: Comparison) -> dict[str, object]:
    """The line of a row on one data set."""
    record: dict[str, object] = {"row": line.row, "data": line.data, "seeds": line.finished}
    record["metric"] = comparison.metric
    spreads = {"val": line.val, "test": line.test, "ece": line.ece, "plateau": line.plateau}
    spreads |= {column(metric): found for metric, found in line.metrics.items()}
    for name, found in {**spreads, "rounds_to_plateau": line.rounds_to_plateau}.items():
        if found is not None:
            record |= {f"{name}_mean": found.mean, f"{name}_std": found.std}
    if line.difference is not None:
        record |= {"baseline": comparison.baseline, "difference": line.difference.mean}
        record |= {"difference_low": line.difference.low, "difference_high": line.difference.high}
    return record
