"""The text bank of an institution's graph, from its texts or from the features that it brings."""

from __future__ import annotations

from pathlib import Path

import torch

from fedtag.client.data.text_graph import TextGraph
from fedtag.client.text.bank import BankBuild, bank_from_features, build_bank
from fedtag.client.text.cache import TextCache
from fedtag.client.text.encoder import Encoder, Progress
from fedtag.common.settings.sections import TextConfig

CACHE_FILE = "texts.sqlite"


def text_bank(
    data: TextGraph, config: TextConfig, device: str, cache: Path, progress: Progress | None = None
) -> BankBuild:
    """Chunks and vectors of every node.

    A node with given features is one chunk, its whole text, so that every method works on it unchanged.

    Args:
        data: the graph.
        config: encoder and limits.
        device: on which texts are encoded.
        cache: folder of the cache.
        progress: called with (done, total) texts that had to be encoded.
    """
    if data.features is not None:
        lengths = [len(text) for text in data.texts]
        return BankBuild(bank_from_features(torch.tensor(data.features), lengths), 0, 0, 0)
    encoder = Encoder(config.encoder, device, config.dtype)
    return build_bank(data.texts, encoder, TextCache(cache / CACHE_FILE), config.chunk_tokens, progress)
