"""Commands with which an institution governs its site: preview, approve, check, forget, sweep."""

from pathlib import Path
from typing import Annotated

import typer

from fedtag.deploy.commands.forgetting import forget, sweep
from fedtag.deploy.commands.options import Debug
from fedtag.deploy.terminal.help import WIDTH, PlainCommand, PlainGroup

Rules = Annotated[
    Path, typer.Option("--policy", help="The site's policy: policy of --node-config.", show_default=False)
]


def preview(
    policy: Rules,
    run: Annotated[
        str | None,
        typer.Argument(help="A run that waits. [default: lists those that do]", show_default=False),
    ] = None,
    debug: Debug = False,
) -> None:
    """Say in words what a run that waits for approval would do: what leaves, how large, in clear or in sums, at what ε.

    Reads the policy, its folder, and of the site's data the description and the number of features; writes nothing.

    Example: `fedtag site preview 8121f0 --policy /etc/fedtag/policy.toml`
    """
    from fedtag.client.policy.preview import preview as told
    from fedtag.client.policy.preview import waiting_line
    from fedtag.client.policy.requests import kept_requests
    from fedtag.client.policy.rules import read_policy
    from fedtag.deploy.terminal.console import results, say

    rules = read_policy(policy)
    requests = kept_requests(rules)
    if run is None:
        lines = list(map(waiting_line, requests.waiting())) or ["No run waits for approval"]
    else:
        lines = told(requests.find(run), rules)
    for line in lines:
        say(results(), line)


def approve(
    run: Annotated[str, typer.Argument(help="A run that waits; read its preview first.", show_default=False)],
    policy: Rules,
    debug: Debug = False,
) -> None:
    """Approve a run that waits, for the settings and records that its preview tells and no others.

    Reads the policy; writes the approval into its folder. The site takes part when the server asks it next.

    Example: `fedtag site approve 8121f0 --policy /etc/fedtag/policy.toml`
    """
    from fedtag.client.policy.requests import kept_requests
    from fedtag.client.policy.rules import read_policy
    from fedtag.deploy.terminal.console import results, say

    approved = kept_requests(read_policy(policy)).approve(run)
    say(results(), f"Approved: run {run} at {approved.site}, digest {approved.digest[:16]}")


def check(
    policy: Annotated[Path, typer.Argument(metavar="POLICY", help="The file.", show_default=False)],
    debug: Debug = False,
) -> None:
    """Check a policy, offline: keys, names and bounds that mean nothing, and whether its folder is there.

    Reads the file and writes nothing. The exit code is 2 if anything is wrong.

    Example: `fedtag site check /etc/fedtag/policy.toml`
    """
    from fedtag.client.policy.rules import read_policy
    from fedtag.deploy.terminal.console import results, say

    read_policy(policy)
    say(results(), f"{policy}: every rule means something here")


COMMANDS = (preview, approve, check, forget, sweep)
"""Of the group; each is called as its function is."""

site = typer.Typer(
    cls=PlainGroup,
    no_args_is_help=True,
    rich_markup_mode=None,
    suggest_commands=False,
    help="Govern a site: what a run would do, approvals, the policy, what is forgotten.",
    context_settings={"max_content_width": WIDTH},
)
for command in COMMANDS:
    site.command(cls=PlainCommand, rich_help_panel="Commands")(command)
