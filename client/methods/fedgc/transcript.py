"""What the server of FedGC saw, as targets of a privacy audit: sums of gradients by class, and updates.

The attacker knows candidates' features as sites keep them, their labels and links: those of an insider. Sums of
features are over all nodes that training may see, whatever is known of their labels, and tell nothing of membership.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.nn import functional

from fedtag.client.attacks.population import Population
from fedtag.client.attacks.transcript import Candidates, Seen, Transcript, parted, transcript
from fedtag.client.condense.synthetic.sampling import whole_batch
from fedtag.client.methods.fedgc.preparation import kept_preparation, teacher_with, version_of
from fedtag.client.methods.side import Sites
from fedtag.common.methods.fedgc.names import CONDENSE_PHASE, GRADIENT, THETA, TRAIN_PHASE, unit
from fedtag.common.methods.fedgc.settings import FedGCConfig
from fedtag.common.synthetic.gradients import NODES_AT_ONCE, initial_weights, node_gradients, parts_of
from fedtag.common.wire.records import Content

Terms = Callable[[Seen, int, Bool[Tensor, " nodes"]], Float[Tensor, "candidates values"]]
"""From an exchange, the number of a site and some of its nodes: each node's own term in what the site sends."""
Observed = Callable[[Content, int], Float[Tensor, " values"]]
"""The sum over a class in what came of an exchange."""
Scale = Callable[[int], float]
"""By the number of a site's training nodes, what makes one of a node's term in what the site sends in clear."""


def transcripts(seen: Sequence[Seen], sites: Sites, people: Population) -> Sequence[Transcript]:
    """Attacks on class-wise gradients and on updates of self-training, of each site and summed over all."""
    found: list[Transcript] = []
    view, weights = _View(seen, sites, people), sites[0][1].config.aggregation.weights
    for phase, name, terms, observed, scale in (
        (CONDENSE_PHASE, "class gradients", view.class_terms, _class_sum, lambda size: 1 / unit(weights, size)),
        (TRAIN_PHASE, "updates of self-training", view.update_terms, _update, float),
    ):
        exchanges = [one for one in seen if one.phase == phase and one.total]
        if not exchanges:
            continue
        if all(one.single for one in exchanges):
            found.append(view.attacked(f"{name}, of each site", exchanges, terms, observed, scale))
        found.append(view.attacked(f"{name}, summed over sites", exchanges, terms, observed, None))
    return found


def _class_sum(content: Content, label: int) -> Float[Tensor, " values"]:
    sums = content.section(GRADIENT)
    return torch.cat([sums[str(place)][label].flatten() for place in range(len(sums))])


def _update(content: Content, label: int) -> Float[Tensor, " values"]:
    # A step goes against the gradient.
    return -torch.cat([value.flatten() for _, value in sorted(content.tensors.items())])


class _View:
    """What the attacker knows of sites, and how it reads exchanges."""

    def __init__(self, seen: Sequence[Seen], sites: Sites, people: Population) -> None:
        self.sites = sites
        self.people = people
        version = next((version_of(one.told) for one in seen if one.phase == CONDENSE_PHASE), "none")
        kept = [kept_preparation(data.site.state, version) for data, _ in sites]
        self.x = [
            # Nodes that a part has added come last.
            data.graph.x if one is None else one.x[: data.graph.num_nodes].to(data.device)
            for (data, _), one in zip(sites, kept, strict=True)
        ]
        sizes = [data.graph.num_nodes for data, _ in sites]
        self.offsets = np.cumsum([0, *sizes])

    def attacked(
        self, name: str, exchanges: Sequence[Seen], terms: Terms, observed: Observed, scale: Scale | None
    ) -> Transcript:
        """The attack on one kind of sums, class by class, since labels are known; without a scale on those in all."""
        candidates = [one for group in self.groups(scale is None) for one in parted(group)]
        for one in candidates:
            for exchange in exchanges:
                self.read(one, exchange, terms, observed, scale)
        return transcript(name, candidates, self.people.graph.num_nodes)

    def groups(self, summed: bool) -> Iterator[np.ndarray]:
        """Nodes of one label that may be behind one sum: training and test nodes, of one site or of all."""
        people = self.people
        asked = (people.members | people.non_members).cpu().numpy()
        whole = [(0, len(asked))] if summed else list(zip(self.offsets, self.offsets[1:], strict=False))
        for begin, end in whole:
            for label in range(people.graph.num_classes):
                chosen = np.flatnonzero(asked[begin:end] & (people.labels[begin:end] == label)) + begin
                if len(chosen):
                    yield chosen

    def read(
        self, group: Candidates, exchange: Seen, terms: Terms, observed: Observed, scale: Scale | None
    ) -> None:
        """Let candidates of one label know of an exchange; nothing where their site sent nothing."""
        label = int(self.people.labels[group.rows[0]])
        places = np.searchsorted(self.offsets, group.rows, side="right") - 1
        gradients = []
        for place in np.unique(places).tolist():
            mask = torch.zeros(self.sites[place][0].graph.num_nodes, dtype=torch.bool)
            mask[group.rows[places == place] - self.offsets[place]] = True
            gradients.append(terms(exchange, place, mask.to(self.sites[place][0].device)).cpu())
        if scale is None:
            total = observed(Content(exchange.total), label)
        else:
            name = self.sites[int(places[0])][0].site.name
            if name not in exchange.single:
                return
            total = observed(Content(exchange.single[name]), label) * scale(exchange.sizes[name])
        group.add(torch.cat(gradients), total.float())

    def class_terms(self, exchange: Seen, place: int, chosen: Bool[Tensor, " nodes"]) -> Tensor:
        data, context = self.sites[place]
        own = context.config.own(FedGCConfig)
        weights = initial_weights(
            own.matching_model,
            self.x[place].shape[1],
            own.hidden,
            data.graph.num_classes,
            torch.Generator().manual_seed(exchange.told.values[THETA]),
            data.device,
        )
        batch = whole_batch(self.x[place], data.training.adjacency, chosen, data.graph.y)
        found = [node_gradients(weights, part) for part in parts_of(batch)]
        return torch.cat([torch.cat([value.flatten(1) for value in one], 1) for one in found])

    def update_terms(self, exchange: Seen, place: int, chosen: Bool[Tensor, " nodes"]) -> Tensor:
        data, context = self.sites[place]
        model = teacher_with(exchange.told.section("model"), data, context)
        model.eval()
        values = [value for _, value in sorted(model.named_parameters())]
        losses = functional.cross_entropy(
            model(self.x[place], data.training.adjacency)[chosen], data.graph.y[chosen], reduction="none"
        )
        found = []
        for rows in torch.eye(losses.numel(), device=losses.device).split(NODES_AT_ONCE):
            parts = torch.autograd.grad(losses, values, rows, retain_graph=True, is_grads_batched=True)
            found.append(torch.cat([part.flatten(1) for part in parts], 1))
        return torch.cat(found)

