"""Keeping evidence: packs of the trained core in each refresh, packs of every node for the released model."""

from __future__ import annotations

import torch
from torch import Tensor

from fedtag.client.context.run_context import RunContext
from fedtag.client.context.site_data import SiteData
from fedtag.client.evidence.condensed import CORE_FOLDER, links_file, write_links
from fedtag.client.evidence.narration import TokenLedger
from fedtag.client.evidence.pack_table import PackTable
from fedtag.client.evidence.store import available_rounds, round_file, write_packs
from fedtag.client.methods.dance.condensation import Forward, forward, views_of_all
from fedtag.client.methods.dance.evidence import Evidence, EvidenceVectors
from fedtag.client.methods.dance.local_graph import LocalGraph
from fedtag.client.methods.dance.packs import evidence_packs, narrated_packs
from fedtag.client.methods.dance.shares import score_shares
from fedtag.client.train.passes import hidden_and_logits
from fedtag.common.graph import Adjacency
from fedtag.common.methods.dance.model import DanceModel
from fedtag.common.methods.dance.settings import DanceConfig
from fedtag.common.models.parameters import fingerprint

Context = RunContext[DanceConfig]

KEPT_CORE_ROUNDS = 5


def keep_core_evidence(
    model: DanceModel,
    evidence: Evidence,
    x: Tensor,
    found: EvidenceVectors,
    adjacency: Adjacency,
    data: SiteData,
    context: Context,
) -> None:
    """Write what the core of a round was condensed from; the last few rounds are kept."""
    with torch.no_grad():
        logits = model.backbone(x, adjacency)
    number, digest = context.round, fingerprint(model.state_dict())
    packs = evidence_packs(evidence, found, logits, "core", number, digest, data)
    folder = context.evidence / CORE_FOLDER
    write_links(folder, number, adjacency)
    # The rounds after it replace it, so that none waits for the disk.
    write_packs(folder, number, packs, durable=False)
    for old in sorted(available_rounds(folder))[:-KEPT_CORE_ROUNDS]:
        round_file(folder, old).unlink()
        links_file(folder, old).unlink(missing_ok=True)


@torch.no_grad()
def scored_evidence(
    model: DanceModel, local: LocalGraph, passed: Forward, round_number: int, data: SiteData
) -> tuple[Tensor, Tensor, PackTable]:
    """The evidence path's representation and logits of every node, and the evidence of each prediction."""
    evidence, seen, found = views_of_all(model, local, passed)
    hidden, logits = hidden_and_logits(model.backbone, model.fuse(seen), local.adjacency, local.batching)
    share = score_shares(model, local.adjacency, seen, logits, local.batching).share
    digest = fingerprint(model.state_dict())
    packs = evidence_packs(evidence, found, logits, "scored", round_number, digest, data, share)
    return hidden, logits, packs


def keep_scored_evidence(
    model: DanceModel, local: LocalGraph, round_number: int, data: SiteData, context: Context
) -> TokenLedger | None:
    """Write the evidence of every node's prediction, and summaries of it unless they are off.

    The first `summaries.limit` test nodes get one, from their selected chunks.

    Returns:
        what the language model was given for them, None if it was not asked.
    """
    with context.timed("evidence"):
        *_, packs = scored_evidence(model, local, forward(model, local), round_number, data)
    ledger = None
    summaries = context.config.summaries.limit if local.config.summaries != "off" else 0
    chosen = local.graph.test_mask.nonzero().squeeze(1)[:summaries]
    if chosen.numel():
        with context.timed("summarise"):
            narrated = narrated_packs(local, packs, chosen, data, context)
            accounts = (pack.account for pack in narrated)
            packs = packs.with_accounts(dict(zip(chosen.tolist(), accounts, strict=True)))
            ledger = TokenLedger.of(narrated)
    write_packs(context.evidence, round_number, packs)
    return ledger
