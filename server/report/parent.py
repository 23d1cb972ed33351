"""The section of a run that goes on from another one."""

from __future__ import annotations

from collections.abc import Sequence

from fedtag.server.pages.section import Recorded, ReportSection
from fedtag.server.tracking.parent import parent_words


def parent_sections(recorded: Recorded) -> Sequence[ReportSection]:
    """From which run a run goes on; none where it began anew."""
    told = parent_words(recorded.directory)
    return [ReportSection("Parent", (f"The run goes on from {told}.",))] if told else []
