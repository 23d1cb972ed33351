"""What was released, as targets of a privacy audit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from fedtag.audits.artefact import Artefact
from fedtag.client.attacks.population import Population
from fedtag.client.attacks.targets import Target, released, trained_on_condensed
from fedtag.client.methods.fedgc.preparation import Prepared, kept_preparation, teacher_with
from fedtag.client.parts.neighbour_exchange.method import check_rows, exchanged, kept_exchange
from fedtag.client.prediction.outcome import ReleasedModel
from fedtag.client.run.method import method_of
from fedtag.client.run.opened_site import OpenedSite
from fedtag.common.methods.fedgc.names import CONDENSED, TUNED
from fedtag.common.parts.neighbour_exchange.settings import exchange_settings
from fedtag.common.synthetic.condensed import Condensed
from fedtag.server.methods.fedgc.states import read_states

RAW = "condensed graph, asked with raw features"
KEPT = "condensed graph, asked with the features that sites keep"
TEACHER = "self-trained model"


def released_targets(
    artefact: Artefact | None, sessions: Sequence[OpenedSite], people: Population
) -> tuple[Target, ...]:
    """Every way to ask what was released: the model, the self-trained model beside it, the condensed graph.

    Args:
        artefact: None where nothing was released.
        sessions: of the sites, in the order of the population.
        people: the audited nodes.

    Raises:
        DataError: what a site has kept is of another folder.
    """
    if artefact is None:
        return ()
    targets = []
    if artefact.model is not None:
        card, method = artefact.model.card, method_of(artefact.model.config)
        # A site fits the model to its own nodes after the release, and gives nobody what comes of it.
        path = CONDENSED if card.scoring == TUNED else card.scoring
        model = ReleasedModel(artefact.model.parameters, card.round, path)
        logits = torch.cat(
            [method.predict(model, session.data, session.context).logits for session in sessions]
        )
        targets.append(released(f"released model ({artefact.model.config.method})", logits))
    if artefact.teacher:
        targets.append(self_trained(artefact.teacher, sessions))
    if artefact.condensed is not None:
        targets += of_condensed(artefact.condensed.graph, artefact.teacher, sessions, people)
    return tuple(targets)


def targets_over_rounds(
    path: Path | None, artefact: Artefact | None, sessions: Sequence[OpenedSite], people: Population
) -> Iterator[tuple[int, Sequence[Target]]]:
    """What a run kept of its scored rounds, one round after the other.

    Each is asked as if it had been released in place of the last one: a condensed graph with raw features and with
    those that the sites keep, the model of self-training with the features that it was trained on.

    Args:
        path: the run directory.
        artefact: what it released.
        sessions: of the sites, in the order of the population.
        people: the audited nodes.

    Raises:
        RunError: a state is damaged, or of another run.
        DataError: what a site has kept is of other data.
    """
    if path is None or artefact is None:
        return
    for state in read_states(path, artefact.config, artefact.dimension, len(artefact.classes)):
        if state.graph is None:
            yield state.round, (self_trained(state.teacher, sessions),)
            continue
        yield state.round, of_condensed(state.graph, artefact.teacher, sessions, people)


@torch.no_grad()
def self_trained(teacher: Mapping[str, Tensor], sessions: Sequence[OpenedSite]) -> Target:
    """The model of self-training, asked with the features that it was trained on as far as they are at hand."""
    logits = []
    for session in sessions:
        data, context = session.data, session.context
        if exchange_settings(context.config).mode != "off":
            kept = kept_exchange(kept_state(session))
            if kept is None:
                data = exchanged(data, context)
            else:
                check_rows(kept, data)
                data = data.with_features(kept.to(data.device))
        logits.append(teacher_with(teacher, data, context)(data.graph.x, data.adjacency))
    return released(TEACHER, torch.cat(logits), "self-trained")


def of_condensed(
    graph: Condensed, teacher: Mapping[str, Tensor], sessions: Sequence[OpenedSite], people: Population
) -> list[Target]:
    """Models of the condensed graph, asked with raw features; and with those that the sites keep, where all do."""
    found = [kept_preparation(kept_state(session), teacher) for session in sessions]
    kept: list[Prepared] = [one for one in found if one is not None]
    if len(kept) < len(sessions):
        return [trained_on_condensed(RAW, "condensed", people, graph, people.graph.x)]
    for session, one in zip(sessions, kept, strict=True):
        check_rows(one.x, session.data)
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


def kept_state(session: OpenedSite) -> Path:
    """Where a simulated site, and one whose workspace is its folder, keeps what it made in a run."""
    return replace(session.site, workspace=session.site.folder).state
