"""What the server of FedGC saw, as targets of a privacy audit: sums of gradients by class, and updates.

The attacker knows candidates' features as sites keep them, their labels and links: those of an insider. Sums of
features are over all nodes that training may see, whatever is known of their labels, and tell nothing of membership.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from fedtag.client.attacks.population import Population
from fedtag.client.attacks.transcript import Candidates, Seen, Transcript, parted, transcript
from fedtag.client.condense.synthetic.sampling import whole_batch
from fedtag.client.methods.fedgc.preparation import kept_preparation, teacher_with, version_of
from fedtag.client.methods.side import Sites
from fedtag.common.methods.fedgc.names import CONDENSE_PHASE, GRADIENT, THETA, TRAIN_PHASE, unit
from fedtag.common.methods.fedgc.settings import FedGCConfig
from fedtag.common.synthetic.gradients import NODES_AT_ONCE, TINY, initial_weights, node_gradients, parts_of
from fedtag.common.wire.records import Content

Terms = Callable[[Seen, int, Bool[Tensor, " nodes"]], Float[Tensor, "candidates values"]]
"""From an exchange, the number of a site and some of its nodes: each node's own term in what the site sends."""
Observed = Callable[[Content, int], Float[Tensor, " values"]]
"""The sum over a class in what came of an exchange."""
Scale = Callable[[int], float]
"""By the number of a site's training nodes, what makes one of a node's term in what the site sends in clear."""


def transcripts(seen: Sequence[Seen], sites: Sites, people: Population) -> Sequence[Transcript]:
    """Attacks on class-wise gradients and on updates of self-training, of each site or group and summed over all."""
    found: list[Transcript] = []
    view, weights = _View(seen, sites, people), sites[0][1].config.aggregation.weights
    for phase, name, terms, observed, scale in (
        (
            CONDENSE_PHASE,
            "class gradients",
            view.class_terms,
            _class_sum,
            lambda size: 1 / unit(weights, size),
        ),
        (TRAIN_PHASE, "updates of self-training", view.update_terms, _update, float),
    ):
        exchanges = [one for one in seen if one.phase == phase and one.total]
        if exchanges:
            alone, together = view.attacked(exchanges, terms, observed, scale)
            # Under masks nothing came of any one site, and of groups only where the rule has any.
            members = [len(names) for one in exchanges for names in one.parts]
            if members:
                whose = "site" if max(members) == 1 else "group"
                found.append(transcript(f"{name}, of each {whose}", alone, people.graph.num_nodes))
            found.append(transcript(f"{name}, summed over sites", together, people.graph.num_nodes))
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
        self, exchanges: Sequence[Seen], terms: Terms, observed: Observed, scale: Scale
    ) -> tuple[list[Candidates], list[Candidates]]:
        """What exchanges tell of training and test nodes, class by class, since labels are known.

        Returns:
            by what each site sent or each group came to, and by what all came to.
        """
        people = self.people
        asked = (people.members | people.non_members).cpu().numpy()
        alone: list[Candidates] = []
        together: list[Candidates] = []
        for label in range(people.graph.num_classes):
            for rows in parted(np.flatnonzero(asked & (people.labels == label))):
                place = np.searchsorted(self.offsets, rows, side="right") - 1
                of_site = {one: rows[place == one] for one in np.unique(place).tolist()}
                whole = Candidates(np.concatenate(list(of_site.values())))
                parts: dict[tuple[str, ...], Candidates] = {}
                for exchange in exchanges:
                    own = {one: terms(exchange, one, self.mask(one, of_site[one])).cpu() for one in of_site}
                    whole.add(torch.cat(list(own.values())), observed(Content(exchange.total), label))
                    for names, sent in exchange.parts.items():
                        inside = [one for one in of_site if self.sites[one][0].site.name in names]
                        if not inside:
                            continue
                        if names not in parts:
                            parts[names] = Candidates(np.concatenate([of_site[one] for one in inside]))
                        size = sum(exchange.sizes.get(name, 1) for name in names)
                        term = torch.cat([own[one] for one in inside])
                        parts[names].add(term, observed(Content(sent), label) * scale(size))
                alone += parts.values()
                together.append(whole)
        return alone, together

    def mask(self, place: int, rows: Int[np.ndarray, " candidates"]) -> Bool[Tensor, " nodes"]:
        """Where candidates of a site stand in its own graph."""
        data = self.sites[place][0]
        mask = torch.zeros(data.graph.num_nodes, dtype=torch.bool)
        mask[rows - self.offsets[place]] = True
        return mask.to(data.device)

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
        terms = torch.cat([torch.cat([value.flatten(1) for value in one], 1) for one in found])
        if own.dp_mode == "off":
            return terms
        return terms * (own.dp_clip / terms.norm(dim=1, keepdim=True).clamp_min(TINY)).clamp_max(1)

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
