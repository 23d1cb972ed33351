"""Where an auditor reads the evidence of a run's sites, as far as it lies in the run directory."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from fedtag.server.tracking.run_directory import SITES

PAGES = "audit-*.html"
"""As `fedtag audit` names the page of each site."""
KEPT = "*/evidence/*"

LINKS = """\
{% macro evidence_links(run, here) %}
{% if run.evidence.pages %}
<p>Evidence: {% for page in run.evidence.pages %}<a href="{{ page|from_folder(here) }}" style="color:var(--accent)"><bdi>{{ page.stem }}</bdi></a>{{ "" if loop.last else ", " }}{% endfor %}</p>
{% elif run.evidence.kept %}
<p class="note">The sites kept evidence: <code>fedtag audit RUN</code>, with the directory of this run, writes a page for each; a report that is written after it links them.</p>
{% endif %}
{% endmacro %}
"""  # noqa: E501


@dataclass(frozen=True)
class EvidencePages:
    """The pages that are there, ordered by name, and whether sites kept evidence of which pages can be made."""

    pages: tuple[Path, ...]
    kept: bool


def evidence_pages(run: Path) -> EvidencePages:
    """Those of a run directory."""
    return EvidencePages(tuple(sorted(run.glob(PAGES))), any((run / SITES).glob(KEPT)))
