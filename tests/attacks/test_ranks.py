"""A curious server asks whose record is a site's only test node of a class, from what it is told of scores.

It holds the records of some people, so that it knows how each of them scores with the models that it sends. Each site
tells, in clear, how many nodes of a class have their scores in which bin: who scores elsewhere is ruled out.
"""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch

from fedtag.common.models.assembly import initial_backbone
from fedtag.common.models.parameters import load_parameters
from fedtag.common.numerics.ranking import RANK_BINS, rank_bins
from fedtag.common.wire.records import Reply
from fedtag.server.exchange import ledger
from tests.tiny import Tiny, Tried

SITE = "site-0"
"""It has one test node of each class, and the two others have two of each."""
ROUNDS: dict[str, object] = {"rounds": 3, "train.learning-rate": 0.05, "aggregation.weights": "uniform"}
HIDDEN: dict[str, object] = {
    **ROUNDS,
    "privacy.secure-aggregation": True,
    "privacy.hide-statistics": True,
}
RANKS = "scores/graph/test/ranks"

People = list[tuple[str, int, torch.Tensor]]
"""Site, class and bins of each person whose record the server holds."""


def told_by(run: Tried, site: str) -> list[torch.Tensor]:
    """The histograms that the server got of one site, in clear, by the model that they are of."""
    replies = [one.reply for one in run.crossed if one.client == site and one.reply is not None]
    return [reply.content.tensors[RANKS] for reply in replies if RANKS in reply.content.tensors]


def people_of(run: Tried, place: int) -> People:
    """All test nodes, with one of the models that the server had scored."""
    found: People = []
    for session in run.sessions:
        name, graph = session.site.name, session.data.graph
        asked = [one.told.content for one in run.crossed if one.client == name]
        scored = [content for content in asked if content.values.get("evaluate")]
        model = initial_backbone(run.rounds.config, graph.x.shape[1], graph.num_classes)
        load_parameters(model, scored[place].section("model"))
        with torch.no_grad():
            bins = rank_bins(model(graph.x, session.data.adjacency))
        found += [(name, int(graph.y[node]), bins[node]) for node in graph.test_mask.nonzero()[:, 0]]
    return found


def possible(run: Tried, told: Sequence[torch.Tensor], label: int) -> list[str]:
    """The sites of the people of a class who score, with every model, as somebody in the histograms does."""
    left: set[int] | None = None
    people: People = []
    for place, ranks in enumerate(told):
        people = people_of(run, place)
        fits = {
            number
            for number, (_, own, bins) in enumerate(people)
            if own == label
            and all(int(ranks[int(one == label), one, bins[one]]) > 0 for one in range(len(bins)))
        }
        left = fits if left is None else left & fits
    return [people[number][0] for number in sorted(left or ())]


@pytest.mark.parametrize("hidden", [True, False], ids=["repelled", "control"])
def test_a_lone_node_is_told_by_its_scores(tiny: Tiny, hidden: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    summed: list[torch.Tensor] = []
    pool = ledger.pool_scores

    def watched(replies: dict[str, Reply], *more: object) -> object:
        summed.extend(
            reply.content.tensors[RANKS] for reply in replies.values() if RANKS in reply.content.tensors
        )
        return pool(replies, *more)

    if hidden:
        monkeypatch.setattr("fedtag.server.run.rounds.pool_scores", watched)
    run = tiny(HIDDEN if hidden else ROUNDS)
    assert run.summary is not None, run.error
    told = told_by(run, SITE)
    lone = int(run.sessions[0].data.graph.test_mask.sum())
    assert lone == 3
    if hidden:
        assert not told
        assert [int(ranks.sum()) for ranks in summed] == [3 * 15] * 3
        assert all(ranks.shape == (2, 3, RANK_BINS) for ranks in summed)
        # All the server has: five people of a class, of which any may be the site's.
        assert [possible(run, summed, label) for label in range(3)] == [
            [SITE, *["site-1"] * 2, *["site-2"] * 2]
        ] * 3
    else:
        assert len(told) == 3
        assert [possible(run, told, label) for label in range(3)] == [[SITE]] * 3
