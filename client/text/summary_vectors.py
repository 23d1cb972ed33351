"""Summaries of single texts, and as vectors, for a text view that joins them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import torch
from jaxtyping import Float, Int
from torch import Tensor

from fedtag.client.text.bank import TextBank, build_bank
from fedtag.client.text.cache import TextCache
from fedtag.client.text.encoder import Encoder, Progress
from fedtag.client.text.language_model import LanguageModel
from fedtag.client.text.summaries import SummaryCache, SummaryRequest, summarise
from fedtag.common.numerics.ragged import segment_rank

SUMMARY_CACHE = "summaries.sqlite"
VECTOR_CACHE = "summary-vectors.sqlite"
CHUNK_TOKENS = 64

_TIE = 1e-4


def text_requests(
    texts: Sequence[str],
    bank: TextBank,
    candidates: Sequence[str],
    budget: int,
    sources: Sequence[tuple[str, ...]] | None = None,
) -> list[SummaryRequest]:
    """What the language model is asked about each text by itself: its most central chunks, in their order.

    Central are the chunks most like the text's mean chunk, by the weights with which the bank pools a text, so that
    no trained model has a say. Nothing else enters: no label, no neighbour. A text without chunks gives a request
    without chunks.

    Args:
        texts: those of the bank.
        bank: where their chunks lie.
        candidates: class names.
        budget: most chunks of a text, at least 1.
        sources: of each text, the nodes' texts that it was made from; itself where None.
    """
    central = (_centrality(bank) < budget).tolist()
    start, end = bank.start.tolist(), bank.end.tolist()
    topics = tuple(candidates)
    return [
        SummaryRequest(
            topics,
            tuple(text[start[chunk] : end[chunk]] for chunk in range(first, last) if central[chunk]),
            source,
        )
        for text, (first, last), source in zip(
            texts, pairwise(bank.ptr.tolist()), sources or [(text,) for text in texts], strict=True
        )
    ]


def summary_vectors(
    requests: Sequence[SummaryRequest],
    model: LanguageModel,
    encoder: Encoder,
    cache: Path,
    progress: Progress | None = None,
) -> Float[Tensor, "rows dim"]:
    """The encoded summary of each request's chunks, a unit vector; zero without chunks.

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
    origins = [request.sources for request in requests]
    vectors = TextCache(cache / VECTOR_CACHE)
    return build_bank(texts, encoder, vectors, CHUNK_TOKENS, sources=origins).bank.document


def _centrality(bank: TextBank) -> Int[Tensor, " chunks"]:
    """The place of each chunk in its text by falling inner product with the sum of its chunks, ties by position."""
    node = bank.node_of_chunk()
    total = bank.vectors.new_zeros(bank.num_nodes, bank.vectors.shape[1]).index_add(0, node, bank.vectors)
    likeness = torch.einsum("rd,rd->r", bank.vectors, total[node])
    # Two chunks are always equally like their sum. The last bits of vectors, which depend on the encoder's batches,
    # must not choose between them: another choice is another prompt, which no cache knows.
    return segment_rank((likeness / _TIE).round(), bank.ptr)
