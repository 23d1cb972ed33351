"""What the runs of a comparison came to, and what follows for each row."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from fedtag.common.numerics.scores import ReliabilityBin, pooled_bins
from fedtag.common.wording.scoring import ACCURACY, METRICS, column
from fedtag.server.comparison.attacked import Attacked, read_attacked
from fedtag.server.comparison.convergence import Point, arrival, curve
from fedtag.server.comparison.statistics import Difference, Spread, paired_difference, spread
from fedtag.server.tracking.reliability import read_bins
from fedtag.server.tracking.rows import RoundRow, Summary
from fedtag.server.tracking.run_directory import SUMMARY, RunDirectory


@dataclass(frozen=True)
class Result:
    """One run: a row on one data set with one seed.

    Args:
        run: its directory, relative to the comparison's.
        summary: None where the run has not finished.
        rounds: the rows of its metrics, empty where it has not finished.
        cpu_seconds: processor time of all its attempts that ended in order; None where it was not measured.
        attacks: what an audit of its release found; empty where it was not audited.
    """

    row: str
    data: str
    seed: int
    run: str
    summary: Summary | None = None
    rounds: tuple[RoundRow, ...] = ()
    cpu_seconds: float | None = None
    attacks: tuple[Attacked, ...] = ()


@dataclass(frozen=True)
class Row:
    """One row of the tables.

    Args:
        name: what people call it.
        settings: its own ones, by dotted key.
        place: its value on the axis of the plot; None where it has none.
        series: of the line that it belongs to in that plot.
    """

    name: str
    settings: Mapping[str, object] = field(default_factory=dict)
    place: float | None = None
    series: str = ""


@dataclass(frozen=True)
class Comparison:
    """Rows on data sets with seeds.

    Args:
        title: of the page.
        source: what it reproduces; may be empty.
        settings: those that all rows share, by dotted key.
        baseline: the name of the row with which the others are compared.
        axis: the setting along which the plot shows lines; empty for one point a row.
        results: by row, data set and seed; one for each that was asked for.
        note: a sentence on rows that are without some of these settings; may be empty.
        metric: that is shown first, and by which differences, plateaus and plots are.
    """

    title: str
    source: str
    settings: Mapping[str, object]
    rows: tuple[Row, ...]
    data: tuple[str, ...]
    seeds: tuple[int, ...]
    baseline: str
    axis: str
    results: Mapping[tuple[str, str, int], Result]
    note: str = ""
    metric: str = ACCURACY

    @property
    def title_of_metric(self) -> str:
        """What the metric is called."""
        return METRICS[self.metric]

    @property
    def other_metrics(self) -> dict[str, str]:
        """What all others are called, by their names."""
        return {name: title for name, title in METRICS.items() if name != self.metric}

    def ordered(self) -> list[Result]:
        """Every run that was asked for, by data set, row and seed."""
        return [
            self.results[row.name, data, seed]
            for data in self.data
            for row in self.rows
            for seed in self.seeds
        ]

    def of(self, row: str, data: str) -> list[tuple[int, Summary]]:
        """Seeds and summaries of the runs that have finished."""
        found = ((seed, self.results[row, data, seed].summary) for seed in self.seeds)
        return [(seed, summary) for seed, summary in found if summary is not None]

    def curve(self, row: str, data: str) -> list[Point]:
        """The scores over rounds, of the runs that have finished."""
        return curve([self.results[row, data, seed].rounds for seed in self.seeds], self.metric)

    def reliability(self, row: str, data: str) -> tuple[ReliabilityBin, ...]:
        """The calibration bins on test nodes, pooled over the runs that have finished; empty without any.

        Raises:
            RunError: a summary holds something else.
        """
        return pooled_bins(
            read_bins(
                summary.test_reliability, f"test_reliability of {self.results[row, data, seed].run}/{SUMMARY}"
            )
            for seed, summary in self.of(row, data)
        )


@dataclass(frozen=True)
class Line:
    """A row on one data set: scores over seeds as fractions, and what a run cost on average.

    `val`, `test` and `plateau` are in the comparison's metric; `metrics` has every one on test nodes. `difference` is
    in `test` to the baseline, None for the baseline itself. `plateau` is the mean on validation nodes in a run's last
    rounds; `rounds_to_plateau` and `seconds_to_plateau` say when 99% of it were reached. Bytes and seconds are those of
    a round; `seconds` and `cpu_seconds` are those of a whole run.
    """

    row: str
    data: str
    finished: int
    wanted: int
    val: Spread | None
    test: Spread | None
    metrics: Mapping[str, Spread | None]
    ece: Spread | None
    difference: Difference | None
    plateau: Spread | None
    rounds_to_plateau: Spread | None
    seconds_to_plateau: Spread | None
    bytes_up: Spread | None
    bytes_down: Spread | None
    seconds_per_round: Spread | None
    seconds: Spread | None
    cpu_seconds: Spread | None
    encoder_tokens: Spread | None
    llm_tokens: Spread | None


def lines(comparison: Comparison) -> Iterator[Line]:
    """One line for each data set and row, in the order of the tables."""
    for data in comparison.data:
        yield from own_lines(comparison, data)


def own_lines(comparison: Comparison, data: str) -> list[Line]:
    """Those of one data set."""
    baseline = tested(comparison.of(comparison.baseline, data), comparison.metric)
    return [line(comparison, row.name, data, baseline) for row in comparison.rows]


def line(comparison: Comparison, row: str, data: str, baseline: Mapping[int, float]) -> Line:
    """The line of a row on one data set, against the baseline's scores on test nodes by seed."""
    runs, metric = comparison.of(row, data), comparison.metric
    results = [comparison.results[row, data, seed] for seed, _ in runs]
    processor = [result.cpu_seconds for result in results]
    arrivals = [found for result in results if (found := arrival(result.rounds, metric)) is not None]

    def over(value: Callable[[Summary], float | None]) -> Spread | None:
        return spread([found for _, summary in runs if (found := value(summary)) is not None])

    def tests(name: str) -> Spread | None:
        return over(lambda summary: score(summary, "test", name))

    return Line(
        row=row,
        data=data,
        finished=len(runs),
        wanted=len(comparison.seeds),
        val=over(lambda summary: score(summary, "val", metric)),
        test=tests(metric),
        metrics={name: tests(name) for name in METRICS},
        ece=over(lambda summary: summary.test_ece),
        difference=None if row == comparison.baseline else paired_difference(tested(runs, metric), baseline),
        plateau=spread([found.plateau for found in arrivals]),
        rounds_to_plateau=spread([found.rounds for found in arrivals]),
        seconds_to_plateau=spread([found.seconds for found in arrivals]),
        bytes_up=over(lambda summary: summary.bytes_up / max(1, summary.rounds)),
        bytes_down=over(lambda summary: summary.bytes_down / max(1, summary.rounds)),
        seconds_per_round=over(lambda summary: summary.seconds_per_round),
        seconds=over(lambda summary: summary.seconds),
        cpu_seconds=spread([seconds for seconds in processor if seconds is not None]),
        encoder_tokens=over(lambda summary: summary.encoder_tokens),
        llm_tokens=over(lambda summary: summary.llm_tokens),
    )


def score(summary: Summary, subset: str, metric: str) -> float | None:
    """A metric of the released round on `val` or `test` nodes."""
    found: float | None = getattr(summary, f"{subset}_{column(metric)}")
    return found


def tested(runs: list[tuple[int, Summary]], metric: str) -> dict[int, float]:
    """A metric on test nodes by seed."""
    return {seed: found for seed, summary in runs if (found := score(summary, "test", metric)) is not None}


def read_result(row: str, data: str, seed: int, home: Path, run: Path, cpu_seconds: float | None) -> Result:
    """The result in a run directory, which may be absent or unfinished.

    Args:
        row, data, seed: what was run.
        home: folder of the comparison, which holds `run`.
        run: the run directory.
        cpu_seconds: measured processor time.
    """
    name = run.relative_to(home).as_posix()
    if not (run / SUMMARY).is_file():
        return Result(row, data, seed, name)
    there = RunDirectory.open(run)
    summary, rounds = there.read_summary(), tuple(there.read_rounds())
    return Result(row, data, seed, name, summary, rounds, cpu_seconds, read_attacked(there))
