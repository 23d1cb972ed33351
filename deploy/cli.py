"""The command line. Commands import what they need when they run, so that help comes at once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import click
import typer
from typer.core import TyperGroup

from deploy.options import (
    Clients,
    Config,
    Data,
    Debug,
    Device,
    Engine,
    EngineChoice,
    Method,
    Out,
    Overlap,
    Partition,
    Ratio,
    Resume,
    Rounds,
    Seed,
    Settings,
    Split,
    Summaries,
    named_options,
)


class Commands(TyperGroup):
    """All commands; an error of any of them becomes a sentence and an exit code."""

    def invoke(self, ctx: click.Context) -> Any:
        from deploy.console import exit_codes

        with exit_codes(ctx):
            return super().invoke(ctx)


app = typer.Typer(
    cls=Commands,
    help="Federated learning on text-attributed graphs, on Flower.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
)


@app.command()
def simulate(
    method: Method = None,
    data: Data = None,
    clients: Clients = None,
    rounds: Rounds = None,
    ratio: Ratio = None,
    seed: Seed = None,
    out: Out = None,
    engine: EngineChoice = Engine.INPROCESS,
    config: Config = None,
    settings: Settings = None,
    partition: Partition = None,
    split: Split = None,
    overlap: Overlap = None,
    summaries: Summaries = None,
    device: Device = None,
    resume: Resume = None,
    debug: Debug = False,
) -> None:
    """Run a federation on this machine.

    Reads the data and, with --config, a TOML file; writes the run directory: settings, metrics, model,
    report.html, and the clients' folders in sites/. Encoded texts are kept in FEDTAG_CACHE
    (~/.cache/fedtag). Settings count in this order: --set, named options, --config, defaults.

    Example: `fedtag simulate --method fedavg --data pydocs --clients 3 --rounds 30 --set train.epochs=2`
    """
    given = named_options(
        method, data, clients, rounds, ratio, seed, out, partition, split, overlap, summaries, device
    )
    _run(engine.value, resume, config, given, settings or [], debug)


@app.command()
def up(
    method: Method = None,
    data: Data = None,
    clients: Clients = None,
    rounds: Rounds = None,
    ratio: Ratio = None,
    seed: Seed = None,
    out: Out = None,
    config: Config = None,
    settings: Settings = None,
    partition: Partition = None,
    split: Split = None,
    overlap: Overlap = None,
    summaries: Summaries = None,
    device: Device = None,
    resume: Resume = None,
    debug: Debug = False,
) -> None:
    """Run the same federation as real Flower processes on loopback.

    Starts one SuperLink and one SuperNode a client, which speak gRPC, and stops them at the end. Reads and
    writes what `simulate` does; the processes' logs go to logs/ in the run directory.

    Example: `fedtag up --method fedavg --data site-a --data site-b --rounds 20`
    """
    given = named_options(
        method, data, clients, rounds, ratio, seed, out, partition, split, overlap, summaries, device
    )
    _run("processes", resume, config, given, settings or [], debug)


@app.command()
def validate(
    folder: Annotated[Path, typer.Argument(help="The institution's folder.", show_default=False)],
    debug: Debug = False,
) -> None:
    """Check an institution's folder, offline.

    Reads nodes, edges, meta.json and features; writes nothing. All problems are listed at once, and the exit
    code is then 2.

    Example: `fedtag validate /data/hospital-a`
    """
    from deploy.validation import validate_folder

    validate_folder(folder)


@app.command()
def audit(
    path: Annotated[Path, typer.Argument(help="A run directory, or a site's folder.", show_default=False)],
    client: Annotated[str | None, typer.Option(help="One client of a run. [default: all]")] = None,
    node: Annotated[str | None, typer.Option(help="Show one node's evidence here.")] = None,
    html: Annotated[
        Path | None, typer.Option(help="Write the page here. [default: PATH/audit-CLIENT.html]")
    ] = None,
    round_number: Annotated[
        int | None, typer.Option("--round", help="Of the evidence. [default: of the released model]")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="Folder with nodes and edges, if the evidence lies elsewhere.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="The run's settings, if its budgets are not the defaults.")
    ] = None,
    debug: Debug = False,
) -> None:
    """Verify the evidence of a site and show it.

    Reads the evidence and the texts; writes an HTML page, unless --node shows one node only. Every quoted
    span is compared with the site's own texts; the exit code is 1 if any does not hold. The page quotes
    texts: it stays inside the institution.

    Example: `fedtag audit runs/dance-pydocs-1 --client client-00`
    """
    from deploy import audit as auditing
    from deploy.console import notices, results, say

    audited = auditing.audit(path, client, data, round_number, config)
    console = results()
    if node is not None:
        auditing.show_node(console, audited, node)
    pages = auditing.page_paths(audited, path, html) if node is None or html is not None else []
    for site, page in zip(audited, pages, strict=False):
        auditing.write_audit_page(site, page)
        say(console, f"page  {page}")
    faults = 0
    for site in audited:
        found = site.verification
        faults += len(found.violations)
        verdict = "every span is literal" if found.holds else f"{len(found.violations)} violations"
        style = "green" if found.holds else "red"
        say(console, f"{site.name}, round {site.round}: {found.checked} packs verified, {verdict}", style)
        for sentence in found.violations[:20]:
            say(notices(), sentence, "red")
    if faults:
        raise typer.Exit(1)


@app.command()
def report(
    runs: Annotated[list[Path], typer.Argument(help="Run directories.", show_default=False)],
    out: Annotated[Path, typer.Option(help="The HTML file.")] = Path("report.html"),
    debug: Debug = False,
) -> None:
    """Compare runs on one HTML page.

    Reads run directories, finished or not; writes one self-contained page.

    Example: `fedtag report runs/fedavg-pydocs-1 runs/dance-pydocs-1 --out comparison.html`
    """
    from deploy.console import results, say
    from server.report.page import write_report

    write_report(runs, out)
    say(results(), f"report  {out.absolute()}")


@app.command()
def doctor(debug: Debug = False) -> None:
    """Say what this machine has: Python, PyTorch, devices, models, Flower, ports, disk.

    Reads the bundled model files to verify them; writes nothing. The exit code is 1 if something essential
    is missing.

    Example: `fedtag doctor`
    """
    from deploy.doctor import examine, show_findings

    if not show_findings(examine()):
        raise typer.Exit(1)


@app.command("settings")
def list_settings(
    toml: Annotated[
        bool, typer.Option("--toml", help="Print [tool.flwr.app.config] of pyproject.toml.")
    ] = False,
    debug: Debug = False,
) -> None:
    """List every setting with its default and meaning.

    Reads and writes nothing. The keys are those of --set, of --config files and of `flwr run -c`.

    Example: `fedtag settings`
    """
    from deploy.settings import config_block, show_settings

    if toml:
        typer.echo(config_block(), nl=False)
    else:
        show_settings()


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="Folder of all runs; the next free name if taken.")] = Path(
        "runs/demo"
    ),
    methods: Annotated[str, typer.Option(help="In the order of the table.")] = "isolated,fedavg,dance",
    data: Annotated[str, typer.Option(help="As for simulate.")] = "pydocs",
    clients: Annotated[int, typer.Option(help="Simulated clients.")] = 3,
    rounds: Annotated[int, typer.Option(help="Of each method.")] = 60,
    debug: Debug = False,
) -> None:
    """See it work: three methods on a real graph that needs no download, in minutes.

    Reads the docstrings of the installed SciPy; writes one run directory a method, a comparison and the
    pages of evidence.

    Example: `fedtag demo`
    """
    from deploy.demo import run_demo

    names = [name.strip() for name in methods.split(",") if name.strip()]
    run_demo(out, names, data, clients, rounds, debug)


def _run(
    engine: Any,
    resume: Path | None,
    file: Path | None,
    given: dict[str, Any],
    settings: list[str],
    debug: bool,
) -> None:
    from common.errors import ConfigError
    from deploy.runs import resume as go_on
    from deploy.runs import show_outcome, start
    from deploy.settings import gather

    if resume is None:
        out = start(gather(file, given, settings), engine, debug)
    elif given or settings or file:
        raise ConfigError(
            f"--resume {resume} takes every setting from its config.toml; leave the others out."
        )
    else:
        out = go_on(resume, engine, debug)
    show_outcome(out)


def main() -> None:
    """The program `fedtag`."""
    app(prog_name="fedtag")


if __name__ == "__main__":
    main()
