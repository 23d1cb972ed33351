"""What FedGC releases beside the model, as targets of a privacy audit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from fedtag.client.attacks.population import Population
from fedtag.client.attacks.targets import Target, released, trained_on_condensed
from fedtag.client.methods.fedgc.preparation import Prepared, kept_preparation, teacher_with, version_with
from fedtag.client.methods.side import Sites
from fedtag.common.errors import DataError
from fedtag.common.methods.fedgc.names import TEACHER
from fedtag.common.synthetic.condensed import Condensed
from fedtag.common.wire.records import Content

GRAPH = "graph"
RAW = "condensed graph, asked with raw features"
KEPT = "condensed graph, asked with the features that sites keep"
SELF_TRAINED = "self-trained model"


def asked_of(
    tensors: Mapping[str, Tensor], known: Mapping[str, Tensor], sites: Sites, people: Population
) -> Sequence[Target]:
    """The self-trained model and the condensed graph, as far as they are among the tensors; see `targets`."""
    teacher, graph = Content(tensors).section(TEACHER), Content(tensors).section(GRAPH)
    found = [self_trained(teacher, sites)] if teacher else []
    if graph:
        condensed = Condensed.from_tensors(graph, copies=False)
        found += of_condensed(condensed, teacher or Content(known).section(TEACHER), sites, people)
    return found


@torch.no_grad()
def self_trained(teacher: Mapping[str, Tensor], sites: Sites) -> Target:
    """The model of self-training, asked with the sites' features."""
    logits = [teacher_with(teacher, data, context)(data.graph.x, data.adjacency) for data, context in sites]
    return released(SELF_TRAINED, torch.cat(logits), "self-trained")


def of_condensed(
    graph: Condensed, teacher: Mapping[str, Tensor], sites: Sites, people: Population
) -> list[Target]:
    """Models of the condensed graph, asked with raw features; and with those that the sites keep, where all do."""
    found = [kept_preparation(data.site.state_in_folder, version_with(teacher)) for data, _ in sites]
    kept: list[Prepared] = [one for one in found if one is not None]
    if len(kept) < len(sites):
        return [trained_on_condensed(RAW, "condensed", people, graph, people.graph.x)]
    for (data, _), one in zip(sites, kept, strict=True):
        if one.x.shape != data.graph.x.shape:
            raise DataError(
                f"{data.site.name} has kept features of {tuple(one.x.shape)} (nodes, numbers), but {data.site.folder} "
                f"has {tuple(data.graph.x.shape)}: give the folder with which the run was made"
            )
    device = people.graph.x.device
    labelled = torch.cat([one.labelled for one in kept]).to(device)
    pseudo = labelled & ~people.members
    # Without any there is no second group of members.
    guessed = pseudo if bool(pseudo.any()) else None
    x = torch.cat([one.x for one in kept]).to(device)
    return [
        trained_on_condensed(RAW, "condensed", people, graph, people.graph.x, guessed),
        trained_on_condensed(KEPT, "insider", people, graph, x, guessed),
    ]
