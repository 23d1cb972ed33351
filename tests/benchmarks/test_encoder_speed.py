"""How fast texts become vectors: the pass alone beside sentence-transformers', and from a folder into the cache.

ENCODER_FOLDER names another model than the bundled one.
"""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import pytest
import torch

from fedtag.client.text.bank import build_bank
from fedtag.client.text.cache import TextCache
from fedtag.client.text.encoder import Encoder
from fedtag.client.text.weights import BUNDLED

pytestmark = pytest.mark.benchmark

NAME = os.environ.get("ENCODER_FOLDER", BUNDLED)
MOST_DISTINCT = 60_000


def texts_of(count: int, words: int) -> list[str]:
    """Texts whose words occur as Zipf has it, most of them rare, in sentences of about twenty."""
    rng = np.random.default_rng(0)
    letters = np.array(list("etaoinshrdlucmfwypvbgk"))
    known = np.array(["".join(rng.choice(letters, size)) for size in rng.integers(2, 10, MOST_DISTINCT)])
    ranks = np.minimum(rng.zipf(1.3, (count, words)) - 1, MOST_DISTINCT - 1)
    ends = np.where(np.arange(words) % 20 == 19, ".", "")
    return [" ".join(np.char.add(known[row], ends)) + "." for row in ranks]


def test_the_pass_is_no_slower_than_that_of_sentence_transformers() -> None:
    from sentence_transformers import SentenceTransformer

    texts, encoder = texts_of(400, 90), Encoder(NAME, "cpu", "float32")
    model = SentenceTransformer(str(encoder.folder), device="cpu", local_files_only=True)
    seconds, tokens = {}, 0
    for name in ("theirs", "ours", "theirs", "ours"):
        start = time.perf_counter()
        if name == "ours":
            tokens = int(encoder.encode(texts).tokens.sum())
        else:
            model.encode(texts)
        seconds[name] = min(seconds.get(name, np.inf), time.perf_counter() - start)
    rates = {name: tokens / took for name, took in seconds.items()}
    print("\ntokens a second on the CPU:", {name: round(rate) for name, rate in rates.items()})  # noqa: T201
    assert rates["ours"] >= rates["theirs"]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")
def test_from_texts_into_the_cache(tmp_path: Path) -> None:
    encoder, few, texts = Encoder(NAME, "cuda"), texts_of(2000, 50), texts_of(40_000, 130)
    build_bank(few, encoder, TextCache(tmp_path / "few.sqlite"))
    start = time.perf_counter()
    tokens = int(encoder.encode(texts).tokens.sum())
    alone = time.perf_counter() - start
    start = time.perf_counter()
    built = build_bank(texts, encoder, TextCache(tmp_path / "all.sqlite"))
    whole = time.perf_counter() - start
    print(  # noqa: T201
        f"\n{tokens} tokens of whole texts: {tokens / alone / 1e6:.2f}M a second; with chunks, into the cache: "
        f"{built.encoded_tokens / whole / 1e6:.2f}M a second ({whole:.1f} s)"
    )
    assert tokens / alone >= 1e6
