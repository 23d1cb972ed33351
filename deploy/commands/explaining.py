"""Commands that explain what a model did: audit, report."""

from pathlib import Path
from typing import Annotated

import typer

from fedtag.deploy.commands.options import Debug


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
    faithfulness: Annotated[
        bool, typer.Option("--faithfulness", help="Measure whether predictions rest on their evidence.")
    ] = False,
    nodes: Annotated[int, typer.Option(min=1, help="Test nodes a site on which this is measured.")] = 100,
    model: Annotated[
        Path | None,
        typer.Option(help="Where the released model is, for this. [default: PATH, if it is a run]"),
    ] = None,
    sample: Annotated[
        int, typer.Option(min=0, help="Nodes that are drawn at random for an auditor's verdict.")
    ] = 50,
    serve: Annotated[
        bool, typer.Option("--serve", help="Show the pages on this machine, for any number of nodes.")
    ] = False,
    card: Annotated[
        bool,
        typer.Option("--card", help="Check card, disclosures and model of a run against audit logs instead."),
    ] = False,
    log: Annotated[
        Path | None, typer.Option(help="The coordinator's log, for this. [default: FEDTAG_HOME/audit]")
    ] = None,
    site_log: Annotated[
        list[Path] | None, typer.Option(help="A site's log, for this: audit/ of its workspace. Repeatable.")
    ] = None,
    roster: Annotated[Path | None, typer.Option(help="The keys of the sites, for their logs' seals.")] = None,
    debug: Debug = False,
) -> None:
    """Verify the evidence of a site and show it.

    Reads the evidence and the texts; writes an HTML page, unless --node shows one node only. Every quoted
    span is compared with the site's own texts; the exit code is 1 if any does not hold. The page quotes
    texts: it stays inside the institution. It draws a sample of nodes for an auditor, whose verdicts it keeps and
    exports. A page holds 5,000 nodes and 6 MB at most; --serve shows any number on a loopback address with a token,
    until it is stopped, and keeps verdicts in audit-verdicts.json of the site.

    --faithfulness cuts chunks out of the texts, encodes these anew and predicts again with the released model:
    without the evidence, from the evidence alone, and the same for random chunks and for dense attention. It
    writes faithfulness.json at each site, and for all sites of a run also RUN/faithfulness.json (counts and means
    only) and the report. Where the evidence does not verify, nothing is measured.

    --card reads no evidence. It checks that model, disclosures and card of a run are those that the coordinator's
    audit log tells of, and with --site-log that what left the sites is what came.

    Example: `fedtag audit runs/first --client client-00`
    """
    if card:
        from fedtag.audits.card import audit_card, home_log, site_keys
        from fedtag.deploy.terminal.log_view import show_card

        compared = audit_card(path, log or home_log(), site_log or [], site_keys(roster))
        show_card(path, compared)
        if compared.faults:
            raise typer.Exit(1)
        return
    from fedtag.audits.examination import examine
    from fedtag.deploy.terminal.audit_view import show_examination
    from fedtag.deploy.terminal.display import display

    targets = nodes if faithfulness else 0
    with display(debug) as progress:
        found = examine(
            path, client, node, html, round_number, data, config, targets, model, progress, sample, not serve
        )
    show_examination(found, faithfulness)
    if serve:
        from fedtag.audits.serving import audit_server
        from fedtag.deploy.terminal.audit_view import show_server

        with audit_server(found.sites, sample) as server:
            show_server(server)
    if not found.verified:
        raise typer.Exit(1)


def report(
    runs: Annotated[list[Path], typer.Argument(help="Run directories.", show_default=False)],
    out: Annotated[
        Path | None,
        typer.Option(
            help="The HTML file. [default: report.html in the run directory; of several runs, reports.html here]"
        ),
    ] = None,
    figures: Annotated[
        bool, typer.Option("--figures", help="Also write each run's charts as PNG and SVG, for print.")
    ] = False,
    debug: Debug = False,
) -> None:
    """Compare runs on one HTML page.

    Reads run directories, finished or not, and the runs of reference methods on the same data that lie beside them;
    writes one self-contained page, and with --figures the folder figures beside it. Of several runs it lies in none.

    Example: `fedtag report runs/first runs/second --out comparison.html`
    """
    from fedtag.comparison.reports import report as reported
    from fedtag.deploy.terminal.console import results, say

    page, folder = reported(runs, out, figures)
    say(results(), f"report  {page.absolute()}")
    if folder is not None:
        say(results(), f"figures {folder.absolute()}")
