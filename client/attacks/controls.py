"""Whether the measurement can be trusted: models of which the right answer is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch
from jaxtyping import Bool

from fedtag.client.attacks.attack import THRESHOLDS, areas, attacked, measured
from fedtag.client.attacks.population import Comparison, Population, comparison, drawn_per_class, induced
from fedtag.client.attacks.resampling import Estimate
from fedtag.client.attacks.shadow import ShadowAttacker
from fedtag.client.attacks.signals import Posteriors
from fedtag.client.attacks.targets import Target, trained_on_sites
from fedtag.client.attacks.training import Recipe, posteriors, trained
from fedtag.common.randomness import derive_seed, numpy_generator

OVERFITTED = Recipe(hidden=128, steps=300, weight_decay=0.0)
LEAST_OVERFITTED = 0.8
"""Area that an attack on the overfitted models reaches, where attacks work at all."""

TOLERANCE = 0.03
"""How far from 0.5 the mean area of models that never saw the data may be."""

DEALS = 10
"""How often memberships are dealt anew for each model."""

Verdict = Literal["holds", "cannot be told", "fails"]


@dataclass(frozen=True)
class Control:
    """One control.

    Args:
        name: `overfitted`, `dealt` or `never seen`.
        attack: the one whose area is told: the farthest from what is expected.
        auc: that area over models.
        verdict: `cannot be told` where it is missed, but by less than the interval allows.
    """

    name: str
    attack: str
    auc: Estimate
    verdict: Verdict


def overfitted(
    people: Population, seeds: tuple[int, ...], draws: int, done: Callable[[int], None] = lambda count: None
) -> Control:
    """Models that know the training nodes by heart, and nothing else.

    Labels are dealt anew among the training nodes, and among the test nodes, and links are left out: what such a
    model says of its members it can only have from them, however easy the data are. The best threshold attack
    must reach `LEAST_OVERFITTED`.
    """
    generator = numpy_generator(seeds[0], "labels by lot")
    y = people.graph.y.clone()
    for mask in (people.members, people.non_members):
        order = generator.permutation(int(mask.sum()))
        y[mask] = y[mask][torch.from_numpy(order).to(y.device)]
    bare = replace(
        people.graph, y=y, edge_index=people.graph.edge_index[:, :0], edge_weight=people.graph.edge_weight[:0]
    )
    hidden = torch.zeros_like(people.shadow)
    alone = Population(bare, hidden, hidden)
    target = trained_on_sites("overfitted", alone, OVERFITTED)
    scored = attacked(target, alone, ShadowAttacker(alone), seeds, done)
    groups = member_groups(alone)
    found = {
        name: measured(scored.scores[name], groups, draws, numpy_generator(seeds[0], "overfitted")).auc
        for name in THRESHOLDS
    }
    name = max(found, key=lambda key: found[key].mean)
    best = found[name]
    verdict: Verdict = "holds" if best.mean >= LEAST_OVERFITTED else "fails"
    if verdict == "fails" and best.high >= LEAST_OVERFITTED:
        verdict = "cannot be told"
    return Control("overfitted", name, best, verdict)


def never_seen(
    people: Population,
    attacker: ShadowAttacker,
    seeds: tuple[int, ...],
    draws: int,
    done: Callable[[int], None] = lambda count: None,
) -> tuple[Control, ...]:
    """Models that never saw a training or test node; none where too few other nodes have a label.

    They are trained on the spare nodes, alone with the links between them. `dealt` is about the measurement:
    memberships are dealt anew among the training and test nodes of each class, and every area must be 0.5.
    `never seen` is about the data: with the true memberships it may be another one, where training nodes differ
    from test nodes before anything is trained, and the areas of targets contain that difference.
    """
    graph, labels = people.graph, people.labels
    spare = people.spare.cpu().numpy()
    counts = np.bincount(labels[people.members.cpu().numpy()], minlength=graph.num_classes)
    if np.count_nonzero(drawn_per_class(labels, spare, counts, numpy_generator(0))) < 2 * graph.num_classes:
        return ()
    alone = induced(graph, people.spare)

    def answer(seed: int) -> Posteriors:
        drawn = drawn_per_class(
            alone.y.cpu().numpy(), np.ones(alone.num_nodes, bool), counts, numpy_generator(seed, "spare")
        )
        learned = replace(alone, train_mask=torch.from_numpy(drawn).to(alone.x.device))
        nobody = torch.zeros_like(learned.train_mask)
        return posteriors(trained(learned, nobody, Recipe(), derive_seed(seed, "never seen")), graph)

    scored = attacked(Target("never seen", "trained", answer, Recipe()), people, attacker, seeds, done)
    true, dealt = {}, {}
    for name, scores in scored.scores.items():
        generator = numpy_generator(seeds[0], "never seen", name)
        true[name] = measured(scores, member_groups(people), draws, generator).auc
        dealt[name] = dealt_area(people, scores, draws, generator)
    return _farthest("dealt", dealt), _farthest("never seen", true)


def dealt_area(
    people: Population, scores: np.ndarray, draws: int, generator: np.random.Generator
) -> Estimate:
    """The mean area where memberships are dealt anew, with the interval of that mean over deals and models."""
    rows = np.array(
        [areas(row[None], dealt_groups(people, generator))[0] for row in scores for _ in range(DEALS)]
    )
    means = rows[generator.integers(0, len(rows), (draws, len(rows)))].mean(1)
    low, high = np.quantile(means, [0.025, 0.975])
    return Estimate(float(rows.mean()), float(low), float(high))


def dealt_groups(people: Population, generator: np.random.Generator) -> Comparison:
    """As many members of each class as there are, at random among training and test nodes."""
    inside, outside = (mask.cpu().numpy() for mask in (people.members, people.non_members))
    counts = np.bincount(people.labels[inside], minlength=people.graph.num_classes)
    dealt = drawn_per_class(people.labels, inside | outside, counts, generator)
    return comparison(people.labels, dealt, (inside | outside) & ~dealt)


def member_groups(people: Population, members: Bool[torch.Tensor, " nodes"] | None = None) -> Comparison:
    """The training nodes, or other members, against all test nodes."""
    chosen = people.members if members is None else members
    return comparison(people.labels, chosen.cpu().numpy(), people.non_members.cpu().numpy())


def _farthest(name: str, found: dict[str, Estimate]) -> Control:
    attack = max(found, key=lambda key: abs(found[key].mean - 0.5))
    auc = found[attack]
    verdict: Verdict = "holds" if abs(auc.mean - 0.5) <= TOLERANCE else "fails"
    if verdict == "fails" and auc.low <= 0.5 <= auc.high:
        verdict = "cannot be told"
    return Control(name, attack, auc, verdict)
