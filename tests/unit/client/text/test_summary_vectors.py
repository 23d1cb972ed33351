"""Summaries as vectors: what they are, and that a second start loads neither model."""

from __future__ import annotations

from pathlib import Path

import torch

from fedtag.client.text.bank import TextBank
from fedtag.client.text.encoder import Encoder
from fedtag.client.text.language_model import LanguageModel
from fedtag.client.text.summaries import SummaryCache, SummaryRequest, summarise
from fedtag.client.text.summary_vectors import SUMMARY_CACHE, summary_vectors, text_requests

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


def bank_of(vectors: torch.Tensor, sizes: list[int]) -> TextBank:
    """Chunk r of each text is its r-th letter."""
    ptr = torch.tensor([0, *sizes]).cumsum(0)
    start = torch.cat([torch.arange(size) for size in sizes])
    unit = torch.nn.functional.normalize(vectors, dim=1)
    return TextBank(
        unit, ptr, start, start + 1, torch.ones(len(start), dtype=torch.int32), torch.zeros(len(sizes), 2)
    )


def test_the_most_central_chunks_are_asked_about_in_their_order() -> None:
    angles = torch.tensor([0.0, 0.1, 2.0, 0.2, 1.0, -1.0])
    bank = bank_of(torch.stack([angles.cos(), angles.sin()], 1), [4, 0, 2])
    found = {budget: text_requests(["abcd", " ", "ef"], bank, ["A", "B"], budget) for budget in (1, 2, 3, 4)}
    # The mean direction of the first text is between 0.2 and 2.0, so that d is most like it and c least.
    assert [found[budget][0].chunks for budget in (1, 2, 3, 4)] == [
        ("d",),
        ("b", "d"),
        ("a", "b", "d"),
        ("a", "b", "c", "d"),
    ]
    for requests in found.values():
        assert requests[1].chunks == ()
        assert {request.candidates for request in requests} == {("A", "B")}


def test_the_last_bits_of_two_chunks_do_not_choose_between_them() -> None:
    generator = torch.Generator().manual_seed(0)
    for _ in range(50):
        bank = bank_of(torch.randn(2, 384, generator=generator), [2])
        assert text_requests(["ab"], bank, ["A"], 1)[0].chunks == ("a",)
