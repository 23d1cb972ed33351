"""Names of values with which exchanges, letters and secure sums are told of."""

from __future__ import annotations

PEERS = "peers"
"""Under this name an instruction tells a client the keys of its peers."""

UNOPENED = "unopened"
"""Under this name a reply tells whose letters were dropped."""

SHOWN = "shown"
"""Under this name a reply tells how many records its letters show to whom, by kind."""

UNREAD = "unread"
"""Under this name a reply tells whose letters with shares of secrets could not be read."""

INTRODUCE = "introduce"
"""Under this name an instruction asks a client who it is."""

INGREDIENTS = "ingredients"
"""Under this name the same instruction tells what the server has of what the run is made of."""

JOIN = "join"
"""Under this name an instruction tells a member who is in the block of its sum."""

COMMITTED = "committed"
"""Under this name an introduction commits to numbers of nodes that are hidden."""

DRAW = "draw"
"""Under this name a reply commits to a client's part of the seed by which groups are drawn."""
