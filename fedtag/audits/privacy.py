"""Attacking what was released to learn who was among the training nodes, and recording what came of it."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from fedtag.audits.artefact import Released, read_released
from fedtag.audits.audited_sites import check_sessions, sites_of_run
from fedtag.audits.released_targets import (
    RELEASE,
    SELF_TRAINED,
    kept_by_server,
    released_targets,
    targets_over_rounds,
)
from fedtag.audits.transcript import TRANSCRIPT, transcripts_of, why_not
from fedtag.client.attacks.attack import attacked
from fedtag.client.attacks.controls import member_groups, never_seen, overfitted
from fedtag.client.attacks.population import Population, population
from fedtag.client.attacks.record import (
    control_record,
    population_record,
    target_record,
    transcript_record,
    without_curves,
)
from fedtag.client.attacks.shadow import ShadowAttacker
from fedtag.client.attacks.targets import Target, defended
from fedtag.client.attacks.transcript import Transcript
from fedtag.client.run.opened_site import opened_site
from fedtag.client.site.site import Site, name_of
from fedtag.client.train.threads import limited_threads
from fedtag.common.config import RunConfig
from fedtag.common.errors import ConfigError, DataError, RunError
from fedtag.common.homes import cache_folder
from fedtag.common.randomness import derive_seed
from fedtag.comparison.reports import REPORT, report
from fedtag.runs.progress import LOGGED, Progress, Work
from fedtag.runs.simulation import check_device, model_folders
from fedtag.server.tracking.artefact import STATES, artefact_at
from fedtag.server.tracking.durable_files import write_atomically
from fedtag.server.tracking.membership_audit import FILE, SCHEMA
from fedtag.server.tracking.model_card import write_model_card
from fedtag.server.tracking.run_directory import SITES, RunDirectory, is_run

TARGETS = (RELEASE, SELF_TRAINED, TRANSCRIPT)
CONTROL_MODELS = 3
"""Models that know the training nodes by heart: their area is far from its bound, and each takes long."""


@dataclass(frozen=True)
class Audit:
    """What is to be audited.

    Args:
        path: a run directory, another folder with a release, or a condensed graph's file; None without a release.
        data: the sites' folders, called as the sites were in the run; those of the run where empty.
        defences: also train models on the folders, one kind a defence.
        models: how many models of a kind, and shadow attacks on each.
        draws: of the bootstrap.
        cache: folder of encoded texts; that of simulations where None.
        device: auto, cpu, cuda, ...
        seed: where no release has one.
        over_rounds: also attack what the run kept of its scored rounds.
        targets: of `TARGETS`; empty: all that there are.
    """

    path: Path | None
    data: Sequence[Path]
    defences: bool
    models: int = 10
    draws: int = 1000
    cache: Path | None = None
    device: str = "auto"
    seed: int = 0
    over_rounds: bool = False
    targets: tuple[str, ...] = ()

    def wants(self, target: str) -> bool:
        """Whether a target is to be attacked where it is there."""
        return not self.targets or target in self.targets


def audit_privacy(audit: Audit, progress: Progress = LOGGED) -> dict[str, Any]:
    """Attack everything that an audit names; nothing is written but the cache of encoded texts.

    Returns:
        counts, areas and curves over nodes, in plain types; nothing of a single node.

    Raises:
        ConfigError: there is nothing to attack, or no such device.
        RunError: there is no release or no site, or one cannot be used.
        DataError: folders break the contract, do not fit the release, or lack training or test nodes.
    """
    check_device(audit.device)
    check_targets(audit)
    if audit.over_rounds:
        check_states(audit.path)
    if audit.path is None and not (audit.data and audit.defences):
        raise ConfigError(
            "there is nothing to attack: name a run directory, or folders by data= together with defences="
        )
    artefact = read_released(audit.path) if audit.path is not None else None
    config = artefact.about.config if artefact is not None else RunConfig.from_flat({"seed": audit.seed})
    folders, models, cache = site_folders(audit), model_folders(audit.path), audit.cache or cache_folder()
    with tempfile.TemporaryDirectory(prefix="fedtag-") as workspace:
        sessions = [
            opened_site(
                Site(name_of(one), one, Path(workspace), cache, audit.device, models=models),
                config,
                progress.work(name_of(one)),
                artefact.about.classes if artefact is not None else None,
            )
            for one in folders
        ]
        check_sessions(sessions, artefact)
        names = [session.site.name for session in sessions]
        people = population([session.data.graph for session in sessions], names, config.seed)
        if member_groups(people).is_empty:
            raise DataError(
                "no class has both training and test nodes with labels, which an audit compares; "
                "audit folders with their splits"
            )
        with limited_threads(people.graph.x.numel()):
            kept = kept_by_server(audit.path)
            targets = [
                one for one in released_targets(artefact, kept, sessions, people) if audit.wants(one.of)
            ]
            if SELF_TRAINED in audit.targets and not any(one.of == SELF_TRAINED for one in targets):
                raise ConfigError(
                    f"{audit.path} has no self-trained model, neither released nor in its checkpoint: leave target= "
                    f"{SELF_TRAINED} out"
                )
            targets += defended(people) if audit.defences else ()
            seen: tuple[Transcript, ...] = ()
            if audit.wants(TRANSCRIPT) and audit.path is not None and not why_not(audit.path, not audit.data):
                seen = transcripts_of(
                    audit.path, audit.device, audit.cache or cache_folder(), people, names, progress
                )
            earlier = (
                targets_over_rounds(audit.path, artefact, kept, sessions, people) if audit.over_rounds else ()
            )
            record = measured_targets(
                audit, config.seed, artefact, people, targets, seen, earlier, len(folders), progress
            )
    return {**record, "sites_of_run": sites_of_run(audit.path, names)}


def check_targets(audit: Audit) -> None:
    """Raise ConfigError where a target was asked for by name that is none, or that is not at hand."""
    if strange := sorted(set(audit.targets) - set(TARGETS)):
        raise ConfigError(f"target={strange[0]}: use {', '.join(TARGETS)}")
    if TRANSCRIPT in audit.targets and (reason := why_not(audit.path, not audit.data)):
        raise ConfigError(f"target={TRANSCRIPT}: {reason}")


def check_states(path: Path | None) -> None:
    """Raise ConfigError where there is nothing to attack over rounds."""
    if path is None or not list((path / STATES).glob("*.safetensors")):
        raise ConfigError(
            f"{path or 'no run'} keeps no states of its rounds: name the directory of a run that was told to keep "
            "them, by the setting keep-states of a method that has it"
        )


def site_folders(audit: Audit) -> list[Path]:
    """The folders of the sites.

    Raises:
        RunError: neither named nor in the run directory.
    """
    if audit.data:
        return list(audit.data)
    assert audit.path is not None
    found = sorted(meta.parent for meta in (audit.path / SITES).glob("*/meta.json"))
    if not found:
        raise RunError(
            f"{audit.path} has no folders of sites in {SITES}/, as only simulations have: name them by data="
        )
    return found


def measured_targets(
    audit: Audit,
    seed: int,
    artefact: Released | None,
    people: Population,
    targets: Sequence[Target],
    seen: Sequence[Transcript],
    earlier: Iterable[tuple[int, Sequence[Target]]],
    sites: int,
    progress: Progress,
) -> dict[str, Any]:
    """The record of an audit: controls, then targets and what was seen, then those of each round that was kept."""
    seeds = tuple(derive_seed(seed, "privacy audit", number) for number in range(audit.models))
    attacker = ShadowAttacker(people)

    def counted(what: str, total: int) -> Callable[[int], None]:
        return partial(_count, progress.work("audit"), what, total)

    few = seeds[:CONTROL_MODELS]
    controls = (
        overfitted(people, few, audit.draws, counted("attacking models that know by heart", len(few))),
        *never_seen(
            people,
            attacker,
            seeds,
            audit.draws,
            counted("attacking models that never saw the data", len(seeds)),
        ),
    )

    def attack(target: Target, when: str = "") -> dict[str, Any]:
        done = counted(f"attacking: {target.name}{when}", len(seeds))
        scored = attacked(target, people, attacker, seeds, done)
        return target_record(target, people, scored, audit.draws, seed)

    records = [attack(target) for target in targets]
    records += [transcript_record(one, people, audit.draws, seed) for one in seen]
    over_rounds = [
        {"round": number, "targets": [without_curves(attack(one, f", round {number}")) for one in those]}
        for number, those in earlier
    ]
    model = artefact.model if artefact is not None else None
    condensed = artefact.beside if artefact is not None else None
    return {
        "schema": SCHEMA,
        "model": model.card.fingerprint if model is not None else None,
        "condensed": condensed.digest if condensed is not None else None,
        "round": model.card.round if model is not None else None,
        "seed": seed,
        "models": audit.models,
        "draws": audit.draws,
        "sites": sites,
        **population_record(people),
        "controls": [control_record(control) for control in controls],
        "targets": records,
        **({"over_rounds": over_rounds} if audit.over_rounds else {}),
    }


def write_audit(record: dict[str, Any], path: Path | None, out: Path | None) -> tuple[Path, ...]:
    """Write the record anew and whatever shows it: the card of a condensed graph; a run's report and its card.

    Args:
        record: of `audit_privacy`.
        path: what was audited.
        out: where the record goes; beside what was audited where None, and the run then shows it.

    Returns:
        the files written.
    """
    folder = Path() if path is None else path.parent if path.is_file() else path
    file = out if out is not None else folder / FILE
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(file, (json.dumps(record, allow_nan=False, indent=1) + "\n").encode())
    if out is not None or path is None:
        return (file,)
    written = [file]
    kind = artefact_at(path) if record["condensed"] is not None else None
    if kind is not None:
        written.append(kind.write_audit(folder, path, record))
    if is_run(folder):
        report([folder])
        written += [folder / REPORT, write_model_card(RunDirectory.open(folder))]
    return tuple(written)


def _count(work: Work, what: str, total: int, done: int) -> None:
    work(what, done, total)
