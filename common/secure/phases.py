"""Exchanges of secure summation, by the names that both sides know."""

from __future__ import annotations

KEYS = "keys"
SHARES = "shares"
SIGN = "sign"
UNMASK = "unmask"
USE = "use"
"""Where clients have only some of the tensors of an update: a sum that counts, before it is asked for, who has which.
It is a phase of the method, which answers with an update of which the names alone matter."""

FEWEST_USERS = 3
"""A tensor is summed from so many users on: of one the sum is its update, and of two each can tell the other's."""

PROTOCOL = frozenset({KEYS, SHARES, SIGN, UNMASK})
"""Exchanges that carry no part of a method; an upload under masks is a phase of the method itself."""
