"""One or two sentences about a node's selected chunks, for the auditor."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import torch
from jaxtyping import Int
from torch import Tensor

from fedtag.client.text.chunks import sentence_spans
from fedtag.client.text.encoder import Progress
from fedtag.client.text.language_model import Answer, LanguageModel, Prompt
from fedtag.client.text.store import NONE, ContentStore, content_key
from fedtag.common.errors import RunError
from fedtag.common.numerics.ragged import Ragged

PROMPT_VERSION = "2"
"""Part of every cache key; it changes with the wording below."""

MAX_NEW_TOKENS = 80
MAX_PROMPT_TOKENS = 2048
MAX_SENTENCES = 2
SUMMARIES_PER_WRITE = 32

SYSTEM = "Use only the numbered passages."
TASK = (
    "Say in one or two sentences what the passages are about and which topic fits, citing passages by number."
)
OPENING = "The passages are about"


@dataclass(frozen=True)
class SummaryRequest:
    """The evidence of one node.

    Args:
        candidates: class names among which the node's label lies.
        chunks: literal texts, those that may be left out last; chunk i is cited as [i + 1].
        sources: the nodes' whole texts that the chunks are from, by which a summary can be forgotten.
    """

    candidates: tuple[str, ...]
    chunks: tuple[str, ...]
    sources: tuple[str, ...] = field(default=(), compare=False)


@dataclass(frozen=True)
class Summary:
    """A summary and its cost.

    Args:
        text: at most two different sentences; the last ends in … where the bound cut it.
        prompt_tokens, answer_tokens: of the run that wrote it, the whole answer counted.
        dropped: chunks from the end that the prompt had no room for.
        cached: the tokens were spent earlier, not now.
    """

    text: str
    prompt_tokens: int
    answer_tokens: int
    dropped: int
    cached: bool


class SummaryCache:
    """Summaries under the hash of all that they depend on, in an SQLite file; see ContentStore."""

    def __init__(self, path: Path) -> None:
        self.store = ContentStore(path, "summary")
        self.path = path

    def get_many(self, keys: Sequence[bytes]) -> dict[bytes, Summary]:
        """The summaries that exist among `keys`, marked as cached.

        Raises:
            RunError: the file is damaged or belongs to something else.
        """
        return {key: self._unpacked(payload) for key, payload in self.store.get_many(keys).items()}

    def put_many(
        self, summaries: dict[bytes, Summary], sources: Mapping[bytes, Sequence[str]] = NONE
    ) -> None:
        """Writes all in one transaction, each with the texts that it was made from."""
        packed = {key: _packed(summary) for key, summary in summaries.items()}
        self.store.put_many(packed, sources)

    def __len__(self) -> int:
        return len(self.store)

    def _unpacked(self, payload: bytes) -> Summary:
        try:
            text, prompt_tokens, answer_tokens, dropped = json.loads(payload)
            return Summary(text, prompt_tokens, answer_tokens, dropped, cached=True)
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
    exceed what the model reads, the last are left out.

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
    origins: dict[bytes, list[str]] = {}
    for key, request in zip(keys, requests, strict=True):
        if key is not None:
            origins.setdefault(key, []).extend(request.sources)
    found = cache.get_many(list(unique))
    missing = [key for key in unique if key not in found]
    if progress is not None and missing:
        progress(0, len(missing))
    for first in range(0, len(missing), SUMMARIES_PER_WRITE):
        some = missing[first : first + SUMMARIES_PER_WRITE]
        fresh = dict(zip(some, _written([unique[key] for key in some], model), strict=True))
        cache.put_many(fresh, origins)
        found |= fresh
        if progress is not None:
            progress(first + len(some), len(missing))
    return [Summary("", 0, 0, 0, cached=False) if key is None else found[key] for key in keys]


def prompt_of(request: SummaryRequest) -> Prompt:
    """The request in words: the chunks with their numbers, the label candidates, the task."""
    passages = "\n".join(
        f"[{number}] {' '.join(chunk.split())}" for number, chunk in enumerate(request.chunks, 1)
    )
    topics = ", ".join(request.candidates)
    return Prompt(SYSTEM, f"{passages}\n\nTopics: {topics}\n{TASK}", OPENING)


def count_prompt_tokens(requests: Sequence[SummaryRequest], model: LanguageModel) -> list[int]:
    """Tokens that each request's prompt takes, unbounded, without asking the model.

    With whole texts of the neighbours in place of chunks it gives what a full-text prompt would take.
    """
    return model.count_prompt_tokens([prompt_of(request) for request in requests])


def count_group_prompt_tokens(
    texts: Sequence[str], groups: Ragged, candidates: Sequence[str], model: LanguageModel
) -> Int[Tensor, " groups"]:
    """Tokens that one prompt with all texts of a group would take, for each group, unbounded.

    Each text is counted once, whatever number of groups it is in, and a prompt as the sum of its lines: so it is
    for tokenizers that join nothing across a line end, as those of the bundled model's kind do.

    Args:
        texts: that groups may have.
        groups: positions of texts, one set for each prompt.
        candidates: label candidates.
        model: whose tokenizer counts; its weights are not loaded.
    """
    line = torch.tensor(
        model.count_tokens([f" {' '.join(text.split())}\n" for text in texts]), dtype=torch.int64
    )
    longest = int(groups.width.max()) if groups.num_rows else 0
    marks = torch.tensor(
        [0, *model.count_tokens([f"[{number}]" for number in range(1, longest + 1)])]
    ).cumsum(0)
    probe = SummaryRequest(tuple(candidates), ("a",))
    frame = count_prompt_tokens([probe], model)[0] - sum(model.count_tokens(["[1]", " a\n"]))
    width, index = groups.width.cpu(), groups.index.cpu()
    return frame + marks[width] + width.new_zeros(groups.num_rows).index_add(0, groups.row.cpu(), line[index])


def prompt_bound(model: LanguageModel) -> int:
    """Most tokens of a prompt, so that the answer fits behind it."""
    return (
        MAX_PROMPT_TOKENS if model.context is None else min(MAX_PROMPT_TOKENS, model.context - MAX_NEW_TOKENS)
    )


def _written(requests: list[SummaryRequest], model: LanguageModel) -> list[Summary]:
    bounded = [_bounded(request, model) for request in requests]
    asked = [index for index, request in enumerate(bounded) if request.chunks]
    answers = model.generate([prompt_of(bounded[index]) for index in asked], MAX_NEW_TOKENS)
    given = dict(zip(asked, answers, strict=True))
    summaries = []
    for index, (request, kept) in enumerate(zip(requests, bounded, strict=True)):
        answer, dropped = given.get(index, Answer("", 0, 0, False)), len(request.chunks) - len(kept.chunks)
        summaries.append(
            Summary(shortened(answer), answer.prompt_tokens, answer.answer_tokens, dropped, cached=False)
        )
    return summaries


def shortened(answer: Answer) -> str:
    """The first sentences of an answer, each once: small models that find no end repeat themselves."""
    spans = sentence_spans(answer.text)
    sentences = [" ".join(answer.text[start:end].split()) for start, end in spans]
    if sentences and answer.cut and not sentences[-1].endswith((".", "!", "?", "。")):
        sentences[-1] += " …"
    return " ".join(list(dict.fromkeys(sentences))[:MAX_SENTENCES])


def _bounded(request: SummaryRequest, model: LanguageModel) -> SummaryRequest:
    bound = prompt_bound(model)
    while request.chunks and count_prompt_tokens([request], model)[0] > bound:
        request = replace(request, chunks=request.chunks[:-1])
    return request


def _key(request: SummaryRequest, model: LanguageModel) -> bytes:
    prompt = prompt_of(request)
    bounds = (MAX_NEW_TOKENS, prompt_bound(model))
    return content_key(
        prompt.system, prompt.user, prompt.opening, model.revision, model.dtype, PROMPT_VERSION, *bounds
    )


def _packed(summary: Summary) -> bytes:
    values = [summary.text, summary.prompt_tokens, summary.answer_tokens, summary.dropped]
    return json.dumps(values).encode()
