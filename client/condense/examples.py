"""What a client trains a received model on under the run's condenser: its graph, or what was condensed from it."""

from __future__ import annotations

from typing import Any

from fedtag.client.condense.synthetic.keeping import condensed_graph
from fedtag.client.context.run_context import RunContext
from fedtag.client.context.site_data import SiteData
from fedtag.client.train.examples import Examples
from fedtag.common.condensers.spec import CONDENSERS, NONE
from fedtag.common.models.classifier import NodeClassifier


def training_examples(
    model: NodeClassifier, data: SiteData, context: RunContext[Any]
) -> tuple[Examples, dict[str, Any]]:
    """The examples of a round, and what the server is told of them; without a condenser that is nothing.

    Args:
        model: the received one.
        data: of the client.
        context: of the round.
    """
    name = context.config.condenser.name
    if name == NONE:
        return Examples.of_graph(data.training.graph, data.training.adjacency), {}
    spec = CONDENSERS.get(name)
    if spec.every_round:
        examples, reported = CONDENSERS.resolved(spec, spec.condensed)(model, data, context)
    else:
        condensed, reported = condensed_graph(data, context)
        examples = Examples.of_condensed(condensed)
    return examples, {"condensation": reported}
