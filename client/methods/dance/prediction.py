"""Predicting with a released model of DANCE, by the path that validation chose."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedtag.client.methods.dance.condensation import forward
from fedtag.client.methods.dance.keeping import scored_evidence
from fedtag.client.methods.dance.local_graph import local_graph
from fedtag.client.prediction.outcome import Prediction, ReleasedModel, load_released
from fedtag.common.methods.dance.model import initial_dance_model

if TYPE_CHECKING:
    from fedtag.client.context.session import Session

GRAPH_PATH = "graph"


def predicted(session: Session, released: ReleasedModel, evidence: bool) -> Prediction:
    """Logits of every node and, if asked for, the evidence of each, made as at the end of a run.

    On the path `graph` the logits are the backbone's on (A, t), and the evidence is that of the other path,
    whose prediction the packs name.
    """
    graph = session.graph
    fresh = initial_dance_model(session.config, graph.x.shape[1], graph.num_classes)
    model = load_released(fresh, released).to(session.device)
    plain = released.path == GRAPH_PATH and not evidence
    local = local_graph(session, graph, session.adjacency, evidence=not plain)
    if plain:
        return Prediction(forward(model, local).logits)
    logits, packs = scored_evidence(session, model, local, released.round)
    if released.path == GRAPH_PATH:
        logits = forward(model, local).logits
    return Prediction(logits, packs if evidence else None)
