"""Names that both sides of FedC4 use."""

from __future__ import annotations

PORTRAIT = "portrait"
"""A letter with the mean of a client's embeddings and their norms."""

NODES = "nodes"
"""A letter with condensed nodes."""

PORTRAITS_PHASE = "portraits"
NODES_PHASE = "nodes"
TRAIN_PHASE = "train"
