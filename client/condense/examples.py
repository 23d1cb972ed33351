"""What a client trains a received model on under the run's condenser: its graph, or what was condensed from it."""

from __future__ import annotations

from typing import Any

from fedtag.client.condense.synthetic.keeping import condensed_graph
from fedtag.client.context.session import Session
from fedtag.client.train.classifier import local_examples
from fedtag.client.train.examples import Examples
from fedtag.common.condensers.spec import CONDENSERS, NONE
from fedtag.common.models.classifier import NodeClassifier
from fedtag.common.settings.registry import resolved


def training_examples(
    session: Session, model: NodeClassifier, round_number: int
) -> tuple[Examples, dict[str, Any]]:
    """The examples of a round, and what the server is told of them; without a condenser that is nothing.

    Args:
        session: of the client, while it responds.
        model: the received one.
        round_number: from 1.
    """
    name = session.config.condenser.name
    if name == NONE:
        return local_examples(session), {}
    spec = CONDENSERS.get(name)
    if spec.every_round:
        examples, told = resolved(spec.condensed)(session, model, round_number)
    else:
        condensed, told = condensed_graph(session)
        examples = Examples.of_condensed(condensed)
    return examples, {"condensation": told}
