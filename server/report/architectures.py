"""The architectures of a run's clients, for the report."""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from fedtag.common.errors import RunError, WireError
from fedtag.common.models.supernet.architecture import Architecture
from fedtag.common.models.supernet.drawing import drawing, table
from fedtag.server.tracking.run_directory import ARCHITECTURES, RunDirectory

SECTION = """\
{% if run.architectures %}
<h3>Architectures</h3>
<p>What each client's search was discretised to: for each cell, feature filters (layer 1), neighbourhood aggregations (2) and activations (3). H is the cell's input, X the output of the cell before.</p>
{% for one in run.architectures %}
<details><summary><bdi>{{ one.client }}</bdi>: {{ one.parameters|count }} parameters{% if one.fell_back %} <span class="warn">no path was left; fell back to identity, mean, ReLU</span>{% endif %}</summary>
<div style="max-width:40rem">{{ one.drawing }}</div>
<div class="scroll"><table>
<thead><tr><th scope="col" class="number">Cell</th><th scope="col">Layer</th><th scope="col">Node</th><th scope="col">From</th><th scope="col">Operation</th></tr></thead>
<tbody>
{% for row in one.rows %}<tr><td class="number">{{ row[0] }}</td>{% for entry in row[1:] %}<td>{{ entry }}</td>{% endfor %}</tr>
{% endfor %}
</tbody></table></div>
</details>
{% endfor %}
{% endif %}
"""  # noqa: E501


@dataclass(frozen=True)
class ArchitectureView:
    """One client's: edges as rows, a drawing, parameters, and whether a cell fell back."""

    client: str
    rows: tuple[tuple[int, str, str, str, str], ...]
    drawing: Markup
    parameters: int
    fell_back: bool


def view_architectures(run: RunDirectory) -> tuple[ArchitectureView, ...]:
    """The architectures in a run directory, by name of the client.

    Raises:
        RunError: a file holds something else.
    """
    views = []
    for client, told in run.read_architectures().items():
        try:
            architecture = Architecture.from_json({"cells": told.get("cells")})
            parameters = int(told["parameters"])
        except (WireError, KeyError, TypeError, ValueError) as error:
            place = run.path / ARCHITECTURES / f"{client}.json"
            raise RunError(f"{place} is no architecture ({error}); restore it from the run") from error
        fell_back = any(cell.fell_back for cell in architecture.cells)
        picture = Markup(drawing(architecture))
        views.append(ArchitectureView(client, tuple(table(architecture)), picture, parameters, fell_back))
    return tuple(views)
