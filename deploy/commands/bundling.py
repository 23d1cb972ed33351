"""The command that writes the app of a run between machines: bundle."""

from pathlib import Path
from typing import Annotated

import typer

from fedtag.deploy.commands.options import RUN, Debug, RunOptions, SharedOptions, flattened


@flattened
def bundle(
    app: Annotated[
        Path, typer.Argument(help="Folder of the app; new, or an earlier app's.", show_default=False)
    ],
    run: RunOptions,
    shared: SharedOptions,
    resume: Annotated[
        Path | None,
        typer.Option(
            metavar="RUN_DIR",
            help="A finished run that is extended to --rounds, by its own settings.",
            rich_help_panel=RUN,
        ),
    ] = None,
    debug: Debug = False,
) -> None:
    """Write the app for `flwr run`: the settings of a run between machines.

    Reads, with --config, a TOML file; writes one pyproject.toml with the settings, the two components, and the
    release and protocol of this fedtag. It holds no code: all machines have fedtag installed. `flwr run --run-config`
    can still change single settings. --clients is how many institutions to wait for, --out the name of a run
    directory, in runs/ under FEDTAG_HOME on the server; --data and how it is divided count in simulations alone,
    which need it. A path of this machine is refused: settings go to every institution.

    --resume writes the app of a new run that goes on where a finished one ended: the server looks for that one's
    directory in runs/ under FEDTAG_HOME, and institutions go on with what they kept of it.

    Example: `fedtag bundle app --clients 3 --rounds 20`
    """
    from fedtag.common.config.places import SOURCE
    from fedtag.deploy.federation.bundle import write_app
    from fedtag.deploy.terminal.console import results, say
    from fedtag.runs.settings import extended_settings, given_settings

    chosen = run.chosen() | shared.chosen()
    if resume is None:
        # What simulations read by default is not what institutions have.
        given = {SOURCE: "", **given_settings(shared.config, chosen, shared.assignments or [])}
    else:
        given = extended_settings(resume, shared.config, chosen, shared.assignments or [])
    folder = write_app(app, given)
    say(results(), f"app  {folder}")
    say(results(), f"run  flwr run {folder} CONNECTION --stream")
