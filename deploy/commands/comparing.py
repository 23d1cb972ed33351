"""The command that compares methods: compare."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from fedtag.deploy.commands.options import DATA, Debug, SharedOptions, flattened

COMPARISON = "The comparison"


@flattened
def compare(
    *,
    methods: Annotated[
        str | None,
        typer.Option(
            help="Beside the references, separated by commas; `fedtag methods` lists them. "
            "[default: one that condenses]",
            rich_help_panel=COMPARISON,
        ),
    ] = None,
    study: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|NAME",
            help="Rows, data and seeds from a study file, or from one that comes with fedtag.",
            rich_help_panel=COMPARISON,
        ),
    ] = None,
    seeds: Annotated[
        str | None,
        typer.Option(
            metavar="N|A,B,...", help="How many seeds, or which. [default: 5]", rich_help_panel=COMPARISON
        ),
    ] = None,
    ratio: Annotated[
        str | None,
        typer.Option(
            metavar="R,R,...",
            help="Condensed nodes / nodes; each gives a row to the methods that condense. [default: 0.08]",
            rich_help_panel=COMPARISON,
        ),
    ] = None,
    jobs: Annotated[
        int,
        typer.Option(
            help="Runs at once; from 2 on each has a process of one thread.", rich_help_panel=COMPARISON
        ),
    ] = 1,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder of all runs and tables. [default: runs/comparison or runs/STUDY]",
            rich_help_panel=COMPARISON,
        ),
    ] = None,
    data: Annotated[
        list[str] | None,
        typer.Option(
            help="A data set each time, as for simulate; folders joined by ';' are one federation. "
            "[default: pydocs-brief]",
            rich_help_panel=DATA,
        ),
    ] = None,
    engine: Annotated[
        Literal["inprocess", "stacked"],
        typer.Option(
            help="Stacked: every run trains all its clients at once, which rows must allow; in a study file a row that "
            'cannot sets engine = "separate".',
            rich_help_panel=COMPARISON,
        ),
    ] = "inprocess",
    figures: Annotated[
        bool,
        typer.Option(
            "--figures", help="Also write the charts as PNG and SVG, for print.", rich_help_panel=COMPARISON
        ),
    ] = False,
    shared: SharedOptions,
    debug: Debug = False,
) -> None:
    """Compare methods over data sets and seeds in one table.

    Reads the data and, with --study, a study file; writes a run directory for each row, data set and seed, and
    comparison.md, .csv and .html with means, standard deviations and paired differences, and convergence.csv with the
    scores of each round. What depends on the machine is in costs.md and .csv. --figures adds comparison, convergence
    and time as .png and .svg. Finished runs are
    reused and stopped ones go on, so the same command continues where it was stopped; runs of data that have
    changed since are refused. The exit code is 1 if a run
    failed. Of runs that `fedtag privacy-audit` has attacked since, the same command adds the figures to the tables,
    beside accuracy, with privacy.csv. Settings count in this order: those of a row, --set, named options, the
    study, --config, defaults.

    Example: `fedtag compare --data pydocs-brief --seeds 3 --ratio 0.08,0.02 --rounds 30 --jobs 2`
    """
    from fedtag.comparison.course import compare as compared
    from fedtag.comparison.request import requested
    from fedtag.deploy.terminal.cell_bars import cell_bars
    from fedtag.deploy.terminal.comparison_table import show_comparison, show_failures
    from fedtag.deploy.terminal.interruption import terminable

    options = shared.chosen() | ({"engine": engine} if engine == "stacked" else {})
    wanted = requested(study, methods, ratio, seeds, data, shared.config, options, shared.assignments or [])
    home = out or Path("runs") / (Path(study).stem if study else "comparison")
    with terminable():
        made = compared(wanted, home, jobs, cell_bars, debug, figures)
    show_comparison(made.comparison, made.home)
    if made.failures:
        show_failures(made.failures)
        raise typer.Exit(1)
