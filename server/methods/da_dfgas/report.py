"""The architectures of a run's clients, for the report."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from fedtag.common.errors import RunError, WireError
from fedtag.common.models.supernet.architecture import Architecture
from fedtag.common.models.supernet.drawing import drawing, table
from fedtag.server.pages.section import Recorded, ReportSection, Table
from fedtag.server.pages.wording import count
from fedtag.server.tracking.durable_files import read_object

FOLDER = "architectures"
WHAT = (
    "What each client's search was discretised to: for each cell, feature filters (layer 1), neighbourhood "
    "aggregations (2) and activations (3). H is the cell's input, X the output of the cell before."
)
FELL_BACK = "no path was left; fell back to identity, mean, ReLU"


def sections(recorded: Recorded) -> Sequence[ReportSection]:
    """The architectures in a run directory, by name of the client.

    Raises:
        RunError: a file holds something else.
    """
    inner = []
    for path in sorted((recorded.directory.path / FOLDER).glob("*.json")):
        record = read_object(path) or {}
        try:
            architecture = Architecture.from_json({"cells": record.get("cells")})
            parameters = int(record["parameters"])
        except (WireError, KeyError, TypeError, ValueError) as error:
            raise RunError(f"{path} is no architecture ({error}); restore it from the run") from error
        rows = tuple(tuple(map(str, row)) for row in table(architecture))
        inner.append(
            ReportSection(
                f"{path.stem}: {count(parameters)} parameters",
                drawing=Markup(drawing(architecture)),
                tables=(Table(("Cell", "Layer", "Node", "From", "Operation"), (), rows),),
                folded=True,
                warning=FELL_BACK if any(cell.fell_back for cell in architecture.cells) else "",
            )
        )
    return [ReportSection("Architectures", (WHAT,), inner=tuple(inner))] if inner else []
