"""Summaries as vectors, for a text view that joins them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from jaxtyping import Float
from torch import Tensor

from client.text.bank import build_bank
from client.text.cache import TextCache
from client.text.encoder import Encoder, Progress
from client.text.language_model import LanguageModel
from client.text.summaries import SummaryCache, SummaryRequest, summarise

SUMMARY_CACHE = "summaries.sqlite"
VECTOR_CACHE = "summary-vectors.sqlite"
CHUNK_TOKENS = 64


def summary_vectors(
    requests: Sequence[SummaryRequest],
    model: LanguageModel,
    encoder: Encoder,
    cache: Path,
    progress: Progress | None = None,
) -> Float[Tensor, "rows dim"]:
    """The encoded summary s_v of each row's selected chunks, a unit vector; zero without chunks.

    Neither the language model nor the encoder loads its weights where the cache has everything: a
    summary is kept under its chunks, candidates, model and prompt, a vector under its summary and encoder.

    Args:
        requests: the chunks of each row.
        model: writes what the cache lacks.
        encoder: the one of the text bank.
        cache: folder of the caches.
        progress: called with (done, total) summaries that had to be written.
    """
    summaries = summarise(requests, model, SummaryCache(cache / SUMMARY_CACHE), progress)
    texts = [summary.text for summary in summaries]
    return build_bank(texts, encoder, TextCache(cache / VECTOR_CACHE), CHUNK_TOKENS).bank.document
