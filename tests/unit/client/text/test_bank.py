"""The bank: what is encoded, what is not, and pooling against its formula in float64."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedtag.client.text.bank import TextBank, bank_from_features, build_bank
from fedtag.client.text.cache import TextCache
from fedtag.client.text.encoder import Encoder
from fedtag.common.errors import ConfigError, DataError

LONG = "Graphs carry text on every node. " * 12
TEXTS = [
    "One short text.",
    "",
    LONG + "The end of the first.",
    "  \n",
    LONG + "Another end!  ",
    "One short text.",
]


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return Encoder(dtype="float32")


@pytest.fixture
def cache(tmp_path: Path) -> TextCache:
    return TextCache(tmp_path / "texts.sqlite")


def equal(a: TextBank, b: TextBank) -> bool:
    return all(torch.equal(getattr(a, name), getattr(b, name)) for name in vars(a))


def test_rows_are_the_vectors_of_literal_slices(encoder: Encoder, cache: TextCache) -> None:
    bank = build_bank(TEXTS, encoder, cache).bank
    assert bank.ptr.diff().tolist() == [1, 0, bank.ptr.diff()[2], 0, bank.ptr.diff()[4], 1]
    assert bank.ptr.diff()[2] > 1
    owner = bank.node_of_chunk().tolist()
    slices = [TEXTS[u][a:b] for u, a, b in zip(owner, bank.start.tolist(), bank.end.tolist(), strict=True)]
    assert slices[0] == TEXTS[0]
    torch.testing.assert_close(bank.vectors, encoder.encode(slices).vectors, atol=1e-6, rtol=0)
    assert bank.tokens.tolist() == [
        len(encoder.tokenizer.encode(s, add_special_tokens=False)) for s in slices
    ]
    whole = encoder.encode([TEXTS[0], TEXTS[2], TEXTS[4]]).vectors
    torch.testing.assert_close(bank.document[[0, 2, 4]], whole, atol=1e-6, rtol=0)
    assert torch.equal(bank.document[[1, 3]], torch.zeros(2, 384))
    assert (bank.vectors.dtype, bank.ptr.dtype, bank.start.dtype, bank.tokens.dtype, bank.document.dtype) == (
        torch.float32,
        torch.int64,
        torch.int64,
        torch.int32,
        torch.float32,
    )


def test_a_second_build_encodes_nothing_and_loads_no_weights(encoder: Encoder, cache: TextCache) -> None:
    first = build_bank(TEXTS, encoder, cache)
    fresh = Encoder(dtype="float32")
    second = build_bank(TEXTS, fresh, cache)
    assert first.cached_nodes == 0
    assert first.encoded_tokens > first.encoded_chunks > 0
    assert (second.encoded_chunks, second.encoded_tokens, second.cached_nodes) == (0, 0, 4)
    assert "_model" not in vars(fresh)
    assert equal(first.bank, second.bank)


def test_a_changed_node_is_encoded_alone(encoder: Encoder, cache: TextCache) -> None:
    before = build_bank(TEXTS, encoder, cache)
    changed = [*TEXTS]
    changed[2] = "Now something else."
    after = build_bank(changed, encoder, cache)
    assert (after.encoded_chunks, after.cached_nodes) == (1, 3)
    assert after.encoded_tokens == int(encoder.encode([changed[2]]).tokens.sum())
    kept = before.bank.ptr[4]
    assert torch.equal(after.bank.vectors[after.bank.ptr[4] :], before.bank.vectors[kept:])


def test_equal_texts_are_encoded_once(encoder: Encoder, cache: TextCache) -> None:
    build = build_bank(["A text."] * 5 + ["B text."], encoder, cache)
    assert build.encoded_chunks == 2
    assert build.encoded_tokens == int(encoder.encode(["A text.", "B text."]).tokens.sum())
    assert len(cache) == 2
    assert torch.equal(build.bank.vectors[0], build.bank.vectors[4])


def test_other_limits_and_precisions_have_their_own_entries(encoder: Encoder, cache: TextCache) -> None:
    build_bank(TEXTS, encoder, cache, max_tokens=64)
    assert build_bank(TEXTS, encoder, cache, max_tokens=32).cached_nodes == 0
    assert build_bank(TEXTS, Encoder(dtype="bfloat16"), cache, max_tokens=64).cached_nodes == 0


def test_texts_without_a_word_make_an_empty_bank(encoder: Encoder, cache: TextCache) -> None:
    for texts in ([], ["", " "]):
        build = build_bank(texts, encoder, cache)
        assert build.bank.vectors.shape == (0, 384)
        assert build.bank.num_nodes == len(texts)
        assert torch.equal(build.bank.pooled(), torch.zeros(len(texts), 384))
        assert (build.encoded_chunks, build.encoded_tokens, build.cached_nodes) == (0, 0, 0)


def test_progress_counts_missing_texts(encoder: Encoder, cache: TextCache) -> None:
    seen: list[tuple[int, int]] = []
    build_bank(TEXTS, encoder, cache, progress=lambda done, total: seen.append((done, total)))
    assert seen == [(0, 3), (3, 3)]


def test_chunks_longer_than_the_encoder_reads_are_refused(encoder: Encoder, cache: TextCache) -> None:
    with pytest.raises(ConfigError, match="chunks of 255 tokens are longer than the 254"):
        build_bank(["a"], encoder, cache, max_tokens=255)


def brute_force(bank: TextBank, sharpness: float) -> np.ndarray:
    vectors = bank.vectors.double().numpy()
    rows = []
    for first, last in zip(bank.ptr[:-1].tolist(), bank.ptr[1:].tolist(), strict=True):
        own = vectors[first:last]
        if len(own) == 0:
            rows.append(np.zeros(vectors.shape[1]))
            continue
        weight = np.exp(sharpness * own @ own.mean(axis=0))
        rows.append((weight / weight.sum()) @ own)
    return np.array(rows)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(0, 5), min_size=1, max_size=12),
    st.sampled_from([0.0, 1.0, 5.0, 200.0]),
    st.integers(0, 2**31),
)
def test_pooling_follows_its_formula(sizes: list[int], sharpness: float, seed: int) -> None:
    ptr = torch.tensor([0, *sizes]).cumsum(0)
    chunks = int(ptr[-1])
    vectors = torch.randn(chunks, 7, generator=torch.Generator().manual_seed(seed))
    bank = TextBank(
        torch.nn.functional.normalize(vectors, dim=1),
        ptr,
        torch.zeros(chunks, dtype=torch.int64),
        torch.ones(chunks, dtype=torch.int64),
        torch.ones(chunks, dtype=torch.int32),
        torch.zeros(len(sizes), 7),
    )
    pooled = bank.pooled(sharpness)
    np.testing.assert_allclose(
        pooled.numpy(), brute_force(bank, sharpness), atol=1e-4 if sharpness > 100 else 2e-6
    )
    assert bank.node_of_chunk().tolist() == [u for u, size in enumerate(sizes) for _ in range(size)]


def test_features_become_one_chunk_a_node() -> None:
    features = torch.tensor([[3.0, 4.0], [0.0, 0.0], [1e-20, 0.0]], dtype=torch.float64)
    bank = bank_from_features(features, [10, 0, 7])
    assert bank.ptr.tolist() == [0, 1, 2, 3]
    assert (bank.start.tolist(), bank.end.tolist()) == ([0, 0, 0], [10, 0, 7])
    torch.testing.assert_close(bank.vectors, torch.tensor([[0.6, 0.8], [0.0, 0.0], [1.0, 0.0]]))
    assert torch.equal(bank.document, features.float())
    torch.testing.assert_close(bank.pooled(), bank.vectors)


def test_unusable_features_are_refused() -> None:
    with pytest.raises(DataError, match="2 feature rows for 3 texts"):
        bank_from_features(torch.zeros(2, 3), [1, 2, 3])
    with pytest.raises(DataError, match="features of row 1 are not finite"):
        bank_from_features(torch.tensor([[0.0], [float("nan")]]), [1, 1])
    with pytest.raises(DataError, match="row 0 are not finite in float32"):
        bank_from_features(torch.tensor([[1e300]], dtype=torch.float64), [1])
