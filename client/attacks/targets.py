"""What is attacked: anything that answers with posteriors for every node of the audited sites."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from jaxtyping import Bool, Float
from torch import Tensor

from fedtag.client.attacks.population import Population
from fedtag.client.attacks.signals import Posteriors
from fedtag.client.attacks.training import Recipe, fresh, posteriors, softmax, trained
from fedtag.client.condense.synthetic.validation import condensed_batch
from fedtag.common.synthetic.condensed import Condensed
from fedtag.common.synthetic.fitting import fitted

Kind = Literal["released", "self-trained", "condensed", "insider", "trained"]


@dataclass(frozen=True, eq=False)
class Target:
    """What is attacked.

    Args:
        name: told in tables.
        kind: a released model; the self-trained one beside a condensed graph; models trained on such a graph and
            asked with raw features, or by an insider with those that the sites keep; or models that the audit
            trained on the sites' graphs.
        posteriors: of every node by the model of a seed; the same seed gives the same model.
        recipe: how the attacker trains shadow models.
        pseudo_labelled: nodes without a label of their own that a model learned from, where they are known.
    """

    name: str
    kind: Kind
    posteriors: Callable[[int], Posteriors]
    recipe: Recipe
    pseudo_labelled: Bool[Tensor, " nodes"] | None = None

    @property
    def of(self) -> Literal["release", "self-trained"]:
        """By what an audit asks for it: the model of self-training is seen by the server, released or not."""
        return "self-trained" if self.kind == "self-trained" else "release"


def released(name: str, logits: Float[Tensor, "nodes classes"], kind: Kind = "released") -> Target:
    """One model, which is the same for every seed.

    Args:
        name: of its method.
        logits: of all nodes, in the order of the population.
        kind: `released` or `self-trained`.
    """
    said = softmax(logits)

    def answer(seed: int) -> Posteriors:
        return said

    return Target(name, kind, answer, Recipe())


def trained_on_sites(name: str, people: Population, recipe: Recipe) -> Target:
    """Models that the audit trains on the training nodes of all sites.

    Args:
        name: of the defence.
        people: the audited nodes. Shadow nodes get no pseudo-label: an attacker knows them.
        recipe: how the models are trained. The attacker knows it, too, and trains shadow models alike.
    """

    def answer(seed: int) -> Posteriors:
        return posteriors(trained(people.graph, people.spare, recipe, seed), people.graph)

    return Target(name, "trained", answer, recipe, people.spare if recipe.pseudo_labels else None)


def trained_on_condensed(
    name: str,
    kind: Kind,
    people: Population,
    condensed: Condensed,
    queries: Float[Tensor, "nodes dim"],
    pseudo_labelled: Bool[Tensor, " nodes"] | None = None,
) -> Target:
    """Models that anyone may train on a released condensed graph.

    Args:
        name: what they are queried with.
        kind: `condensed` or `insider`.
        people: the audited nodes.
        condensed: the graph.
        queries: features of all nodes with which the models are asked: raw ones as the paper's attacker has them,
            or those that the sites keep.
        pseudo_labelled: nodes with a pseudo-label in the making of the graph, where they are known.
    """
    recipe, asked = Recipe(), people.graph.with_features(queries)
    batch = condensed_batch(condensed.to(queries.device))

    def answer(seed: int) -> Posteriors:
        initial = fresh(asked, recipe.hidden, seed)
        weights = fitted(initial, batch, recipe.steps, recipe.rate, recipe.weight_decay)
        return posteriors(weights, asked)

    return Target(name, kind, answer, recipe, pseudo_labelled)


DEFENCES = {
    "no defence": Recipe(),
    "PL": Recipe(pseudo_labels=True),
    "Reg": Recipe(penalty=1.0),
    "LDP": Recipe(epsilon=10.0),
}
"""The defences that the paper compares its bottleneck with, at fixed strengths."""


def defended(people: Population) -> tuple[Target, ...]:
    """A target for each defence."""
    return tuple(trained_on_sites(name, people, recipe) for name, recipe in DEFENCES.items())
