"""Reading and verifying the evidence of sites, at an institution or in a run directory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fedtag.client.data.folder import read_folder
from fedtag.client.data.text_graph import SPLIT_NAMES, TextGraph
from fedtag.client.evidence.completeness import completeness_violations
from fedtag.client.evidence.keeper import budgets_of
from fedtag.client.evidence.measured import FILE, MeasuredSite, read_measured
from fedtag.client.evidence.pack_table import PackTable
from fedtag.client.evidence.packs import EvidencePack
from fedtag.client.evidence.page.content import SAMPLE
from fedtag.client.evidence.page.document import write_page
from fedtag.client.evidence.page.views import AuditedSite
from fedtag.client.evidence.source_texts import KnownLabels
from fedtag.client.evidence.store import available_rounds, latest, read_packs, round_file, round_of
from fedtag.client.evidence.verification import Budgets, Verification, verify
from fedtag.client.site.site import Site, name_of
from fedtag.common.config import RunConfig, flatten
from fedtag.common.errors import ConfigError, RunError
from fedtag.common.homes import cache_folder
from fedtag.runs.settings import read_settings
from fedtag.runs.simulation import model_folders
from fedtag.server.tracking.recorded import recorded_config
from fedtag.server.tracking.run_directory import SITES, RunDirectory, is_run

EVIDENCE = "evidence"
CACHE = "cache"


@dataclass(frozen=True)
class Audited:
    """The evidence of one site in one round, verified against the site's own texts.

    `site` says where its folder, its evidence and its cache lie.
    """

    name: str
    site: Site
    graph: TextGraph
    packs: PackTable
    round: int
    budgets: Budgets
    verification: Verification

    @property
    def known(self) -> KnownLabels:
        """Classes and labels of its folder."""
        return KnownLabels(self.graph.classes, self.graph.labels)

    @property
    def measured(self) -> MeasuredSite | None:
        """Faithfulness as it was measured at the site, if that was of the model that these packs name."""
        found = read_measured(self.site.workspace / FILE)
        return found if found is not None and self.packs.models == {found.model} else None


def sites_with_evidence(path: Path) -> list[Path]:
    """The folders of those sites of a run that hold evidence."""
    return sorted(
        folder.parent for folder in (path / SITES).glob(f"*/{EVIDENCE}") if available_rounds(folder)
    )


def audit_run(path: Path, client: str | None, round_number: int | None) -> list[Audited]:
    """The sites of a run directory, at the round of the released model unless another one is asked for.

    Raises:
        RunError: there is no evidence, no such client or no such round.
    """
    directory = RunDirectory.open(path)
    config = recorded_config(path, flatten(directory.read_config()))
    budgets = budgets_of(config)
    sites = sites_with_evidence(path)
    if not sites:
        raise RunError(
            f"{path} has no evidence in {SITES}/: only methods that select texts write it, at the end of a run"
        )
    names = [site.name for site in sites]
    if client is not None:
        if client not in names:
            raise RunError(f"client {client} has no evidence in {path}; choose {', '.join(names)}")
        sites = [path / SITES / client]
    card = directory.read_model_card()
    released = card.get("round") if round_number is None else round_number
    audited = []
    for site in sites:
        rounds = available_rounds(site / EVIDENCE)
        wanted = released if round_number is not None or released in rounds else rounds[-1]
        model = card.get("fingerprint") if wanted == card.get("round") else None
        place = Site(site.name, site, site, cache_folder(), config.device, models=model_folders(path))
        audited.append(audit_site(place, wanted, budgets, model))
    return audited


def without_evidence(path: Path) -> str | None:
    """A sentence on the sites of a run that have no evidence in it; None if all have, or if it is no run."""
    if not is_run(path):
        return None
    folders = {folder.name for folder in (path / SITES).iterdir() if folder.is_dir()}
    names = sorted(folders | {row.client for row in RunDirectory.open(path).read_clients()})
    bare = [name for name in names if not available_rounds(path / SITES / name / EVIDENCE)]
    if not bare:
        return None
    verb = "has" if len(bare) == 1 else "have"
    return f"{len(bare)} of {len(names)} sites {verb} no evidence: {', '.join(bare)}"


def audit_site(site: Site, round_number: int | None, budgets: Budgets, model: str | None = None) -> Audited:
    """One institution's evidence, of the latest round unless another one is asked for.

    Args:
        site: whose workspace holds evidence/ and whose folder has nodes and edges, often the same.
        round_number: of the evidence.
        budgets: of the run.
        model: fingerprint that the evidence must name, if it is that of the released model.
    """
    evidence = site.evidence
    if round_number is None:
        file = latest(evidence)
    else:
        rounds = available_rounds(evidence)
        if round_number not in rounds:
            there = ", ".join(map(str, rounds)) or "none"
            raise RunError(f"{evidence} has no evidence of round {round_number}; it has {there}")
        file = round_file(evidence, round_number)
    packs = read_packs(file)
    graph = read_folder(site.folder, require_training=False).graph
    known = KnownLabels(graph.classes, graph.labels)
    verification = verify(packs, graph.node_ids, graph.texts, budgets.hops, budgets.chunks, known)
    number = round_of(file)
    whole = completeness_violations(packs, number, graph.node_ids, graph.edges, model)
    verification = replace(verification, violations=(*whole, *verification.violations))
    return Audited(site.workspace.resolve().name, site, graph, packs, number, budgets, verification)


def audit(
    path: Path, client: str | None, data: Path | None, round_number: int | None, settings: Path | None
) -> list[Audited]:
    """The evidence that a path holds: of a run directory's clients, or of one site.

    Raises:
        ConfigError: options that do not go together.
        RunError, DataError: there is no evidence, or it cannot be read.
    """
    if is_run(path):
        if data is not None or settings is not None:
            raise ConfigError(
                f"{path} is a run directory, which has its own data= and config=; leave them out"
            )
        return audit_run(path, client, round_number)
    if client is not None:
        raise ConfigError(
            f"client= chooses within a run directory, and {path} is none; name the site's folder"
        )
    budgets = budgets_of(RunConfig.from_flat(read_settings(settings))) if settings else Budgets()
    site = Site(name_of(path), data or path, path, path / CACHE)
    return [audit_site(site, round_number, budgets)]


def node_evidence(audited: Sequence[Audited], node: str) -> tuple[Audited, EvidencePack]:
    """The evidence of one node, at the first site that has it.

    Raises:
        RunError: no site has it.
    """
    for site in audited:
        pack = site.packs.find(node)
        if pack is not None:
            return site, pack
    first = audited[0]
    examples = ", ".join(str(pack.node) for pack in first.packs[:3])
    named = f"name one that has, for example {examples}" if examples else "there is none of any node"
    rounds = ", ".join(f"{site.name} in round {site.round}" for site in audited)
    there = [site.name for site in audited if node in map(str, site.graph.node_ids)]
    if there:
        raise RunError(f"node {node} of {', '.join(there)} has no evidence at {rounds}: {named}")
    raise RunError(f"node {node} is in none of the graphs with evidence, {rounds}: {named}")


def audited_site(site: Audited) -> AuditedSite:
    """What a page shows of a site."""
    graph, measured = site.graph, site.measured
    return AuditedSite(
        f"Evidence of {site.name}, round {site.round}",
        site.packs,
        graph.node_ids,
        graph.texts,
        site.budgets,
        [SPLIT_NAMES[code] for code in graph.split.tolist()],
        {} if measured is None else measured.nodes,
        graph.edges,
        site.verification,
    )


def write_audit_page(site: Audited, out: Path, sample: int = SAMPLE) -> int:
    """The audit page of one site; how many of its nodes it holds."""
    measured = site.measured
    return write_page(audited_site(site), out, sample, None if measured is None else measured.summary)


def page_paths(audited: Sequence[Audited], path: Path, html: Path | None) -> list[Path]:
    """Where the page of each site goes: audit-CLIENT.html in the path, or as asked for.

    With several sites a file name given gets each client's name at its end.
    """
    if html is None:
        return [path / f"audit-{site.name}.html" for site in audited]
    if len(audited) == 1:
        return [html]
    return [html.with_name(f"{html.stem}-{site.name}{html.suffix or '.html'}") for site in audited]
