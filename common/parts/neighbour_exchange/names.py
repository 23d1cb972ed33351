"""What both sides of the exchange of neighbour sums must agree on: phases and names."""

from __future__ import annotations

ASK_PHASE = "neighbours-ask"
GIVE_PHASE = "neighbours-give"
AGAIN_PHASE = "neighbours-again"
TAKE_PHASE = "neighbours-take"
PHASES = (ASK_PHASE, GIVE_PHASE, AGAIN_PHASE, TAKE_PHASE)

REQUEST = "request"
"""Letters in which an institution asks its peers for sums over neighbours of its nodes."""
KEY = "homomorphic-key"
"""Letters with the secret key that all clients share."""
NEIGHBOURS = "neighbours"
"""Under this name a client tells how many of its nodes got a sum, and how many did not."""
COUNTS = ("boundary", "added", "small", "missing")
"""Nodes with neighbours elsewhere; those that got the sum over them; those with too few; those whose sum is missing."""

PARTS = "parts"
"""Parts of sums, and sums: bytes, with a table that says whose they are."""
