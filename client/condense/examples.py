"""What a client trains a received model on under the run's condenser: its graph, or what was condensed from it."""

from __future__ import annotations

from typing import Any, Protocol

from fedtag.client.condense.synthetic.keeping import condensed_graph
from fedtag.client.context.run_context import RunContext
from fedtag.client.context.site_data import SiteData
from fedtag.client.train.examples import Examples
from fedtag.common.condensers.spec import CONDENSERS, NONE
from fedtag.common.models.classifier import NodeClassifier


class RoundExamples(Protocol):
    """The function that the specification of a condenser names that works anew in every round."""

    def __call__(
        self, model: NodeClassifier, data: SiteData, context: RunContext[Any]
    ) -> tuple[Examples, dict[str, Any]]:
        """What a client trains on in the round of `context`, chosen by the received model.

        Returns:
            the examples; and what is told of them: `core` and `nodes`, the numbers of condensed and of all nodes, with
            the share of these that is `copied` from real ones.
        """
        ...


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
        seen = data.training
        return seen.cached("examples", lambda: Examples.of_graph(seen.graph, seen.adjacency)), {}
    spec = CONDENSERS.get(name)
    if spec.every_round:
        chosen: RoundExamples = CONDENSERS.resolved(spec, spec.condensed)
        examples, reported = chosen(model, data, context)
    else:
        condensed, reported = condensed_graph(data, context)
        examples = Examples.of_condensed(condensed)
    return examples, {"condensation": reported}
