"""A client's condensed graph in a run: made when first needed, then kept on disk."""

from __future__ import annotations

from typing import Any

from fedtag.client.condense.condenser import condense
from fedtag.client.condense.synthetic.leak import leak
from fedtag.client.context.run_context import RunContext
from fedtag.client.context.site_data import SiteData
from fedtag.client.site.state import Remembered
from fedtag.common.synthetic.condensed import Condensed
from fedtag.common.synthetic.labels import condensed_size

NAME = "condensed"


def condensed_graph(data: SiteData, context: RunContext[Any]) -> tuple[Condensed, dict[str, Any]]:
    """The condensed graph of the run's condenser, on the site's device, and what the server is told of it.

    Each message may come to a new process; the graph is condensed in the first that needs it.

    Returns:
        the graph, and `core` and `nodes`, its number of nodes and that of the original, with the shares `copied` and
        `close` of `leak`.
    """
    return context.cached(data, NAME, lambda: _restored(data, context))


def _restored(data: SiteData, context: RunContext[Any]) -> tuple[Condensed, dict[str, Any]]:
    kept = context.memory.derived(NAME, lambda: _condensed(data, context))
    reported = dict(kept.values)
    copies = reported.pop("copies")
    return Condensed.from_tensors(kept.tensors, copies).to(data.device), reported


def _condensed(data: SiteData, context: RunContext[Any]) -> Remembered:
    config, graph, nodes = context.config, data.training.graph, data.sizes["nodes"]
    with context.timed("condense"):
        condensed = condense(
            config.condenser.name,
            graph,
            condensed_size(nodes, config.ratio),
            config.tables.get(config.condenser.name, config.condenser),
            context.generator(data.site.name, "condense"),
            report=context.progress("condensing"),
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
