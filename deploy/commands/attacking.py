"""The command that attacks what was released: privacy-audit."""

from pathlib import Path
from typing import Annotated

import typer

from fedtag.deploy.commands.options import Cache, Debug, Device


def privacy_audit(
    path: Annotated[
        Path | None,
        typer.Argument(
            help="A run directory, a folder with a released model, or a condensed graph's file.",
            show_default=False,
        ),
    ] = None,
    data: Annotated[
        list[Path] | None,
        typer.Option(
            help="Folder of a site, called as the site was in the run, with its split; again for each site. "
            "[default: the run's]",
            show_default=False,
        ),
    ] = None,
    target: Annotated[
        list[str] | None,
        typer.Option(
            help="release, self-trained or transcript; again for each. [default: all that there are]",
            show_default=False,
        ),
    ] = None,
    defences: Annotated[
        bool,
        typer.Option(
            "--defences",
            help="Also train models on these folders without and with defences, and attack them.",
        ),
    ] = False,
    over_rounds: Annotated[
        bool,
        typer.Option(
            "--over-rounds",
            help="Also attack what a run kept of its scored rounds, if its method has a setting keep-states.",
        ),
    ] = False,
    models: Annotated[
        int, typer.Option(min=10, help="Models of each kind, and shadow attacks on a released model.")
    ] = 10,
    draws: Annotated[int, typer.Option(min=100, help="Of the bootstrap behind intervals.")] = 1000,
    out: Annotated[
        Path | None,
        typer.Option(help="Write the figures here, and nothing else. [default: PATH/privacy.json]"),
    ] = None,
    cache: Cache = None,
    device: Device = "auto",
    seed: Annotated[int, typer.Option(help="Of all draws, where no release has one.")] = 0,
    debug: Debug = False,
) -> None:
    """Attack what was released, and what the server saw, to learn who was among the training nodes.

    Reads the released model, the condensed graph or both, and the sites' folders with their labels and splits, so
    that it belongs where all of them may be seen: a simulation, or one institution and its own folder. Training
    nodes are told from test nodes by confidence, entropy and modified entropy, and by an attack model that learned
    from shadow models. Writes privacy.json (areas under ROC curves with intervals, counts; nothing of a single
    node) and, for a run directory, its report and its card. The exit code is 1 where a control of the measurement
    fails.

    release is all that is passed on: of a run that releases a condensed graph, models of it are asked with raw features
    and, where the sites' folders still hold them, with the features that the sites keep; nodes with a pseudo-label are
    a second group of members. The attacker's nodes are those that training set aside. self-trained is the model of
    self-training, which the server and the sites have even where it is not released. transcript is what a server saw
    that keeps to the protocol: the sums that each site sent, or what masks leave of them; a simulated run is done again
    for it, and the sums are projected on what each node would have added, and taken apart by an insider who knows the
    rows of all.

    --over-rounds attacks the condensed graph and the self-trained model of each scored round, too, as if the run had
    ended there; the report shows areas and accuracy over rounds. Attacks that put several rounds together are not
    among them.

    --defences compares models that it trains itself: without defence, with pseudo-labels for all (PL), with an L2
    penalty on posteriors (Reg), with Laplace noise on features (LDP).

    Example: `fedtag privacy-audit runs/first --defences`
    """
    from fedtag.audits import privacy as auditing
    from fedtag.common.wording.privacy import is_sound
    from fedtag.deploy.terminal.console import notices, results, say
    from fedtag.deploy.terminal.display import display
    from fedtag.deploy.terminal.privacy_table import show_audit

    audit = auditing.Audit(
        path,
        tuple(data or ()),
        defences,
        models,
        draws,
        cache,
        device,
        seed,
        over_rounds,
        tuple(target or ()),
    )
    with display(debug) as progress:
        record = auditing.audit_privacy(audit, progress)
    console = results()
    show_audit(console, record)
    for file in auditing.write_audit(record, path, out):
        say(console, f"{file.stem:<12} {file.absolute()}", "green")
    if not is_sound(record):
        say(notices(), "a control of the measurement failed: do not rely on these figures", "red")
        raise typer.Exit(1)
