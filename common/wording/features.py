"""What the features of nodes are made by, as introductions, checkpoints and cards say it."""

from __future__ import annotations

ENCODER = "encoder SHA-256 "


def encoder_features(revision: str) -> str:
    """Features of texts by an encoder, which is named by its content.

    Args:
        revision: SHA-256 of its files, in hexadecimal.
    """
    return f"{ENCODER}{revision}"


def features_words(features: str, encoder: str | None) -> str:
    """What a person reads of a model's features.

    Args:
        features: as an introduction says it: an encoder, or the file that holds them.
        encoder: what the settings call it.
    """
    if features.startswith(ENCODER):
        return f"texts by the encoder {encoder or 'of the run'}, SHA-256 {features.removeprefix(ENCODER)}"
    return f"{features} of each institution, made by no encoder of the run"
