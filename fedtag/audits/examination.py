"""An audit of evidence from its reading to its pages."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from fedtag.audits.evidence import (
    Audited,
    audit,
    node_evidence,
    page_paths,
    without_evidence,
    write_audit_page,
)
from fedtag.audits.faithfulness import Faithfulness, measure_audited
from fedtag.client.evidence.packs import EvidencePack
from fedtag.client.evidence.page.content import SAMPLE
from fedtag.runs.progress import LOGGED, Progress


@dataclass(frozen=True)
class Examination:
    """What an audit found.

    Args:
        sites: with the verified evidence of each.
        lacking: a sentence on the sites of a run without evidence; None if all have some, or one was asked for.
        node: the evidence of one node, and its site, if it was asked for.
        faithfulness: what was measured; None where it was not asked for, or the evidence does not verify.
        pages: that were written, and how many nodes each holds.
    """

    sites: tuple[Audited, ...]
    lacking: str | None
    node: tuple[Audited, EvidencePack] | None
    faithfulness: Faithfulness | None = None
    pages: tuple[tuple[Path, int], ...] = ()

    @property
    def verified(self) -> bool:
        """Whether all evidence is there and holds."""
        return self.lacking is None and all(site.verification.holds for site in self.sites)


def examine(
    path: Path,
    client: str | None = None,
    node: str | None = None,
    html: Path | None = None,
    round_number: int | None = None,
    data: Path | None = None,
    settings: Path | None = None,
    targets: int = 0,
    model: Path | None = None,
    progress: Progress = LOGGED,
    sample: int = SAMPLE,
    page: bool = True,
) -> Examination:
    """Verify the evidence of a run's sites, or of one, and write its pages, unless one node alone is asked for.

    Args:
        path: a run directory, or a site's folder.
        client: one site of a run.
        node: whose evidence is wanted.
        html: where the page goes; audit-CLIENT.html in the path where None.
        round_number: of the evidence; of the released model where None.
        data: folder with nodes and edges, if the evidence lies elsewhere.
        settings: the run's, as TOML, if its budgets are not the defaults.
        targets: most test nodes a site on which faithfulness is measured; 0 is not at all. Nothing is measured where
            the evidence does not verify.
        model: where the released model is, for that, if not in `path`.
        progress: of the measurement.
        sample: how many nodes of each site are drawn for an auditor.
        page: whether pages are written.

    Raises:
        ConfigError: options that do not go together.
        RunError, DataError: there is no evidence, or none of the node, or it cannot be read or measured.
    """
    sites = audit(path, client, data, round_number, settings)
    lacking = without_evidence(path) if client is None else None
    found = Examination(tuple(sites), lacking, None if node is None else node_evidence(sites, node))
    measured = None
    if targets and found.verified:
        measured = measure_audited(sites, path, client, model, targets, progress)
    places = page_paths(sites, path, html) if page and (node is None or html is not None) else []
    pages = [
        (place, write_audit_page(site, place, sample)) for site, place in zip(sites, places, strict=False)
    ]
    return replace(found, faithfulness=measured, pages=tuple(pages))
