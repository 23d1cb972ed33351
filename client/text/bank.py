"""The text bank of a graph: every chunk of every node's text, encoded once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from fedtag.client.text.cache import EncodedText, TextCache, text_key
from fedtag.client.text.chunks import Chunk, chunk_texts
from fedtag.client.text.encoder import Encoder, Progress
from fedtag.common.errors import ConfigError, DataError
from fedtag.common.numerics.ragged import row_of_entries, segment_softmax, segment_sum


@dataclass(frozen=True)
class TextBank:
    """Chunks of n nodes in node order; node u owns rows `ptr[u]:ptr[u + 1]`.

    `vectors` have unit length (a zero row: a node without features). Row r is the literal slice
    `text[start[r]:end[r]]` of its node's text, of `tokens[r]` encoder tokens without the special ones.
    `document` is the vector of the whole text, zero where the text is empty.
    """

    vectors: Float[Tensor, "chunks dim"]
    ptr: Int[Tensor, " nodes+1"]
    start: Int[Tensor, " chunks"]
    end: Int[Tensor, " chunks"]
    tokens: Int[Tensor, " chunks"]
    document: Float[Tensor, "nodes dim"]

    @property
    def num_nodes(self) -> int:
        return self.ptr.shape[0] - 1

    def node_of_chunk(self) -> Int[Tensor, " chunks"]:
        """The owner of each chunk."""
        return row_of_entries(self.ptr, self.vectors.shape[0])

    def pooled(self, sharpness: float = 5.0) -> Float[Tensor, "nodes dim"]:
        """One vector a node, t_u = Σ_r softmax_r(β e_ur · ē_u) e_ur with ē_u the mean of its chunks.

        There is no trainable query, so that the result is as cacheable as the chunks. It is not
        rescaled to unit length.

        Args:
            sharpness: β >= 0; 0 is the mean.

        Returns:
            zero for nodes without chunks.
        """
        node = self.node_of_chunk()
        count = self.ptr.diff().clamp(min=1).to(self.vectors.dtype)
        mean = segment_sum(self.vectors, self.ptr) / count.unsqueeze(1)
        logit = sharpness * torch.einsum("rd,rd->r", self.vectors, mean[node])
        share = segment_softmax(logit, node, self.ptr)
        return segment_sum(self.vectors * share.unsqueeze(1), self.ptr)

    def to(self, device: torch.device | str) -> TextBank:
        return TextBank(**{name: value.to(device) for name, value in vars(self).items()})


@dataclass(frozen=True)
class BankBuild:
    """A bank and what it cost.

    `encoded_chunks` and `encoded_tokens` (special ones and the whole-text pass included) count what the
    encoder read now; `cached_nodes` are the nodes with text that was in the cache before.
    """

    bank: TextBank
    encoded_chunks: int
    encoded_tokens: int
    cached_nodes: int


def build_bank(
    texts: Sequence[str],
    encoder: Encoder,
    cache: TextCache,
    max_tokens: int = 64,
    progress: Progress | None = None,
    sources: Sequence[Sequence[str]] | None = None,
) -> BankBuild:
    """The bank of these texts; only texts that the cache lacks are chunked and encoded, each once.

    The cache is written every few hundred texts, so that a killed process loses little. Where nothing
    is missing, no weights are loaded.

    Args:
        texts: one a node, in node order; white space only counts as empty.
        encoder: loads its weights on first use.
        cache: where encoded texts are looked up and left.
        max_tokens: limit of a chunk.
        progress: called with (done, total) texts that had to be encoded.
        sources: of each text, the nodes' texts that it was made from, by which it can be forgotten; itself where None.

    Raises:
        WeightsError: the encoder is needed or named and cannot be had.
        RunError: the cache file cannot be used.
    """
    revision, dtype = encoder.revision, encoder.dtype
    keys = [text_key(text, revision, max_tokens, dtype) if text.strip() else None for text in texts]
    unique = {key: text for key, text in zip(keys, texts, strict=True) if key is not None}
    origins: dict[bytes, list[str]] = {}
    for key, text, source in zip(keys, texts, sources or [(text,) for text in texts], strict=True):
        if key is not None:
            origins.setdefault(key, []).extend(source or (text,))
    found = cache.get_many(list(unique))
    cached_nodes = sum(key in found for key in keys)
    missing = [key for key in unique if key not in found]
    chunks = tokens = 0
    if missing:
        # Encoding takes long, and where its results cannot be kept is found before.
        cache.store.check()
    # The weights are loaded before the first report, so that what is reported tells how fast texts are encoded.
    limit = _checked_limit(encoder, max_tokens) if missing else max_tokens
    if progress is not None and missing:
        progress(0, len(missing))
    at_once = encoder.texts_at_once if missing else 1
    for first in range(0, len(missing), at_once):
        some = missing[first : first + at_once]
        encoded, read = _encoded([unique[key] for key in some], encoder, limit)
        fresh = dict(zip(some, encoded, strict=True))
        cache.put_many(fresh, origins)
        found.update(fresh)
        chunks += sum(len(entry.tokens) for entry in encoded)
        tokens += read
        if progress is not None:
            progress(first + len(some), len(missing))
    entries = [None if key is None else found[key] for key in keys]
    dimension = len(next(iter(found.values())).document) if found else encoder.dimension
    return BankBuild(_assembled(entries, dimension), chunks, tokens, cached_nodes)


def bank_from_features(features: Float[Tensor, "nodes dim"], text_lengths: Sequence[int]) -> TextBank:
    """The bank of a graph with given features: each node is one chunk that spans its whole text.

    Args:
        features: one row a node; zero rows stay zero.
        text_lengths: characters of each node's text, 0 where it has none.

    Raises:
        DataError: the numbers of rows differ, or a feature is not finite.
    """
    nodes = features.shape[0]
    if len(text_lengths) != nodes:
        raise DataError(f"{nodes} feature rows for {len(text_lengths)} texts: give one row a node")
    document = features.to(torch.float32)
    finite = torch.isfinite(document).all(dim=1)
    if not bool(finite.all()):
        row = int((~finite).nonzero()[0, 0])
        raise DataError(f"the features of row {row} are not finite in float32: replace NaN and infinity")
    length = document.double().norm(dim=1, keepdim=True)
    unit = torch.where(length > 0, document.double() / length, 0.0)
    return TextBank(
        vectors=unit.float(),
        ptr=torch.arange(nodes + 1),
        start=torch.zeros(nodes, dtype=torch.int64),
        end=torch.as_tensor(list(text_lengths), dtype=torch.int64),
        tokens=torch.zeros(nodes, dtype=torch.int32),
        document=document,
    )


def _encoded(texts: list[str], encoder: Encoder, limit: int) -> tuple[list[EncodedText], int]:
    """The encoded form of each text, and the tokens that the encoder read; equal strings are read once."""
    cut = chunk_texts(texts, encoder.tokenizer, limit)
    slices = [
        [text[chunk.start : chunk.end] for chunk in chunks] for text, chunks in zip(texts, cut, strict=True)
    ]
    row: dict[str, int] = {}
    for text, parts in zip(texts, slices, strict=True):
        for string in (text.strip(), *parts):
            row.setdefault(string, len(row))
    encoding = encoder.encode(list(row))
    entries = [
        _entry(chunks, [row[part] for part in parts], row[text.strip()], encoding.vectors)
        for text, chunks, parts in zip(texts, cut, slices, strict=True)
    ]
    return entries, int(encoding.tokens.sum())


def _entry(
    chunks: list[Chunk], rows: list[int], document: int, vectors: Float[Tensor, "strings dim"]
) -> EncodedText:
    return EncodedText(
        torch.tensor([chunk.start for chunk in chunks], dtype=torch.int64),
        torch.tensor([chunk.end for chunk in chunks], dtype=torch.int64),
        torch.tensor([chunk.tokens for chunk in chunks], dtype=torch.int32),
        vectors[torch.tensor(rows, dtype=torch.int64)],
        vectors[document].clone(),
    )


def _checked_limit(encoder: Encoder, max_tokens: int) -> int:
    readable = encoder.max_tokens - encoder.tokenizer.num_special_tokens_to_add(is_pair=False)
    if max_tokens > readable:
        raise ConfigError(
            f"chunks of {max_tokens} tokens are longer than the {readable} that the encoder "
            f"{encoder.name} reads: lower the limit"
        )
    return max_tokens


def _assembled(entries: list[EncodedText | None], dimension: int) -> TextBank:
    known = [entry for entry in entries if entry is not None]
    sizes = torch.tensor([0, *(0 if entry is None else len(entry.tokens) for entry in entries)])
    document = torch.zeros(len(entries), dimension)
    with_text = torch.tensor([entry is not None for entry in entries], dtype=torch.bool)
    if known:
        document[with_text] = torch.stack([entry.document for entry in known])
    return TextBank(
        vectors=_joined([entry.vectors for entry in known], torch.zeros(0, dimension)),
        ptr=sizes.cumsum(0),
        start=_joined([entry.start for entry in known], torch.zeros(0, dtype=torch.int64)),
        end=_joined([entry.end for entry in known], torch.zeros(0, dtype=torch.int64)),
        tokens=_joined([entry.tokens for entry in known], torch.zeros(0, dtype=torch.int32)),
        document=document,
    )


def _joined(parts: list[Tensor], empty: Tensor) -> Tensor:
    return torch.cat([empty, *parts])
