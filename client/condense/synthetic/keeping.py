"""A client's condensed graph in a run: made when first needed, then kept on disk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fedtag.client.condense.condenser import condense
from fedtag.client.condense.synthetic.leak import leak
from fedtag.client.site.state import Remembered
from fedtag.common.randomness import torch_generator
from fedtag.common.synthetic.condensed import Condensed
from fedtag.common.synthetic.labels import condensed_size

if TYPE_CHECKING:
    from fedtag.client.context.session import Session

NAME = "condensed"


def condensed_graph(session: Session) -> tuple[Condensed, dict[str, Any]]:
    """The condensed graph of the run's condenser, on the session's device, and what the server is told of it.

    Each message may run in a new process; the graph is condensed in the first that needs it.

    Returns:
        the graph, and `core` and `nodes`, its number of nodes and that of the original, with the shares `copied` and
        `close` of `leak`.
    """
    return session.kept(NAME, lambda: _restored(session))


def _restored(session: Session) -> tuple[Condensed, dict[str, Any]]:
    kept = session.derived(NAME, lambda: _condensed(session))
    told = dict(kept.values)
    copies = told.pop("copies")
    return Condensed.from_tensors(kept.tensors, copies).to(session.device), told


def _condensed(session: Session) -> Remembered:
    config, graph, nodes = session.config, session.training_graph, session.sizes["nodes"]
    with session.timed("condense"):
        condensed = condense(
            config.condenser.name,
            graph,
            condensed_size(nodes, config.ratio),
            config.tables.get(config.condenser.name, config.condenser),
            torch_generator(config.seed, session.site.name, "condense"),
            report=session.progress("condensing"),
        )
        # Those behind the site's own nodes are generated, and nobody's secret.
        found = leak(condensed.x, graph.x[:nodes])
    values = {
        "core": condensed.num_nodes,
        "nodes": nodes,
        **vars(found),
        "copies": condensed.copies,
    }
    return Remembered(condensed.tensors, values)
