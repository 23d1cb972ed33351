"""The condensed graph on the server: how it begins, and how it moves with what a round's sums came to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from fedtag.common.config import RunConfig
from fedtag.common.methods.fedgc.names import (
    COUNTS,
    FEATURES,
    GRADIENT,
    LABELLED,
    NODES,
    SEEN,
    SQUARES,
    TRAINED,
)
from fedtag.common.methods.fedgc.settings import FedGCConfig
from fedtag.common.methods.fedgc.student import student
from fedtag.common.models.classifier import NodeClassifier
from fedtag.common.randomness import derive_seed, torch_generator
from fedtag.common.synthetic.adjacency import LinkNetwork, link_network
from fedtag.common.synthetic.condensed import Condensed
from fedtag.common.synthetic.gradients import initial_weights
from fedtag.common.synthetic.initial import gaussian_features
from fedtag.common.synthetic.labels import condensed_labels, condensed_size
from fedtag.common.synthetic.learner import Learner, Pace

LEAST_DEVIATION = 1e-3


@dataclass(frozen=True, eq=False)
class Sums:
    """Sums over the nodes of all clients that contributed.

    Args:
        gradients: of each weight of the matching model, over the labelled nodes of each class.
        counts: labelled nodes behind these, by class.
        labelled: all nodes whose labels are learned, pseudo-labelled ones included, by class.
        trained: the training nodes among these, by class.
        nodes: all nodes.
        seen: nodes behind the sums of features.
        features, squares: over these; None where they were not asked for.
    """

    gradients: tuple[Float[Tensor, "classes ..."], ...]
    counts: Float[Tensor, " classes"]
    labelled: Int[Tensor, " classes"]
    trained: Int[Tensor, " classes"]
    nodes: int
    seen: int = 0
    features: Float[Tensor, " dim"] | None = None
    squares: Float[Tensor, " dim"] | None = None

    @classmethod
    def of(cls, step: Mapping[str, Tensor], scale: float) -> Sums:
        """From the mean of what clients sent.

        Args:
            step: by the names of `fedtag.common.methods.fedgc.names`; where counts carry noise they are those of the
                labelled and of the training nodes, too.
            scale: by which the mean is multiplied to be a sum again.
        """
        total = {name: value.double() * scale for name, value in step.items()}
        places = sorted(int(name.removeprefix(f"{GRADIENT}/")) for name in total if name.startswith(GRADIENT))
        # Sums of fixed-point numbers miss whole ones by a little.
        counts = total[COUNTS].round().clamp_min(0)
        return cls(
            tuple(total[f"{GRADIENT}/{place}"] for place in places),
            counts,
            total.get(LABELLED, counts).round().long(),
            total.get(TRAINED, counts).round().long(),
            round(float(total[NODES])),
            round(float(total[SEEN])) if SEEN in total else 0,
            total.get(FEATURES),
            total.get(SQUARES),
        )

    @property
    def matched(self) -> Bool[Tensor, " classes"]:
        """The classes that have a gradient."""
        return self.counts > 0

    def gradient(self) -> tuple[Float[Tensor, "classes ..."], ...]:
        """∇L_c = Σ_j n_j(c) / n(c) ∇L_j,c (Eq. 3); 0 for classes that are not matched."""
        by = self.counts.clamp_min(1)
        return tuple((value / by.view(-1, *[1] * (value.dim() - 1))).float() for value in self.gradients)


def begun(sums: Sums, config: RunConfig) -> dict[str, Tensor]:
    """The tensors of a condensed graph before the first step: Y' by the labels that are learned, X' from a Gaussian.

    Where training nodes are among those that are learned from, their classes decide. X' has the mean and the deviation
    of the clients' nodes, of which the server knows no single one.
    """
    assert sums.features is not None
    assert sums.squares is not None
    behind = max(sums.seen, 1)
    mean = sums.features / behind
    deviation = (sums.squares / behind - mean**2).clamp_min(0).sqrt()
    if not bool((deviation > 0).any()):
        deviation = torch.full_like(deviation, LEAST_DEVIATION)
    shown = sums.trained if bool(sums.trained.any()) else sums.labelled
    y = condensed_labels(shown, condensed_size(sums.nodes, config.ratio))
    generator = torch_generator(config.seed, "condensed features")
    x = gaussian_features(mean.float(), deviation.float(), y.numel(), generator)
    links = {}
    if config.own(FedGCConfig).links == "learned":
        network = link_network(
            mean.numel(), config.own(FedGCConfig).hidden, torch_generator(config.seed, "condensed links")
        )
        links = {f"links.{name}": value.detach().clone() for name, value in network.named_parameters()}
    start = {"x": x, "y": y, "matched": torch.tensor(0), "deviation": deviation.mean().float()}
    return {**start, **links}


def learner(tensors: Mapping[str, Tensor], config: RunConfig) -> Learner:
    """The condensed graph in the course of learning, from its tensors."""
    settings, x = config.own(FedGCConfig), tensors["x"]
    links = LinkNetwork(x.shape[1], settings.hidden) if settings.links == "learned" else None
    pace = Pace(
        settings.distance,
        settings.feature_steps,
        settings.adjacency_steps,
        settings.feature_rate * float(tensors["deviation"]),
        settings.adjacency_rate,
    )
    found = Learner(x, tensors["y"], links, pace)
    found.restore(tensors)
    return found


def moved(
    tensors: Mapping[str, Tensor], sums: Sums, theta: int, config: RunConfig
) -> tuple[dict[str, Tensor], list[float]]:
    """The tensors of the condensed graph after the steps of a round, and the distance of gradients before each.

    Args:
        tensors: before it.
        sums: of the round.
        theta: seed of its matching model.
        config: of the run.
    """
    settings, classes = config.own(FedGCConfig), sums.counts.numel()
    weights = initial_weights(
        settings.matching_model,
        tensors["x"].shape[1],
        settings.hidden,
        classes,
        torch.Generator().manual_seed(theta),
    )
    graph, wanted, shares = learner(tensors, config), sums.gradient(), sums.matched.float()
    distances = [graph.match(weights, wanted, shares) for _ in range(settings.steps)]
    return {**graph.tensors(), "deviation": tensors["deviation"]}, distances


def as_it_stands(tensors: Mapping[str, Tensor], config: RunConfig) -> Condensed:
    """The condensed graph that would be released now."""
    return learner(tensors, config).result(config.own(FedGCConfig).threshold)


def taught(graph: Condensed, classes: int, config: RunConfig) -> NodeClassifier:
    """The model that a condensed graph makes of the run's backbone; the same initial values in every round."""
    settings = config.own(FedGCConfig)
    return student(
        graph,
        config,
        classes,
        settings.model_steps,
        settings.model_rate,
        settings.weight_decay,
        derive_seed(config.seed, "student"),
    )
