"""Vectors of texts, by which the nearest ones are found."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fedtag.client.context.progress import Report, progress_of
from fedtag.client.text.bank import build_bank
from fedtag.client.text.cache import TextCache
from fedtag.client.text.encoder import Encoder
from fedtag.client.text.node_texts import CACHE_FILE
from fedtag.common.homes import cache_folder
from fedtag.graph.importing.edges import Vectors


def text_vectors(progress: Report | None = None) -> Vectors:
    """The bundled encoder, whose vectors stay in the cache for the runs that follow."""

    def vectors(texts: Sequence[str]) -> NDArray[np.float32]:
        encoder, cache = Encoder(), TextCache(cache_folder() / CACHE_FILE)
        bank = build_bank(texts, encoder, cache, progress=progress_of(progress, "encoding texts")).bank
        return np.asarray(bank.document.numpy(), np.float32)

    return vectors
