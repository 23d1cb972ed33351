"""What both sides of FedGC must agree on: names, and in which unit sums travel."""

from __future__ import annotations

TRAIN_PHASE = "train"
CONDENSE_PHASE = "condense"

GRAPH = "graph"
"""Scores of the self-trained model."""
TUNED = "tuned"
"""Scores of the model of the condensed graph after each client has fitted it to its own."""
CONDENSED = "condensed"
"""Scores of that model as it is."""

TEACHER = "teacher"
"""The parameters of the self-trained model, for clients that may not have them; as a value, their fingerprint."""
THETA = "theta"
"""Seed of the matching model of a round."""
MATCHED = "matched"
"""Which classes have enough labelled nodes in all for a sum over them to be told; None before that is known."""
MOMENTS = "moments"
"""Whether sums of features are asked for, with which the condensed graph begins."""

GRADIENT = "gradient"
"""Of each weight of the matching model, the sum over a class's labelled nodes, for every class."""
COUNTS = "counts"
"""Labelled nodes behind the gradients, by class."""
LABELLED = "labelled"
"""All nodes whose labels are learned, pseudo-labelled ones included, by class."""
TRAINED = "trained"
"""The training nodes among these, by class."""
NODES = "nodes"
"""All nodes."""
SEEN = "seen"
"""How many nodes the sums of features are over: all that training may see, whatever is known of their labels."""
FEATURES = "features"
"""Sum of the features of these."""
SQUARES = "squares"
"""Sum of their squares."""

UNIT = 2.0**-10
"""Of sums where clients weigh the same: a power of two, so that counts stay exact in fixed point."""


def unit(weights: str, train_nodes: int) -> float:
    """What a client multiplies its sums over nodes by before they are averaged with w_i over the clients.

    With w_i = n_i / n it is 1 / n_i, so that the mean of the products is the sum over all clients' nodes by n; with
    equal weights it is a constant. Either way the quotient of two such means is that of the two sums.

    Args:
        weights: `samples` or `uniform`.
        train_nodes: n_i, at least 1.
    """
    return 1 / train_nodes if weights == "samples" else UNIT
