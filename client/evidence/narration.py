"""Summaries for evidence packs, and the ledger of what they cost a language model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from fedtag.client.evidence.account import Account
from fedtag.client.evidence.packs import EvidencePack, NodeId
from fedtag.client.text.citations import cited_sentences
from fedtag.client.text.encoder import Encoder, Progress
from fedtag.client.text.language_model import LanguageModel
from fedtag.client.text.summaries import SummaryCache, SummaryRequest, count_prompt_tokens, summarise
from fedtag.client.text.summary_vectors import SUMMARY_CACHE


@dataclass(frozen=True)
class TokenLedger:
    """Language model tokens of some summaries, prompts and answers, in the model's own tokenizer.

    A summary that was found in the cache counts as it did when it was written, so that a repeated run
    tells the same.

    Args:
        llm: as written.
        llm_full_text: with the full texts of the selected neighbours in the prompts; not run.
        llm_two_hop: with all texts within two hops; not run.
        llm_summaries: how many summaries these are the tokens of.
    """

    llm: int
    llm_full_text: int
    llm_two_hop: int
    llm_summaries: int

    @classmethod
    def of(cls, packs: Iterable[EvidencePack]) -> TokenLedger:
        """The sum over the packs that have a summary."""
        accounts = [pack.account for pack in packs if pack.account is not None]
        answers = sum(account.answer_tokens for account in accounts)
        return cls(
            answers + sum(account.prompt_tokens for account in accounts),
            answers + sum(account.full_text_prompt_tokens for account in accounts),
            answers + sum(account.two_hop_prompt_tokens for account in accounts),
            len(accounts),
        )


def narrate(
    packs: Sequence[EvidencePack],
    texts: Mapping[NodeId, str],
    surroundings: Sequence[Sequence[NodeId]],
    classes: Sequence[str],
    model: LanguageModel,
    encoder: Encoder,
    cache: Path,
    progress: Progress | None = None,
) -> tuple[EvidencePack, ...]:
    """Let the language model summarise each pack's chunks; each sentence is held against the chunks.

    A pack whose chunks give no summary, since there are none or the model reads none, has no account.

    Args:
        packs: whose chunks are literal slices of `texts`, the strongest first.
        texts: text of every node of the site.
        surroundings: for each pack the nodes within two hops, itself included.
        classes: label candidates.
        model: loads its weights only if the cache lacks something.
        encoder: judges support.
        cache: folder of the cache.
        progress: called with (done, total) summaries that had to be written.
    """
    requests = [summary_request(pack, texts, classes) for pack in packs]
    summaries = summarise(requests, model, SummaryCache(cache / SUMMARY_CACHE), progress)
    selected = [[neighbour.node for neighbour in pack.neighbours] for pack in packs]
    full_text = count_prompt_tokens(_whole(selected, texts, classes), model)
    two_hop = count_prompt_tokens(_whole(surroundings, texts, classes), model)
    narrated = []
    for index, (pack, request, summary) in enumerate(zip(packs, requests, summaries, strict=True)):
        account = Account(
            cited_sentences(summary.text, request.chunks, encoder),
            summary.dropped,
            summary.prompt_tokens,
            summary.answer_tokens,
            full_text[index],
            two_hop[index],
        )
        narrated.append(replace(pack, account=account if summary.prompt_tokens else None))
    return tuple(narrated)


def summary_request(
    pack: EvidencePack, texts: Mapping[NodeId, str], classes: Sequence[str]
) -> SummaryRequest:
    """What the language model is asked about a pack."""
    return SummaryRequest(
        tuple(classes),
        tuple(texts[chunk.node][chunk.start : chunk.end] for chunk in pack.chunks),
        tuple(texts[chunk.node] for chunk in pack.chunks),
    )


def _whole(
    nodes: Sequence[Sequence[NodeId]], texts: Mapping[NodeId, str], classes: Sequence[str]
) -> list[SummaryRequest]:
    return [SummaryRequest(tuple(classes), tuple(texts[node] for node in group)) for group in nodes]
