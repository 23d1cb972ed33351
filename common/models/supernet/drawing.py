"""An architecture as a table and as a drawing."""

from __future__ import annotations

from html import escape

from fedtag.common.models.supernet.architecture import Architecture, CellArchitecture
from fedtag.common.models.supernet.space import LAYERS

WIDTH, ROW, COLUMN, BOX = 640, 64, 180, 44
INPUT_NAMES = ("H", "X")


def table(architecture: Architecture) -> list[tuple[int, str, str, str, str]]:
    """A row for every edge: cell from 1, layer, node, its source, operation (with its weight where it is not 1)."""
    rows = []
    for number, cell in enumerate(architecture.cells, start=1):
        for depth, (layer, _, _) in enumerate(LAYERS):
            for target, edges in sorted(cell.layers[layer].items()):
                for edge in edges:
                    weight = "" if edge.weight == 1 else f" × {edge.weight:g}"
                    node, source = f"{depth + 1}.{target + 1}", _source_name(depth, edge.source)
                    rows.append((number, layer, node, source, edge.operation + weight))
    return rows


def drawing(architecture: Architecture) -> str:
    """A self-contained SVG: cells from top to bottom, layers from left to right, operations on the edges."""
    parts = []
    height = 0
    for number, cell in enumerate(architecture.cells, start=1):
        parts.append(f'<g transform="translate(0,{height})">{_cell(number, cell)}</g>')
        height += 3 * ROW + 40
    title = escape(
        "; ".join(f"{node} from {source}: {kind}" for _, _, node, source, kind in table(architecture))
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'font-family="sans-serif" font-size="12"><title>{title}</title>{"".join(parts)}</svg>'
    )


def _source_name(depth: int, source: int) -> str:
    return INPUT_NAMES[source] if depth == 0 else f"{depth}.{source + 1}"


def _place(depth: int, node: int) -> tuple[int, int]:
    return 20 + depth * COLUMN, 30 + node * ROW


def _cell(number: int, cell: CellArchitecture) -> str:
    told = " (fallback)" if cell.fell_back else ""
    parts = [f'<text x="4" y="14">Cell {number}{told}</text>']
    nodes = {(0, edge.source) for edges in cell.layers["filter"].values() for edge in edges}
    for depth, (layer, _, _) in enumerate(LAYERS):
        for target, edges in sorted(cell.layers[layer].items()):
            nodes.add((depth + 1, target))
            x2, y2 = _place(depth + 1, target)
            for edge in edges:
                x1, y1 = _place(depth, edge.source)
                x1 += BOX
                parts.append(
                    f'<line x1="{x1}" y1="{y1 + 14}" x2="{x2}" y2="{y2 + 14}" stroke="currentColor"/>'
                    f'<text x="{(x1 + x2) / 2:g}" y="{(y1 + y2) / 2 + 9:g}" text-anchor="middle" '
                    f'fill="currentColor">{escape(edge.operation)}</text>'
                )
    for depth, node in sorted(nodes):
        x, y = _place(depth, node)
        name = INPUT_NAMES[node] if depth == 0 else f"{depth}.{node + 1}"
        parts.append(
            f'<rect x="{x}" y="{y}" width="{BOX}" height="28" rx="6" fill="none" stroke="currentColor"/>'
            f'<text x="{x + BOX / 2:g}" y="{y + 19}" text-anchor="middle" fill="currentColor">{name}</text>'
        )
    return "".join(parts)
