"""Exchanges of secure summation, by the names that both sides know."""

from __future__ import annotations

KEYS = "keys"
SHARES = "shares"
SIGN = "sign"
UNMASK = "unmask"

PROTOCOL = frozenset({KEYS, SHARES, SIGN, UNMASK})
"""Exchanges that carry no part of a method; an upload under masks is a phase of the method itself."""
