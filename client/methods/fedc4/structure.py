"""How condensed and rebuilt graphs compare with the original one, for the site itself (FedC4, Table 3)."""

from __future__ import annotations

import json
from pathlib import Path

from torch import Tensor

from fedtag.client.methods.fedc4.collaboration.structure import degree_histogram, structure
from fedtag.common.graph import Adjacency, Graph
from fedtag.common.methods.fedc4.names import STRUCTURE_FILE
from fedtag.common.synthetic.condensed import Condensed


def write_structure(folder: Path, graph: Graph, core: Condensed, adjacency: Adjacency, y: Tensor) -> None:
    """Write density, homophily and degree divergence of the three graphs; the newest replaces what was there.

    The file stays at the site, because the structure of its graph is nobody else's business. The homophily of the
    original graph is that between training nodes, whose labels alone may be read.

    Args:
        folder: of the site.
        graph: the original one, as training sees it.
        core: condensed from it.
        adjacency: rebuilt on own and received nodes.
        y: their labels.
    """
    reference = degree_histogram(graph.edge_index, graph.num_nodes)
    known = graph.y.where(graph.train_mask, -1)
    three = {
        "original": structure(graph.edge_index, known, reference),
        "condensed": structure(core.edge_index, core.y, reference),
        "rebuilt": structure(adjacency.edge_index_without_loops, y, reference),
    }
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / STRUCTURE_FILE
    partial = path.with_suffix(".tmp")
    partial.write_text(json.dumps({name: vars(one) for name, one in three.items()}, indent=1) + "\n")
    partial.replace(path)
