"""Measuring whether the evidence of sites is what their predictions rest on."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from fedtag.audits.evidence import Audited
from fedtag.client.evidence.churn import Change, by_margin, changes, churn
from fedtag.client.evidence.condensed import CORE_FOLDER
from fedtag.client.evidence.faithfulness import CONFIDENCE, RESAMPLES, faithfulness_report, pooled
from fedtag.client.evidence.keeper import EvidenceKeeper, Measured, keeper_of
from fedtag.client.evidence.measured import FILE, SCHEMA, MeasuredSite, write_measured
from fedtag.client.evidence.pack_table import PackTable
from fedtag.client.evidence.store import available_rounds, read_packs, round_file
from fedtag.client.prediction.outcome import ReleasedModel
from fedtag.client.run.opened_site import OpenedSite, opened_site
from fedtag.client.site.site import Site
from fedtag.common.errors import ConfigError, RunError
from fedtag.common.methods.spec import METHODS
from fedtag.common.randomness import derive_seed
from fedtag.comparison.reports import report
from fedtag.runs.prediction import check_fit
from fedtag.runs.progress import Progress
from fedtag.server.tracking.durable_files import write_atomically
from fedtag.server.tracking.release import Release, read_release
from fedtag.server.tracking.run_directory import RunDirectory, is_run

Compared = tuple[tuple[int, int, list[Change]], ...]


@dataclass(frozen=True)
class SiteChanges:
    """What changed at a site between rounds: (first, last) and the nodes' changes, and margins of the last."""

    scored: Compared
    core: Compared
    margins: Mapping[str | int, float]


@dataclass(frozen=True)
class Faithfulness:
    """What was measured on some sites together.

    Args:
        title: whose measures they are.
        summary: counts, means and intervals, in plain types.
        file: that holds them.
    """

    title: str
    summary: Mapping[str, Any]
    file: Path


@dataclass(frozen=True)
class SiteMeasure:
    """One site: what was measured, and where its file goes."""

    site: Site
    session: OpenedSite
    measured: Measured
    changes: SiteChanges


def measure_audited(
    audited: Sequence[Audited],
    path: Path,
    client: str | None,
    model: Path | None,
    targets: int,
    progress: Progress,
) -> Faithfulness:
    """Measure the sites of an audit and write what was found.

    Args:
        audited: the sites, at the round of the released model, whose evidence was verified.
        path: a run directory, or a site's folder.
        client: the only site of a run that is measured; nothing is then written for the run as a whole.
        model: where the released model is, if not in `path`.
        targets: most test nodes a site.
        progress: of the work at each site.

    Raises:
        ConfigError: a site's folder was given without the model, or the model's method selects no texts.
        RunError: there is no released model, or the evidence is that of another one.
    """
    run = path if is_run(path) else None
    if run is None and model is None:
        raise ConfigError(
            f"faithfulness= predicts anew, and {path} holds no released model: name a run directory, or a "
            f"folder with its model.safetensors and model.json, by model="
        )
    source = model or path
    release = read_release(RunDirectory.open_release(source))
    keeper_for(release, source)
    for site in audited:
        if site.packs.models != {release.card.fingerprint}:
            raise RunError(
                f"the evidence of {site.name} in round {site.round} is not that of the model in {source}: "
                f"choose its round by round=, or the run that released it by model="
            )
    found = measure_sites([site.site for site in audited], release, targets, progress)
    whole = run if client is None else None
    together = write_measures(release, found, whole)
    title = f"{len(found)} sites" if len(found) > 1 else found[0].site.name
    return Faithfulness(title, together, (whole or found[0].site.workspace) / FILE)


def keeper_for(release: Release, source: Path) -> EvidenceKeeper:
    """What can be asked of the evidence of a released model.

    Raises:
        ConfigError: its method selects no texts.
    """
    keeper = keeper_of(release.config.spec)
    if keeper is None:
        others = ", ".join(name for name, one in METHODS.usable().items() if one.evidence)
        raise ConfigError(
            f"{source} holds a model of {release.config.method}, which selects no texts: measure a run of {others}"
        )
    return keeper


def measure_sites(
    sites: Sequence[Site], release: Release, targets: int, progress: Progress
) -> list[SiteMeasure]:
    """Measure each site with the released model.

    Args:
        sites: each with its folder and its evidence.
        release: of a method that selects texts.
        targets: most test nodes a site, drawn by the run's seed.
        progress: of the work at each site.

    Raises:
        RunError: no site has a labelled test node.
        ConfigError: a site has no texts to mask.
    """
    card, keeper = release.card, keeper_of(release.config.spec)
    assert keeper is not None
    released = ReleasedModel(release.parameters, card.round, card.scoring)
    seed = release.config.seed
    prepared = []
    for site in sites:
        session = opened_site(site, release.config, progress.work(site.name), card.classes)
        check_fit(session, card.features, card.dimension)
        chosen = keeper.targets(session.data, targets, seed)
        if chosen:
            # A file that cannot be read is found before the long work, not after it.
            prepared.append((session, chosen, *_changes(site.evidence, card.round)))
    if not prepared:
        raise RunError(
            "no site has a labelled test node, on which faithfulness is measured: give labels and a split"
        )
    found = []
    for session, chosen, scored, core in prepared:
        measured = keeper.measure(released, chosen, seed, session.data, session.context)
        margins = dict(zip(session.data.text_graph.node_ids, measured.margins.tolist(), strict=True))
        found.append(SiteMeasure(session.site, session, measured, SiteChanges(scored, core, margins)))
    return found


def write_measures(release: Release, found: Sequence[SiteMeasure], run: Path | None) -> dict[str, Any]:
    """Write a file at each site and, for a run, one with numbers of all sites together, and its report anew.

    Returns:
        the numbers of all sites together: counts, means and intervals only.
    """
    keeper = keeper_of(release.config.spec)
    assert keeper is not None
    for one in found:
        nodes = keeper.by_node(one.measured, one.session.data.text_graph.node_ids)
        summary = summarised(release, [one])
        write_measured(one.site.workspace / FILE, MeasuredSite(release.card.fingerprint, summary, nodes))
    together = summarised(release, found)
    if run is not None:
        text = json.dumps(together, allow_nan=False, indent=1) + "\n"
        write_atomically(run / FILE, text.encode())
        report([run])
    return together


def summarised(release: Release, found: Sequence[SiteMeasure]) -> dict[str, Any]:
    """The numbers of some sites together, in plain types."""
    card, seed = release.card, release.config.seed
    draws = derive_seed(seed, "faithfulness", "bootstrap")
    parts = [one.measured for one in found]
    plain = [part.without_bypass for part in parts if part.without_bypass is not None]
    reports = {"as_trained": faithfulness_report(pooled([part.outcomes for part in parts]), draws)}
    if plain:
        reports["bypass_off"] = faithfulness_report(pooled(plain), draws)
    return {
        "schema": SCHEMA,
        "model": card.fingerprint,
        "round": card.round,
        "seed": seed,
        "resamples": RESAMPLES,
        "confidence": CONFIDENCE,
        "sites": len(found),
        "targets": sum(len(part.targets) for part in parts),
        "bypass": bool(plain),
        "reports": reports,
        "sizes": {
            name: round(float(np.concatenate([part.sizes[name] for part in parts]).mean()), 4)
            for name in parts[0].sizes
        },
        "guarantees": _together([part.guarantees for part in parts]),
        "churn": _churn([one.changes for one in found]),
    }


def _changes(folder: Path, round_number: int) -> tuple[Compared, Compared]:
    """Between the two rounds whose scored evidence is kept, and between the kept cores."""
    scored = [number for number in available_rounds(folder) if number != round_number]
    if round_number not in available_rounds(folder) or not scored:
        pairs: list[tuple[int, int]] = []
    else:
        other = scored[-1]
        pairs = [(min(other, round_number), max(other, round_number))]
    core = list(pairwise(available_rounds(folder / CORE_FOLDER)))
    return _compared(folder, pairs), _compared(folder / CORE_FOLDER, core)


def _compared(folder: Path, pairs: Sequence[tuple[int, int]]) -> Compared:
    read: dict[int, PackTable] = {
        number: read_packs(round_file(folder, number))
        for number in sorted({number for pair in pairs for number in pair})
    }
    return tuple((first, last, changes(read[first], read[last])) for first, last in pairs)


def _churn(parts: Sequence[SiteChanges]) -> dict[str, Any]:
    figures: dict[str, Any] = {}
    for kind in ("scored", "core"):
        merged: dict[tuple[int, int], list[Change]] = {}
        for part in parts:
            for first, last, found in getattr(part, kind):
                merged.setdefault((first, last), []).extend(found)
        figures[kind] = [vars(churn(*rounds, found)) for rounds, found in sorted(merged.items())]
    pairs = [
        (part.margins[change.node], change.changed)
        for part in parts
        for _, _, found in part.scored
        for change in found
        if change.node in part.margins
    ]
    figures["by_margin"] = [
        {"margin": margin, "nodes": nodes, "changed": changed} for margin, nodes, changed in by_margin(pairs)
    ]
    return figures


def _together(parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Guarantees of several sites: counts added, extremes taken, means weighted by nodes."""
    figures: dict[str, Any] = {}
    for kind in parts[0]:
        rows = [part[kind] for part in parts]
        nodes = sum(row["nodes"] for row in rows)
        figures[kind] = {
            "nodes": nodes,
            "budget": rows[0]["budget"],
            "most_kept": max(row["most_kept"] for row in rows),
            "over_budget": sum(row["over_budget"] for row in rows),
            **{
                name: round(sum(row[name] * row["nodes"] for row in rows) / nodes, 6)
                for name in ("distance_mean", "bound_mean")
            },
            "distance_largest": max(row["distance_largest"] for row in rows),
            "share_of_bound_largest": max(row["share_of_bound_largest"] for row in rows),
            "over_bound": sum(row["over_bound"] for row in rows),
        }
    return figures
