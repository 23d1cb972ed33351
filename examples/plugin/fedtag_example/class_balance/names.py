"""What both sides of class-balance must agree on."""

from __future__ import annotations

COUNT = "count"
"""The phase before round 1 in which clients tell how many labels each class has."""
COUNTS = "counts"
"""Of each class, in `unit`."""
BALANCE = "balance"
"""Kind of record, and section of the state: what follows from the sum of the counts."""
WEIGHTS = "weights"
"""Of a label of each class."""
SHARES = "shares"
"""Of each class among all labels."""
LABEL_WEIGHT = "label_weight"
"""Mean weight of a client's labels."""
FILE = "class-balance.json"
"""What a finished run has beside its model: shares and weights of the classes."""


def unit(weights: str, train_nodes: int) -> float:
    """What a client multiplies counts by, so that their mean over clients is in proportion to the sum of all.

    Args:
        weights: of the run's clients; without statistics, as before round 1, all but `uniform` are by training nodes.
        train_nodes: of the client, at least 1.
    """
    # A power of two keeps counts exact in fixed point, and below privacy.limit.
    return 2.0**-10 if weights == "uniform" else 1 / train_nodes
