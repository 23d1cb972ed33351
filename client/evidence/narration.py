"""Summaries for evidence packs, and the ledger of what they cost a language model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from client.evidence.packs import EvidencePack, NodeId
from client.text.chunks import sentence_spans
from client.text.encoder import Encoder, Progress
from client.text.language_model import LanguageModel
from client.text.summaries import (
    Summary,
    SummaryCache,
    SummaryRequest,
    count_prompt_tokens,
    summarise,
    supported,
)

CACHE_FILE = "summaries.sqlite"
UNSUPPORTED = "(no passage supports this sentence)"


@dataclass(frozen=True)
class TokenLedger:
    """Language model tokens of some summaries.

    Args:
        llm: prompts and answers as written.
        llm_full_text: the same with the full texts of the selected neighbours in the prompts; not run.
        llm_two_hop: the same with all texts within two hops; not run.
    """

    llm: int
    llm_full_text: int
    llm_two_hop: int


@dataclass(frozen=True)
class Narrated:
    """Packs with their summaries, and what these cost."""

    packs: tuple[EvidencePack, ...]
    ledger: TokenLedger


def narrate(
    packs: Sequence[EvidencePack],
    texts: Mapping[NodeId, str],
    surroundings: Sequence[Sequence[NodeId]],
    classes: Sequence[str],
    model: LanguageModel,
    encoder: Encoder,
    cache: Path,
    progress: Progress | None = None,
) -> Narrated:
    """Let the language model summarise each pack's chunks; sentences that no chunk supports are marked.

    Args:
        packs: whose chunks are literal slices of `texts`.
        texts: text of every node of the site.
        surroundings: for each pack the nodes within two hops, itself included.
        classes: label candidates.
        model: loads its weights only if the cache lacks something.
        encoder: judges support.
        cache: folder of the cache.
        progress: called with (done, total) summaries that had to be written.
    """
    requests = [_request(pack, texts, classes) for pack in packs]
    summaries = summarise(requests, model, SummaryCache(cache / CACHE_FILE), progress)
    answers = sum(summary.answer_tokens for summary in summaries)
    selected = [[neighbour.node for neighbour in pack.neighbours] for pack in packs]
    ledger = TokenLedger(
        llm=answers + sum(summary.prompt_tokens for summary in summaries),
        llm_full_text=answers + sum(count_prompt_tokens(_whole(selected, texts, classes), model)),
        llm_two_hop=answers + sum(count_prompt_tokens(_whole(surroundings, texts, classes), model)),
    )
    told = [
        replace(pack, summary=_marked(summary, request, encoder) or None)
        for pack, summary, request in zip(packs, summaries, requests, strict=True)
    ]
    return Narrated(tuple(told), ledger)


def _request(pack: EvidencePack, texts: Mapping[NodeId, str], classes: Sequence[str]) -> SummaryRequest:
    chunks = tuple(texts[chunk.node][chunk.start : chunk.end] for chunk in pack.chunks)
    return SummaryRequest(tuple(classes), chunks, tuple(str(chunk.node) for chunk in pack.chunks))


def _whole(
    nodes: Sequence[Sequence[NodeId]], texts: Mapping[NodeId, str], classes: Sequence[str]
) -> list[SummaryRequest]:
    return [
        SummaryRequest(
            tuple(classes), tuple(texts[node] for node in group), tuple(str(node) for node in group)
        )
        for group in nodes
    ]


def _marked(summary: Summary, request: SummaryRequest, encoder: Encoder) -> str:
    sentences = [summary.text[start:end] for start, end in sentence_spans(summary.text)]
    sentences = [sentence.strip() for sentence in sentences if sentence.strip()]
    if not sentences:
        return ""
    vectors = encoder.encode([*sentences, *request.chunks]).vectors
    holds = supported(vectors[: len(sentences)], vectors[len(sentences) :])
    assert isinstance(holds, torch.Tensor)
    return " ".join(
        sentence if held else f"{sentence} {UNSUPPORTED}"
        for sentence, held in zip(sentences, holds.tolist(), strict=True)
    )
