"""Names that both sides of FedC4 use."""

from __future__ import annotations

PORTRAIT = "portrait"
"""A letter with the mean of a client's embeddings and their norms."""

NODES = "nodes"
"""A letter with condensed nodes."""

STRUCTURE_FILE = "structure.json"
"""In a site's folder: the structure of its original, condensed and rebuilt graphs."""

PORTRAITS_PHASE = "portraits"
NODES_PHASE = "nodes"
TRAIN_PHASE = "train"
