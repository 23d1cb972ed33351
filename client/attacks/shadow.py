"""The attack by shadow models (Shokri et al., 2017; on graphs Olatunji et al., 2021)."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from jaxtyping import Float, Int
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from fedtag.client.attacks.population import Population, drawn_per_class, induced
from fedtag.client.attacks.signals import Posteriors, Scores, sorted_posteriors
from fedtag.client.attacks.training import Recipe, posteriors, trained
from fedtag.common.randomness import derive_seed, numpy_generator

SHADOW_MODELS = 3
"""Shadow models behind one attack model."""

LEAST_MEMBERS = 10
"""Members of a shadow model under which nothing can be learned from it."""

HIDDEN = 32
STEPS = 300


@dataclass(eq=False)
class ShadowAttacker:
    """Whoever knows the shadow nodes with their labels and links, and how targets are trained.

    A shadow model is trained on as many shadow nodes of each class as the target has members, or on half of
    those there are. An attack model then learns to tell these from as many others of each class by their sorted
    posteriors. What was learned for a recipe and a seed serves every target of that recipe.

    Args:
        people: the audited nodes, of which only shadow nodes and the members' numbers by class are used.
    """

    people: Population
    _learned: dict[tuple[Recipe, int], Pipeline] = field(default_factory=dict)

    def __post_init__(self) -> None:
        people = self.people
        self._graph = induced(people.graph, people.shadow)
        self._labels: Int[np.ndarray, " nodes"] = self._graph.y.cpu().numpy()
        classes = people.graph.num_classes
        known = self._labels[self._labels >= 0]
        wanted = np.bincount(people.labels[people.members.cpu().numpy()], minlength=classes)
        self._counts = np.minimum(wanted, np.bincount(known, minlength=classes) // 2)

    @property
    def can_attack(self) -> bool:
        """Whether the shadow nodes suffice."""
        return int(self._counts.sum()) >= LEAST_MEMBERS and int((self._counts > 0).sum()) > 1

    def scores(self, said: Posteriors, recipe: Recipe, seed: int) -> Scores:
        """The attack model's probability that each node is a member, from its posteriors."""
        if (recipe, seed) not in self._learned:
            self._learned[recipe, seed] = self._attack_model(recipe, seed)
        return self._learned[recipe, seed].predict_proba(sorted_posteriors(said))[:, 1]

    def _attack_model(self, recipe: Recipe, seed: int) -> Pipeline:
        rows, truth = zip(
            *(self._examples(recipe, derive_seed(seed, "shadow", number)) for number in range(SHADOW_MODELS)),
            strict=True,
        )
        model = make_pipeline(
            StandardScaler(),
            MLPClassifier(
                (HIDDEN,), alpha=1e-3, max_iter=STEPS, random_state=derive_seed(seed, "attack model") % 2**32
            ),
        )
        with warnings.catch_warnings():
            # That it goes on improving a little after so many steps is nothing a reader can act upon.
            warnings.simplefilter("ignore", ConvergenceWarning)
            return model.fit(np.concatenate(rows), np.concatenate(truth))

    def _examples(self, recipe: Recipe, seed: int) -> tuple[Float[np.ndarray, "rows ranks"], np.ndarray]:
        generator = numpy_generator(seed, "members")
        everyone = np.ones(len(self._labels), bool)
        inside = drawn_per_class(self._labels, everyone, self._counts, generator)
        outside = drawn_per_class(self._labels, ~inside, self._counts, generator)
        learned = torch.from_numpy(inside).to(self._graph.x.device)
        rest = torch.from_numpy(~inside & ~outside).to(self._graph.x.device)
        said = posteriors(trained(replace(self._graph, train_mask=learned), rest, recipe, seed), self._graph)
        rows = sorted_posteriors(said)
        truth = np.repeat([1, 0], [inside.sum(), outside.sum()])
        return np.concatenate([rows[inside], rows[outside]]), truth
