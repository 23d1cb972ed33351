"""Counts in words."""

from __future__ import annotations


def plural(number: int, word: str) -> str:
    """A number and what it counts: 1 node, 2,708 nodes, 7 classes, 3 replies."""
    several = f"{word[:-1]}ies" if word.endswith("y") else f"{word}es" if word.endswith("s") else f"{word}s"
    return f"{number:,} {word if number == 1 else several}"
