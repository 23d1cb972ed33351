"""What became of the structure of clients' graphs, for the report."""

from __future__ import annotations

import json
from collections.abc import Sequence

from fedtag.common.errors import RunError
from fedtag.common.methods.fedc4.names import STRUCTURE_FILE
from fedtag.server.pages.section import Recorded, ReportSection, Table
from fedtag.server.pages.wording import count, fixed
from fedtag.server.tracking.run_directory import SITES

GRAPHS = ("original", "condensed", "rebuilt")
FIGURES = ("density", "homophily", "degree_divergence")
CAPTION = (
    "Structure of the graphs at each site, as far as this machine has it. Divergence: of degrees over their mean from "
    "those of the original graph, in nats."
)


def sections(recorded: Recorded) -> Sequence[ReportSection]:
    """The graphs of each site whose folder is here, which is so in simulations and after `fedtag up` only.

    Raises:
        RunError: a file is damaged.
    """
    rows = []
    for path in sorted((recorded.directory.path / SITES).glob(f"*/{STRUCTURE_FILE}")):
        try:
            record = json.loads(path.read_text())
            for name in GRAPHS:
                figures = (fixed(record[name][figure]) for figure in FIGURES)
                rows.append((path.parent.name, name, count(record[name]["nodes"]), *figures))
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise RunError(
                f"{path} is damaged ({error}); delete it, the site's next run writes it anew"
            ) from error
    table = Table(("Client", "Graph"), ("Nodes", "Density", "Homophily", "Divergence"), tuple(rows), CAPTION)
    return [ReportSection("Structure of the graphs", tables=(table,))] if rows else []
