"""How training, validation and test nodes came about, as terminal, report and card say it."""

from __future__ import annotations

USUAL = (0.6, 0.2, 0.2)
"""Shares of each class that train, validate and test where nobody gives others."""
GIVEN, DRAWN = "given", "drawn"
"""What an institution says of its split: that it came with the data, or that there was none."""


def drawn_words() -> str:
    """What is done where data come without a split."""
    shares = ", ".join(f"{share:.0%}" for share in USUAL)
    return f"{shares} of each class train, validate and test, drawn by the ids of its nodes"


def split_words(setting: str, drawn: int, clients: int) -> str:
    """Where the split of a run is from.

    Args:
        setting: data.split of the run.
        drawn: institutions that told that theirs was drawn.
        clients: institutions in all.
    """
    if setting != GIVEN:
        return (
            f"{setting} of each class train, validate and test, drawn with the seed of the run (data.split)"
        )
    if not drawn:
        return "as it came with the data"
    whose = (
        "" if drawn >= clients else f" at {drawn} of {clients} institutions; the others' came with their data"
    )
    return f"drawn, since the data had none: {drawn_words()}{whose}"
