"""The encoder's own pass against sentence-transformers, whose model it is."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from fedtag.client.text.bert import shape_of
from fedtag.client.text.encoder import Encoder
from fedtag.common.errors import ConfigError, WeightsError

HOSTILE = [
    "",
    "a",
    " \t\n",
    "\x00\x07 control",
    "[SEP] [CLS] [MASK]",
    "学习 图 神经网络。" * 40,
    "e\u0301" * 200,
    "\u200b\u2028\u00a0x",
    "word " * 5000,
    "x" * 10_000_000,
    "\ud800 alone",
    "😀" * 300,
]
CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")


def theirs(encoder: Encoder, texts: list[str]) -> torch.Tensor:
    from sentence_transformers import SentenceTransformer

    model = SentenceTransformer(str(encoder.folder), device="cpu", local_files_only=True)
    clean = [text[:20_000].replace("\ud800", "\ufffd") for text in texts]
    return torch.nn.functional.normalize(model.encode(clean, convert_to_tensor=True).float().cpu(), dim=1)


def drawn(count: int) -> list[str]:
    """Texts of very different lengths of words that the tokenizer knows and does not."""
    rng = np.random.default_rng(0)
    words = np.array(
        ["graph", "learning", "federated", "proof", "xqzt", "of", "network's", "2026", "γ", "end."]
    )
    return [" ".join(rng.choice(words, size)) for size in rng.integers(1, 300, count)]


def test_vectors_are_those_of_sentence_transformers() -> None:
    encoder, texts = Encoder(dtype="float32"), HOSTILE + drawn(60)
    torch.testing.assert_close(encoder.encode(texts).vectors, theirs(encoder, texts), atol=1e-5, rtol=0)


def test_models_of_another_form_are_left_to_sentence_transformers(tmp_path: Path) -> None:
    encoder = Encoder(dtype="float32")
    assert shape_of(encoder.folder) is not None
    for name, change in (
        ("1_Pooling/config.json", {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}),
        ("config.json", {"hidden_act": "relu"}),
        ("config.json", {"position_embedding_type": "relative_key"}),
        ("sentence_bert_config.json", {"do_lower_case": True}),
    ):
        folder = tmp_path / name.replace("/", "-") / next(iter(change))
        shutil.copytree(encoder.folder, folder)
        told = json.loads((folder / name).read_text())
        (folder / name).write_text(json.dumps({**told, **change}))
        assert shape_of(folder) is None
        other = Encoder(str(folder), dtype="float32")
        if "do_lower_case" not in change and "position" not in next(iter(change)):
            own = other.encode(["A graph."]).vectors
            torch.testing.assert_close(own, theirs(other, ["A graph."]), atol=1e-6, rtol=0)


@CUDA
def test_the_fast_pass_is_near_single_precision_on_the_device_itself() -> None:
    texts = drawn(4096)
    slow = Encoder(dtype="float32", device="cpu")
    fast = Encoder(device="cuda")
    assert fast.dtype == "float16"
    near = (fast.encode(texts).vectors * slow.encode(texts).vectors).sum(1)
    assert float(near.min()) > 0.9999


@CUDA
def test_single_precision_on_a_device_is_that_of_the_processor() -> None:
    texts = drawn(50)
    own = Encoder(dtype="float32", device="cuda").encode(texts).vectors
    torch.testing.assert_close(own, Encoder(dtype="float32").encode(texts).vectors, atol=1e-5, rtol=0)


@CUDA
def test_texts_that_lie_one_after_the_other_do_not_touch() -> None:
    texts, encoder = [one for one in HOSTILE if len(one) < 20_000] + drawn(50), Encoder(device="cuda")
    alone = torch.cat([encoder.encode([text]).vectors for text in texts])
    torch.testing.assert_close(encoder.encode(texts).vectors, alone, atol=2e-3, rtol=0)


def test_what_does_not_fit_is_encoded_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A device that takes few tokens at once gives the same; one that takes none says what to do."""
    encoder, texts = Encoder(dtype="float32"), drawn(80)
    whole, most, bert = encoder.encode(texts).vectors, [3000], encoder._bert
    computed = bert.vectors

    def narrow(ids: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        if len(ids) > most[0]:
            raise torch.OutOfMemoryError
        return computed(ids, lengths)

    monkeypatch.setattr(bert, "vectors", narrow)
    monkeypatch.setattr("fedtag.client.text.encoder.FEWEST_TOKENS", 100)
    torch.testing.assert_close(encoder.encode(texts).vectors, whole, atol=1e-6, rtol=0)
    most[0] = 0
    with pytest.raises(ConfigError, match="set device = cpu"):
        encoder.encode(texts)


def test_a_vector_that_is_no_number_is_refused_with_the_number_of_its_text(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    encoder = Encoder(dtype="float32")
    computed = encoder._bert.vectors

    def broken(ids: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        found = computed(ids, lengths).clone()
        found[lengths == lengths.max()] = torch.nan
        return found

    monkeypatch.setattr(encoder._bert, "vectors", broken)
    with pytest.raises(WeightsError, match=r"no finite vector for text 1 of 3 .*: set text.dtype = float32"):
        encoder.encode(["a", "the longest of these texts", "b"])
