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
