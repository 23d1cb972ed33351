"""Summaries that join the text view: one of every text of the site, read where selection chose its chunks.

`dance.summaries = feature` gives t̃_v ← (1 − ν) t̃_v + ν s_v with s_v = Σ_r π_vr σ_u(r), where π are the weights of
v's selected chunks (Eq. 9), u(r) is the node of chunk r, and σ_u the encoded summary that the site's language model
writes of node u's own text: of its at most `dance.chunk-budget` most central chunks.

A summary of all selected chunks together would depend on the model that selects. Every model selects anew, for
every node that it scores, so that each round would write about one summary a node, and each masked text of a
faithfulness measurement one for every node around it. σ depends on a text, the names of the classes and the language
model alone. It is therefore written once, and training, scoring, prediction and masked texts all read the same one.
Selection decides whose summaries join, and with what weight; gradients reach it through π. Without the chunks of a
node its summary is out of the view; with some of its chunks cut out of the text, the summary is written anew from the
rest. A summary may speak of a chunk that is not quoted, as the context c (Eq. 7) does: it is of a selected node.

Cost: one generation for each distinct text, before the first round, and one for each masked text that a faithfulness
measurement makes; the bundled model takes 1 to 2 seconds for each on a processor core.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from fedtag.client.context.run_context import RunContext
from fedtag.client.context.site_data import SiteData
from fedtag.client.data.assembly import FOLDER_FEATURES
from fedtag.client.evidence.narration import TokenLedger
from fedtag.client.text.bank import TextBank
from fedtag.client.text.encoder import Encoder
from fedtag.client.text.language_model import LanguageModel
from fedtag.client.text.summaries import (
    SummaryCache,
    SummaryRequest,
    count_group_prompt_tokens,
    summarise,
)
from fedtag.client.text.summary_vectors import SUMMARY_CACHE, summary_vectors, text_requests
from fedtag.common.errors import ConfigError
from fedtag.common.methods.dance.settings import DanceConfig
from fedtag.common.numerics.ragged import Ragged, merge

Context = RunContext[DanceConfig]

FEATURE = "feature"


def language_model(data: SiteData, context: Context) -> LanguageModel:
    """The model that writes summaries at the site."""
    summaries, site = context.config.summaries, data.site
    name = site.model(summaries.model)
    return LanguageModel(name, str(data.device), batch_size=summaries.batch, cache=site.cache)


def bank_encoder(data: SiteData, context: Context) -> Encoder:
    """The encoder of the site's texts."""
    text = context.config.text
    return Encoder(data.site.model(text.encoder), str(data.device), text.dtype)


def summaries_join(config: DanceConfig) -> bool:
    """Whether summaries are part of the text view."""
    return config.summaries == FEATURE and config.summary_share > 0


def joined_summaries(data: SiteData, context: Context) -> Float[Tensor, "nodes dim"] | None:
    """σ of every node, zero where it has no chunk; None where no summary joins the view.

    Raises:
        ConfigError: summaries are to join, but the site brings features.npy in place of encoded texts.
        WeightsError: the language model is needed and cannot be had.
    """
    if context.settings.summaries == FEATURE:
        refuse_features(data)
    if not summaries_join(context.settings):
        return None

    def build() -> Tensor:
        with context.timed("summarise"):
            return text_summaries(data.text_graph.texts, data.bank, "summarising texts", data, context)

    return context.cached(data, "summaries", build)


def refuse_features(data: SiteData) -> None:
    """Raise ConfigError where a site has features: they are of another space than its texts, if it has texts."""
    if data.features_from == FOLDER_FEATURES:
        raise ConfigError(
            f"{data.site.name} brings features.npy in place of encoded texts, and summaries of texts cannot join its "
            f"vectors: leave the file out, or set dance.summaries = audit"
        )


def text_summaries(
    texts: Sequence[str],
    bank: TextBank,
    work: str,
    data: SiteData,
    context: Context,
    sources: Sequence[tuple[str, ...]] | None = None,
) -> Float[Tensor, "texts dim"]:
    """σ of some texts, on the site's device.

    Args:
        texts: any.
        bank: of these texts.
        work: what is shown meanwhile.
        data: of the site, whose language model writes what its cache lacks.
        context: of the run.
        sources: of each text, the nodes' texts that it was made from; itself where None.
    """
    vectors = summary_vectors(
        _requests(texts, bank, data, context, sources),
        language_model(data, context),
        bank_encoder(data, context),
        data.site.cache,
        context.progress(work),
    )
    return vectors.to(data.device)


def summaries_ledger(near: Ragged, far: Ragged, data: SiteData, context: Context) -> TokenLedger | None:
    """What the summaries of all nodes took; None where none joins the view or was written.

    A prompt holds chunks of one node only, whose full text stands for those of the selected neighbours.

    Args:
        near, far: first and second neighbours of every node.
        data: of the site; everything is in its cache.
        context: of the run.
    """
    if not summaries_join(context.settings):
        return None
    graph, model = data.text_graph, language_model(data, context)
    requests = _requests(graph.texts, data.bank, data, context)
    summaries = summarise(requests, model, SummaryCache(data.site.cache / SUMMARY_CACHE))
    written = torch.tensor([summary.prompt_tokens > 0 for summary in summaries])
    if not bool(written.any()):
        return None
    rows = written.nonzero().squeeze(1).to(near.ptr.device)
    own = Ragged.singletons(rows)
    answers = sum(summary.answer_tokens for summary in summaries)

    def counted(groups: Ragged) -> int:
        return int(count_group_prompt_tokens(graph.texts, groups, graph.classes, model).sum())

    return TokenLedger(
        answers + sum(summary.prompt_tokens for summary in summaries),
        answers + counted(own),
        answers + counted(merge(own, near.select(rows), far.select(rows))),
        rows.numel(),
    )


def _requests(
    texts: Sequence[str],
    bank: TextBank,
    data: SiteData,
    context: Context,
    sources: Sequence[tuple[str, ...]] | None = None,
) -> list[SummaryRequest]:
    return text_requests(texts, bank, data.text_graph.classes, context.settings.chunk_budget, sources)
