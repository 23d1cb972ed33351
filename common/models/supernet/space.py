"""Names and sizes of the search space (Liu et al., Table 1 and Fig. 2)."""

from __future__ import annotations

ZERO = "zero"
IDENTITY = "identity"
NODE_GATE = "node-gate"
FEATURE_GATE = "feature-gate"

FILTERS = (ZERO, IDENTITY, NODE_GATE, FEATURE_GATE)
AGGREGATIONS = (IDENTITY, "sum", "max", "mean", ZERO)
ACTIVATIONS = (IDENTITY, "leaky-relu", "relu", "tanh", "elu", "sigmoid")

NODES = 3
"""Nodes in each of the three layers of a cell."""
INPUTS = 2
"""What the first layer takes: H and X, which are two projections of the features, or the output of the cell before."""

LAYERS: tuple[tuple[str, int, tuple[str, ...]], ...] = (
    ("filter", INPUTS, FILTERS),
    ("aggregate", NODES, AGGREGATIONS),
    ("activate", NODES, ACTIVATIONS),
)
"""Name of each layer, how many sources each of its nodes can take, and the operations on an edge."""
