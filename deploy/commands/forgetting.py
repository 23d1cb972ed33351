"""Commands with which a site removes what it has: site forget, site sweep."""

from pathlib import Path
from typing import Annotated

import typer

from fedtag.deploy.commands.options import Debug

Data = Annotated[Path, typer.Option(help="The institution's folder: data of --node-config.")]
Workspace = Annotated[
    Path | None,
    typer.Option(help="Where the site's own files are: workspace of --node-config. [default: DATA]"),
]
Cache = Annotated[
    Path | None, typer.Option(help="Of encoded texts: cache of --node-config. [default: WORKSPACE/cache]")
]
Name = Annotated[
    str | None, typer.Option(help="The site's name: name of --node-config. [default: that of the folder]")
]


def forget(
    nodes: Annotated[
        list[str], typer.Argument(help="Identifiers of nodes.", metavar="ID...", show_default=False)
    ],
    data: Data,
    workspace: Workspace = None,
    cache: Cache = None,
    name: Name = None,
    debug: Debug = False,
) -> None:
    """Remove nodes from a site: rows, edges, vectors, summaries, evidence, and what runs keep there.

    Reads and writes the site's folder and workspace; no backup is made. Writes a receipt into the site's audit log, a
    digest under a key that stays at the site, and says which runs the nodes were in, whose released models nobody can
    take them out of. A run that is under way goes on without this site. Pages and exports that were written elsewhere
    are not found.

    Example: `fedtag site forget paper-17 --data /data/hospital-a`
    """
    from fedtag.client.forgetting.forgetting import forget as forget_nodes
    from fedtag.client.worker.handover import ask
    from fedtag.deploy.federation.site import own_site_at
    from fedtag.deploy.terminal.forgetting_view import show_forgetting

    site = own_site_at(data, workspace, cache, name)
    ask(site.workspace, "stop", STOP_SECONDS)
    show_forgetting(forget_nodes(site, nodes))


STOP_SECONDS = 600.0
"""Until the site's worker has finished what it is at."""


def sweep(
    data: Data,
    workspace: Workspace = None,
    cache: Cache = None,
    name: Name = None,
    states: Annotated[int | None, typer.Option(min=1, help="Days that states of runs are kept.")] = None,
    evidence: Annotated[int | None, typer.Option(min=1, help="Days that evidence is kept.")] = None,
    caches: Annotated[
        int | None, typer.Option(min=1, help="Days that encoded texts and summaries are kept.")
    ] = None,
    policy: Annotated[
        Path | None,
        typer.Option(help="The site's policy, whose table [retention] is taken where no days are given."),
    ] = None,
    debug: Debug = False,
) -> None:
    """Remove what a site has kept for longer than it may, as at the start of every run.

    Reads the site's workspace and writes what was removed into its audit log. What has no number of days stays.

    Example: `fedtag site sweep --data /data/hospital-a --states 30 --evidence 365`
    """
    from fedtag.client.policy.rules import read_policy
    from fedtag.client.site.retention import KEEP, Retention
    from fedtag.client.site.retention import sweep as sweep_site
    from fedtag.common.wording.counts import plural
    from fedtag.deploy.federation.site import own_site_at
    from fedtag.deploy.terminal.console import results, say

    days = {"states": states, "evidence": evidence, "caches": caches}
    kept = KEEP if policy is None else read_policy(policy).retention
    given = {kind: number for kind, number in days.items() if number is not None}
    found = sweep_site(own_site_at(data, workspace, cache, name), Retention(**{**kept.model_dump(), **given}))
    say(
        results(),
        f"removed: states of {plural(len(found.states), 'run')}, {plural(len(found.evidence), 'file')} of evidence",
    )
