"""What was released, as targets of a privacy audit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from fedtag.audits.artefact import Released
from fedtag.audits.audited_sites import config_of
from fedtag.client.attacks.population import Population
from fedtag.client.attacks.targets import Target, released
from fedtag.client.prediction.outcome import ReleasedModel
from fedtag.client.run.method import method_of
from fedtag.client.run.opened_site import OpenedSite
from fedtag.common.errors import RunError
from fedtag.server.state.checkpoint import CHECKPOINT, CheckpointFolder
from fedtag.server.state.run_state import RunState
from fedtag.server.tracking.artefact import artefact_of
from fedtag.server.tracking.run_directory import is_run

RELEASE, SELF_TRAINED = "release", "self-trained"


def kept_by_server(path: Path | None) -> Mapping[str, Tensor]:
    """What the server of a run has in its newest checkpoint, by section; nothing without one that can be read."""
    if path is None or not is_run(path):
        return {}
    try:
        found = RunState.load(CheckpointFolder(path / CHECKPOINT, config_of(path).decisive()))
    except RunError:
        return {}
    return {} if found is None or found[0].state is None else found[0].state.tensors


def released_targets(
    found: Released | None,
    kept: Mapping[str, Tensor],
    sessions: Sequence[OpenedSite],
    people: Population,
) -> tuple[Target, ...]:
    """Every way to ask what was released: the model, and what lies beside it; and what the server has kept of both.

    Args:
        found: None where nothing was released.
        kept: by the server, of the same run.
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
    beside = method.targets(found.tensors, kept, sites, people)
    if not any(one.of == SELF_TRAINED for one in beside):
        hidden = [one for one in method.targets(kept, {}, sites, people) if one.of == SELF_TRAINED]
        targets += [replace(one, name=f"{one.name}, not released") for one in hidden]
    return (*targets, *beside)


def targets_over_rounds(
    path: Path | None,
    found: Released | None,
    kept: Mapping[str, Tensor],
    sessions: Sequence[OpenedSite],
    people: Population,
) -> Iterator[tuple[int, Sequence[Target]]]:
    """What a run kept of its scored rounds, one round after the other.

    Each is asked as if it had been released in place of the last one.

    Args:
        path: the run directory.
        found: what it released.
        kept: what its server has kept.
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
        yield number, method.targets(tensors, {**kept, **found.tensors}, sites, people)
