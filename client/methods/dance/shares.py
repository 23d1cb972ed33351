"""How much of a prediction's score came through the quoted evidence (Shapley, 1953, with two players)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from fedtag.client.train import passes
from fedtag.client.train.batches import WHOLE, Batching
from fedtag.common.graph import Adjacency
from fedtag.common.methods.dance.model import DanceModel, Views


@dataclass(frozen=True)
class ScoreShares:
    """What the two players add to the predicted class's score, for each node.

    Args:
        evidence: φ_E, of the text view t' (the weighted chunks and neighbours) of every node.
        rest: φ_R, of everything else that the fusion reads: the hidden state g and the bypass views.
        total: v(E, R) - v(∅), which the two add up to.
    """

    evidence: Float[Tensor, " nodes"]
    rest: Float[Tensor, " nodes"]
    total: Float[Tensor, " nodes"]

    @property
    def share(self) -> Float[Tensor, " nodes"]:
        """|φ_E| / (|φ_E| + |φ_R|), in [0, 1]; NaN where both are 0."""
        sizes = self.evidence.abs(), self.rest.abs()
        return sizes[0] / (sizes[0] + sizes[1])


@torch.no_grad()
def score_shares(
    model: DanceModel,
    adjacency: Adjacency,
    seen: Views,
    logits: Float[Tensor, "nodes classes"],
    batching: Batching = WHOLE,
) -> ScoreShares:
    """The two-player Shapley value of each node's score.

    The score v(S) of a node is the logit of its predicted class minus the mean of its logits, from the fusion
    and the backbone over the whole graph, where the views of absent players are zero at every node. Then
    φ_E = ½ [v(E) - v(∅) + v(E, R) - v(R)], and φ_R likewise. The selection itself, which reads g, is as it was:
    the value says through which views the score came, not what chose the evidence.

    Args:
        model: that predicts.
        adjacency: of the graph.
        seen: views of every node.
        logits: by all views, which say the class of each node.
        batching: of the graph.
    """
    predicted = logits.argmax(1, keepdim=True)
    without_text = replace(seen, text=torch.zeros_like(seen.text))
    without_rest = replace(seen, graph=torch.zeros_like(seen.graph), bypass=torch.zeros_like(seen.bypass))
    nothing = replace(without_rest, text=without_text.text)

    def score(logits: Tensor) -> Tensor:
        return logits.gather(1, predicted).squeeze(1) - logits.mean(1)

    both = score(logits)
    evidence, rest, empty = (
        score(passes.logits(model.backbone, model.fuse(views), adjacency, batching))
        for views in (without_rest, without_text, nothing)
    )
    return ScoreShares(
        ((evidence - empty) + (both - rest)) / 2,
        ((rest - empty) + (both - evidence)) / 2,
        both - empty,
    )
