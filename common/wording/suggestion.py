"""What a name that means nothing was likely meant to be."""

from __future__ import annotations

import re
from collections.abc import Collection
from difflib import SequenceMatcher

CLOSE, AS_CLOSE, MOST = 0.6, 0.1, 3
"""Likeness (0 to 1) from which on a name is near, how much less of it is about as near, and how many are named."""


def nearest(name: str, known: Collection[str]) -> list[str]:
    """The known name that is most like another, and those about as like, the likest first; capitals do not count.

    A name whose last part is the initials of a known one's, as lr of learning-rate, is as like as can be.
    """
    likeness = {
        one: 1.0
        if name.lower() == _initials(one)
        else SequenceMatcher(None, one.lower(), name.lower()).ratio()
        for one in known
    }
    least = max(CLOSE, max(likeness.values(), default=0.0) - AS_CLOSE)
    near = [one for one, value in likeness.items() if value >= least]
    return sorted(near, key=lambda one: -likeness[one])[:MOST]


def _initials(name: str) -> str:
    """A dotted name with the initials of its last part's words in their place; empty where that is one word."""
    table, dot, last = name.lower().rpartition(".")
    words = [word for word in re.split("[-_ ]", last) if word]
    return f"{table}{dot}{''.join(word[0] for word in words)}" if len(words) > 1 else ""


def did_you_mean(name: str, known: Collection[str], otherwise: str = "") -> str:
    """The remedy for a name that is not known.

    Args:
        name: that was given.
        known: what it may be.
        otherwise: where none is near; one of the known names without it.
    """
    if near := nearest(name, known):
        return f"did you mean {' or '.join(repr(one) for one in near)}?"
    return otherwise or f"use one of {', '.join(known) or 'none'}"
