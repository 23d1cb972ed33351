"""One or two sentences about a node's selected chunks, for the auditor."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from client.text.encoder import Progress
from client.text.language_model import LanguageModel, Prompt
from client.text.store import ContentStore, content_key
from common.errors import ConfigError, RunError

PROMPT_VERSION = "1"
"""Part of every cache key; it changes with the wording below."""

MAX_NEW_TOKENS = 80
MAX_PROMPT_TOKENS = 2048
SUMMARIES_PER_WRITE = 32

SYSTEM = (
    "You summarise numbered passages for an auditor. Use only what the passages say. "
    "Write one or two sentences. After each statement cite its passage by number, like [1]."
)

_CITATION = re.compile(r"\[\s*(\d{1,4}(?:\s*[-–,;]\s*\d{1,4})*)\s*\]")
_RANGE = re.compile(r"(\d+)\s*[-–]\s*(\d+)|(\d+)")


@dataclass(frozen=True)
class SummaryRequest:
    """The evidence of one node.

    Args:
        candidates: class names among which the node's label lies.
        chunks: literal texts; chunk i is cited as [i + 1].
        sources: where each chunk comes from, e.g. a node id; chunks with the same source are marked so.
    """

    candidates: tuple[str, ...]
    chunks: tuple[str, ...]
    sources: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.chunks) != len(self.sources):
            raise ConfigError(
                f"{len(self.chunks)} chunks have {len(self.sources)} sources: name one source a chunk"
            )


@dataclass(frozen=True)
class Summary:
    """A summary and its cost.

    `citations` are the numbers of the request's chunks that the text cites, in order of appearance.
    The tokens are those of the run that wrote it; with `cached` they were spent then, not now.
    """

    text: str
    citations: tuple[int, ...]
    prompt_tokens: int
    answer_tokens: int
    cached: bool


class SummaryCache:
    """Summaries under the hash of all that they depend on, in an SQLite file; see ContentStore."""

    def __init__(self, path: Path) -> None:
        self._store = ContentStore(path, "summary")
        self.path = path

    def get_many(self, keys: Sequence[bytes]) -> dict[bytes, Summary]:
        """The summaries that exist among `keys`, marked as cached.

        Raises:
            RunError: the file is damaged or belongs to something else.
        """
        return {key: self._unpacked(payload) for key, payload in self._store.get_many(keys).items()}

    def put_many(self, summaries: dict[bytes, Summary]) -> None:
        """Writes all in one transaction."""
        self._store.put_many({key: _packed(summary) for key, summary in summaries.items()})

    def __len__(self) -> int:
        return len(self._store)

    def _unpacked(self, payload: bytes) -> Summary:
        try:
            text, citations, prompt_tokens, answer_tokens = json.loads(payload)
            return Summary(text, tuple(citations), prompt_tokens, answer_tokens, cached=True)
        except (ValueError, TypeError) as error:
            raise RunError(f"the summary cache {self.path} is damaged: delete it") from error


def summarise(
    requests: Sequence[SummaryRequest],
    model: LanguageModel,
    cache: SummaryCache,
    progress: Progress | None = None,
) -> list[Summary]:
    """The summary of each request, in order; equal requests are answered once.

    A request without chunks gives an empty summary without asking the model. Of chunks that together
    exceed the prompt's bound, the last are left out.

    Args:
        model: loads its weights only if the cache lacks something.
        cache: where summaries are looked up and left.
        progress: called with (done, total) summaries that had to be written.

    Raises:
        WeightsError: the model is needed and cannot be had.
        RunError: the cache file cannot be used.
    """
    keys = [_key(request, model) if request.chunks else None for request in requests]
    unique = {key: request for key, request in zip(keys, requests, strict=True) if key is not None}
    found = cache.get_many(list(unique))
    missing = [key for key in unique if key not in found]
    for first in range(0, len(missing), SUMMARIES_PER_WRITE):
        some = missing[first : first + SUMMARIES_PER_WRITE]
        fresh = dict(zip(some, _written([unique[key] for key in some], model), strict=True))
        cache.put_many(fresh)
        found |= fresh
        if progress is not None:
            progress(first + len(some), len(missing))
    return [Summary("", (), 0, 0, cached=False) if key is None else found[key] for key in keys]


def prompt_of(request: SummaryRequest) -> Prompt:
    """The request in words: label candidates, then the chunks with their numbers and sources."""
    letters = {source: f"source {rank}" for rank, source in enumerate(dict.fromkeys(request.sources), 1)}
    lines = [
        f"[{number}] ({letters[source]}) {' '.join(chunk.split())}"
        for number, (chunk, source) in enumerate(zip(request.chunks, request.sources, strict=True), 1)
    ]
    topics = ", ".join(request.candidates)
    return Prompt(
        SYSTEM,
        f"Possible topics: {topics}\n\nPassages:\n"
        + "\n".join(lines)
        + "\n\nSummarise in one or two sentences what the passages say about the topic, with citations.",
    )


def count_prompt_tokens(requests: Sequence[SummaryRequest], model: LanguageModel) -> list[int]:
    """Tokens that each request's prompt takes, unbounded, without asking the model.

    With whole texts of the neighbours in place of chunks it gives what a full-text prompt would take.
    """
    return model.count_prompt_tokens([prompt_of(request) for request in requests])


def parsed_citations(text: str, num_chunks: int) -> tuple[int, ...]:
    """The chunk numbers in a text, in order of appearance, each once: [1], [1, 3], [2-4], [1][2].

    Numbers outside 1..num_chunks cite nothing and are left out.
    """
    cited: dict[int, None] = {}
    for group in _CITATION.finditer(text):
        for first, last, single in _RANGE.findall(group[1]):
            low, high = (int(single), int(single)) if single else (int(first), int(last))
            cited |= dict.fromkeys(range(max(low, 1), min(high, num_chunks) + 1))
    return tuple(cited)


def supported(
    sentences: Float[Tensor, "sentences dim"], chunks: Float[Tensor, "chunks dim"], threshold: float = 0.5
) -> Bool[Tensor, " sentences"]:
    """Which sentences of a summary have a chunk of cosine at least `threshold`.

    Args:
        sentences: unit rows, the encoded sentences; `chunks.sentence_spans` finds them.
        chunks: unit rows of the request's chunks; none supports nothing.
        threshold: in [-1, 1].
    """
    if chunks.shape[0] == 0:
        return torch.zeros(sentences.shape[0], dtype=torch.bool)
    return (sentences @ chunks.T).amax(dim=1) >= threshold


def _written(requests: list[SummaryRequest], model: LanguageModel) -> list[Summary]:
    bounded = [_bounded(request, model) for request in requests]
    asked = [index for index, request in enumerate(bounded) if request.chunks]
    answers = model.generate([prompt_of(bounded[index]) for index in asked], MAX_NEW_TOKENS)
    summaries = [Summary("", (), 0, 0, cached=False)] * len(bounded)
    for index, answer in zip(asked, answers, strict=True):
        cited = parsed_citations(answer.text, len(bounded[index].chunks))
        summaries[index] = Summary(
            answer.text, cited, answer.prompt_tokens, answer.answer_tokens, cached=False
        )
    return summaries


def _bounded(request: SummaryRequest, model: LanguageModel) -> SummaryRequest:
    while request.chunks and count_prompt_tokens([request], model)[0] > MAX_PROMPT_TOKENS:
        request = replace(request, chunks=request.chunks[:-1], sources=request.sources[:-1])
    return request


def _key(request: SummaryRequest, model: LanguageModel) -> bytes:
    prompt = prompt_of(request)
    bounds = (MAX_NEW_TOKENS, MAX_PROMPT_TOKENS)
    return content_key(prompt.system, prompt.user, model.revision, model.dtype, PROMPT_VERSION, *bounds)


def _packed(summary: Summary) -> bytes:
    values = [summary.text, summary.citations, summary.prompt_tokens, summary.answer_tokens]
    return json.dumps(values).encode()
