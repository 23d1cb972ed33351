"""Summaries as vectors: what they are, and that a second start loads neither model."""

from __future__ import annotations

from pathlib import Path

import torch

from client.text.encoder import Encoder
from client.text.language_model import LanguageModel
from client.text.summaries import SummaryCache, SummaryRequest, summarise
from client.text.summary_vectors import SUMMARY_CACHE, summary_vectors

REQUESTS = [
    SummaryRequest(("Theory", "Biology"), ("Bees dance.", "Ants walk.")),
    SummaryRequest(("Theory", "Biology"), ()),
    SummaryRequest(("Theory", "Biology"), ("Proofs are long.",)),
]


def test_rows_are_the_encoded_summaries_and_zero_without_chunks(folder: Path, tmp_path: Path) -> None:
    encoder = Encoder(dtype="float32")
    vectors = summary_vectors(REQUESTS, LanguageModel(str(folder)), encoder, tmp_path)
    told = summarise(REQUESTS, LanguageModel(str(folder)), SummaryCache(tmp_path / SUMMARY_CACHE))
    assert all(summary.cached for summary in told if summary.text)
    expected = encoder.encode([told[0].text, told[2].text]).vectors
    assert vectors.shape == (3, 384)
    torch.testing.assert_close(vectors[[0, 2]], expected, atol=1e-5, rtol=0)
    assert not vectors[1].any()


def test_a_second_start_loads_no_weights(folder: Path, tmp_path: Path) -> None:
    first = summary_vectors(REQUESTS, LanguageModel(str(folder)), Encoder(dtype="float32"), tmp_path)
    model, encoder = LanguageModel(str(folder)), Encoder(dtype="float32")
    again = summary_vectors(REQUESTS, model, encoder, tmp_path)
    assert torch.equal(first, again)
    assert "_model" not in vars(model)
    assert "_model" not in vars(encoder)
    changed = [SummaryRequest(("Theory", "Biology"), ("Bees dance.", "Ants run.")), *REQUESTS[1:]]
    summary_vectors(changed, model, encoder, tmp_path)
    assert "_model" in vars(model)
