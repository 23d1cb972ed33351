"""What DANCE reads of a site: its texts as vectors, its neighbourhoods, its features propagated once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Float, Int
from torch import Tensor

from fedtag.client.context.run_context import RunContext
from fedtag.client.context.site_data import SiteData
from fedtag.client.methods.dance.evidence import Texts
from fedtag.client.methods.dance.neighbours import one_hop, prefilter, two_hop
from fedtag.client.methods.dance.node_summaries import joined_summaries
from fedtag.client.train.batches import WHOLE, Batching
from fedtag.common.graph import Adjacency, Graph
from fedtag.common.methods.dance.settings import DanceConfig
from fedtag.common.numerics.ragged import Ragged, row_of_entries
from fedtag.common.randomness import derive_seed


@dataclass(frozen=True)
class LocalGraph:
    """A site's graph as DANCE sees it, either in full (scoring) or as training may see it.

    Args:
        graph: whose features are the pooled text vectors t.
        adjacency: of the same graph.
        texts: of every node.
        document: vector of every whole text.
        config: budgets and switches.
        seed: of the sampling of large two-hop sets.
        summaries: encoded summary of every text, a unit vector, zero where there is none; None where no summary
            joins the text view.
        batching: how many nodes are scored, and get evidence, at a time.
    """

    graph: Graph
    adjacency: Adjacency
    texts: Texts
    document: Float[Tensor, "nodes dim"]
    config: DanceConfig
    seed: int
    summaries: Float[Tensor, "nodes dim"] | None = None
    batching: Batching = WHOLE

    @cached_property
    def chunk_views(self) -> Float[Tensor, "chunks dim"]:
        """What a selected chunk r of node u brings to the text view: (1 − ν) e_r + ν σ_u; e_r where u has no summary.

        Weights π of sum 1 on them give (1 − ν) t̃ + ν s with s = Σ π_r σ_u(r).
        """
        if self.summaries is None:
            return self.texts.chunks
        owner = row_of_entries(self.texts.ptr, self.texts.chunks.shape[0])
        share = self.config.summary_share * self.summaries.any(1, keepdim=True).to(self.summaries.dtype)
        return torch.lerp(self.texts.chunks, self.summaries[owner], share[owner])

    @cached_property
    def bypass(self) -> Float[Tensor, "nodes views dim"]:
        """v, Âv, Â²v, … of the vectors v that are propagated, as far as switched on; parameter-free."""
        config, pooled, whole = self.config, self.texts.pooled, self.document
        if not config.propagated:
            return whole.new_empty(whole.shape[0], 0, whole.shape[1])
        start = {"chunks": pooled, "document": whole, "both": (pooled + whole) / 2}
        views = [start[config.propagated_view]]
        for _ in range(config.propagated):
            views.append(self.adjacency.propagate(views[-1]))
        return torch.stack(views, dim=1)

    @cached_property
    def neighbours(self) -> Ragged:
        """Hop 1 of every node."""
        return one_hop(self.graph.edge_index, self.graph.num_nodes)

    @cached_property
    def second_neighbours(self) -> Ragged:
        """Hop 2 of every node, sampled where it is large."""
        config = self.config
        return two_hop(
            self.graph.edge_index, self.graph.num_nodes, config.two_hop_cap, config.two_hop_paths, self.seed
        )

    def candidates(
        self, rows: Int[Tensor, " rows"], difficulty: Float[Tensor, " nodes"]
    ) -> tuple[Ragged, Ragged, Ragged]:
        """For some nodes: themselves, their neighbours, and the hardest of their second neighbours."""
        everything = self.are_all_nodes(rows)
        near, far = (
            hop if everything else hop.select(rows) for hop in (self.neighbours, self.second_neighbours)
        )
        second = prefilter(
            far,
            difficulty,
            4 * self.config.two_hop_budget,
            self.config.difficulty,
        )
        return Ragged.singletons(rows), near, second

    def are_all_nodes(self, rows: Int[Tensor, " rows"]) -> bool:
        """Whether the rows are all nodes in their order, so that nothing has to be gathered."""
        count = self.graph.num_nodes
        return rows.numel() == count and torch.equal(rows, torch.arange(count, device=rows.device))

    @property
    def budgets(self) -> tuple[int, int, int]:
        """Most neighbours kept at hops 0, 1 and 2."""
        return 1, self.config.one_hop_budget, self.config.two_hop_budget


def local_graph(
    data: SiteData, context: RunContext[DanceConfig], evidence: bool = True, batching: Batching = WHOLE
) -> LocalGraph:
    """The site's graph, or the part of it that training sees, for DANCE.

    Args:
        data: of the site, in full or as training may see them.
        context: of the run.
        evidence: whether the evidence path is taken, by which alone summaries are read.
        batching: of the graph.

    Raises:
        ConfigError: summaries are to join the text view of a site without encoded texts.
    """
    bank, config = data.bank.to(data.device), context.config
    texts = Texts(bank.pooled(config.text.pool_sharpness), bank.vectors, bank.ptr)
    seed = derive_seed(config.seed, data.site.name, "two-hop sample")
    summaries = joined_summaries(data, context) if evidence else None
    return LocalGraph(
        data.graph.with_features(texts.pooled),
        data.adjacency,
        texts,
        bank.document,
        context.settings,
        seed,
        summaries,
        batching,
    )
