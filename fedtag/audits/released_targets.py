"""What was released, as targets of a privacy audit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

from fedtag.audits.artefact import Released
from fedtag.client.attacks.population import Population
from fedtag.client.attacks.targets import Target, released
from fedtag.client.prediction.outcome import ReleasedModel
from fedtag.client.run.method import method_of
from fedtag.client.run.opened_site import OpenedSite
from fedtag.server.tracking.artefact import artefact_of


def released_targets(
    found: Released | None, sessions: Sequence[OpenedSite], people: Population
) -> tuple[Target, ...]:
    """Every way to ask what was released: the model, and what lies beside it.

    Args:
        found: None where nothing was released.
        sessions: of the sites, in the order of the population.
        people: the audited nodes.

    Raises:
        DataError: what a site has kept is of another folder.
    """
    if found is None:
        return ()
    method = method_of(found.about.config)
    targets = []
    if found.model is not None:
        card = found.model.card
        model = ReleasedModel(found.model.parameters, card.round, method.audited_path(card.scoring))
        logits = torch.cat(
            [method.predict(model, session.data, session.context).logits for session in sessions]
        )
        targets.append(released(f"released model ({found.about.config.method})", logits))
    sites = [(session.data, session.context) for session in sessions]
    return (*targets, *method.targets(found.tensors, {}, sites, people))


def targets_over_rounds(
    path: Path | None, found: Released | None, sessions: Sequence[OpenedSite], people: Population
) -> Iterator[tuple[int, Sequence[Target]]]:
    """What a run kept of its scored rounds, one round after the other.

    Each is asked as if it had been released in place of the last one.

    Args:
        path: the run directory.
        found: what it released.
        sessions: of the sites, in the order of the population.
        people: the audited nodes.

    Raises:
        RunError: a state is damaged, or of another run.
        DataError: what a site has kept is of other data.
    """
    if path is None or found is None or not found.about.config.spec.artefact:
        return
    method, sites = method_of(found.about.config), [(session.data, session.context) for session in sessions]
    for number, tensors in artefact_of(found.about.config.spec).states(path, found.about):
        yield number, method.targets(tensors, found.tensors, sites, people)
