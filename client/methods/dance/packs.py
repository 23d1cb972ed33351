"""Evidence packs of DANCE: what was selected for each node, written where only the institution reads it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from fedtag.client.context.run_context import RunContext
from fedtag.client.context.site_data import SiteData
from fedtag.client.evidence.columns import ChunkColumns, NeighbourColumns, packs_from_arrays
from fedtag.client.evidence.narration import narrate
from fedtag.client.evidence.pack_table import PackTable
from fedtag.client.evidence.packs import EvidencePack, Kind
from fedtag.client.methods.dance.evidence import Evidence, EvidenceVectors
from fedtag.client.methods.dance.local_graph import LocalGraph
from fedtag.client.methods.dance.node_summaries import bank_encoder, language_model
from fedtag.common.methods.dance.settings import DanceConfig


def evidence_packs(
    evidence: Evidence,
    found: EvidenceVectors,
    logits: Float[Tensor, "rows classes"],
    kind: Kind,
    round_number: int,
    model: str,
    data: SiteData,
    share: Float[Tensor, " rows"] | None = None,
) -> PackTable:
    """The packs of the evidence's rows.

    Args:
        evidence, found: choices and the weights on them.
        logits: of the evidence path, for the same rows.
        kind: `core` for nodes that were trained on, `scored` for predictions.
        round_number: of the model.
        model: its fingerprint.
        data: of the site.
        share: of the score that came through the evidence (`ScoreShares.share`), NaN where it has none.
    """
    confidence, prediction = logits.softmax(1).max(1)
    graph = data.text_graph
    labels = torch.from_numpy(graph.labels)[evidence.rows.cpu()]
    return packs_from_arrays(
        _array(evidence.rows),
        _array(prediction),
        _array(confidence.double()),
        _neighbours(evidence, found.neighbour_weights),
        _chunks(data, evidence, found.chunk_weights),
        node_ids=graph.node_ids,
        texts=graph.texts,
        classes=graph.classes,
        kind=kind,
        round_number=round_number,
        model=model,
        label=_array(labels),
        evidence_share=None if share is None else _array(share.double()),
    )


def narrated_packs(
    local: LocalGraph,
    packs: Sequence[EvidencePack],
    rows: Int[Tensor, " chosen"],
    data: SiteData,
    context: RunContext[DanceConfig],
) -> tuple[EvidencePack, ...]:
    """Some packs with summaries by the configured language model.

    Args:
        packs: of all nodes, in the order of rows.
        rows: the nodes whose packs are to be summarised.
        data: of the site.
        context: of the run.
    """
    graph = data.text_graph
    texts = dict(zip(graph.node_ids, graph.texts, strict=True))
    near = local.neighbours.select(rows), local.second_neighbours.select(rows)
    surroundings = []
    for position, row in enumerate(rows.tolist()):
        around = [row]
        for hop in near:
            around += hop.index[int(hop.ptr[position]) : int(hop.ptr[position + 1])].tolist()
        surroundings.append([graph.node_ids[node] for node in around])
    chosen = [packs[row] for row in rows.tolist()]
    return narrate(
        chosen,
        texts,
        surroundings,
        graph.classes,
        language_model(data, context),
        bank_encoder(data, context),
        data.site.cache,
        context.progress("writing summaries"),
    )


def _neighbours(evidence: Evidence, weights: tuple[Tensor, ...]) -> NeighbourColumns:
    row, node, hop, weight = [], [], [], []
    for number, (candidates, kept, values) in enumerate(
        zip(evidence.hops, evidence.kept, weights, strict=True)
    ):
        row.append(candidates.row[kept])
        node.append(candidates.index[kept])
        hop.append(torch.full_like(node[-1], number))
        weight.append(values[kept].double())
    return NeighbourColumns(*(_array(torch.cat(column)) for column in (row, node, hop, weight)))


def _chunks(data: SiteData, evidence: Evidence, weights: Tensor) -> ChunkColumns:
    bank, kept = data.bank, evidence.kept_chunks
    chunk = evidence.chunks.index[kept].cpu()
    return ChunkColumns(
        _array(evidence.chunks.row[kept]),
        _array(bank.node_of_chunk()[chunk]),
        _array(bank.start[chunk]),
        _array(bank.end[chunk]),
        _array(weights[kept].double()),
    )


def _array(values: Tensor) -> Any:
    return values.detach().cpu().numpy()
