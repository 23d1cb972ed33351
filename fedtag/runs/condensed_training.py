"""Training on a released condensed graph, for whoever has got it, and what a folder of its own says of the model."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import torch

from fedtag.client.methods.fedgc.preparation import Prepared, prepared_by
from fedtag.client.methods.fedgc.tuning import fine_tune
from fedtag.client.run.opened_site import OpenedSite, opened_site
from fedtag.client.run.simulated import cache_folder
from fedtag.client.site.site import Site, name_of
from fedtag.client.train.scoring import subset_tallies
from fedtag.client.train.threads import limited_threads
from fedtag.common.config import RunConfig, flatten
from fedtag.common.errors import DataError
from fedtag.common.methods.fedgc.names import CONDENSED, TUNED
from fedtag.common.methods.fedgc.settings import FedGCConfig
from fedtag.common.methods.fedgc.student import student
from fedtag.common.models.classifier import NodeClassifier
from fedtag.common.models.parameters import Parameters, fingerprint, parameters_of
from fedtag.runs.prediction import check_fit
from fedtag.runs.progress import LOGGED, Progress
from fedtag.runs.simulation import check_device
from fedtag.server.methods.fedgc.release import CondensedRelease, read_condensed
from fedtag.server.tracking.release import card_digest, released_settings
from fedtag.server.tracking.run_directory import RunDirectory, require_free

ROUND = 1
"""A model of a condensed graph comes of no rounds; its card counts its training as one."""

AS_TRAINED = "as trained on the graph"
FITTED = "fitted to the folder"

Accuracies = Mapping[str, Mapping[str, float | None]]


@dataclass(frozen=True)
class TrainedOn:
    """A model of a condensed graph.

    Args:
        release: the graph.
        config: of the model.
        parameters: after training on the graph alone.
        accuracies: AS_TRAINED and, where there are training nodes, FITTED, on the folder's validation and test nodes;
            None where there are none.
    """

    release: CondensedRelease
    config: RunConfig
    parameters: Parameters
    accuracies: Accuracies


def train_on(
    path: Path,
    backbone: str,
    folder: Path | None = None,
    seed: int = 0,
    device: str = "auto",
    cache: Path | None = None,
    out: Path | None = None,
    progress: Progress = LOGGED,
) -> TrainedOn:
    """Train a model on a condensed graph; beside `out` only the cache of encoded texts is written.

    Args:
        path: condensed.safetensors, or a run directory with it.
        backbone: family of the model.
        folder: nodes and edges to which the model is fitted and by which it is scored; labels may be absent.
        seed: of the model.
        device: auto, cpu, cuda, ...
        cache: folder of encoded texts; that of simulations where None.
        out: new folder for the model, as `fedtag predict` reads it; none is written where None.
        progress: of the work on the folder.

    Raises:
        RunError: there is no condensed graph, or it cannot be used, or something lies in `out`.
        ConfigError: no such backbone or device.
        DataError: the folder breaks the contract, or its features are not those of the graph.
    """
    if out is not None:
        require_free(out)
    check_device(device)
    release = read_condensed(path)
    settings = {**flatten(release.config.to_nested()), "model.backbone": backbone, "seed": seed}
    config = RunConfig.from_flat(settings)
    classes, fedgc = len(release.card.classes), config.own(FedGCConfig)
    model = student(
        release.graph,
        config.model,
        classes,
        fedgc.model_steps,
        fedgc.model_rate,
        fedgc.weight_decay,
        seed,
    )
    parameters = parameters_of(model)
    accuracies = {} if folder is None else _scored(release, config, model, folder, device, cache, progress)
    trained = TrainedOn(release, config, parameters, accuracies)
    if out is not None:
        _write(trained, out)
    return trained


def _scored(
    release: CondensedRelease,
    config: RunConfig,
    model: NodeClassifier,
    folder: Path,
    device: str,
    cache: Path | None,
    progress: Progress,
) -> Accuracies:
    """Accuracies of the model on a folder, as it is and after it was fitted to the folder's training nodes."""
    card, called = release.card, name_of(folder)
    with tempfile.TemporaryDirectory(prefix="fedtag-") as workspace:
        site = Site(called, folder, Path(workspace), cache or cache_folder(), device)
        session = opened_site(site, config, progress.work(called), card.classes)
        check_fit(session, card.features, card.dimension)
        with limited_threads(session.data.graph.x.numel()):
            ready = prepared_by(release.teacher, session.data, session.context)
            if ready.x.shape[1] != card.dimension:
                raise DataError(
                    f"{folder}: features have {ready.x.shape[1]} numbers a node, but those of the condensed graph "
                    f"{card.dimension}; use the features or the encoder that the federation used."
                )
            model = model.to(session.data.device)
            found = {AS_TRAINED: _accuracies(session, model, ready)}
            if config.own(FedGCConfig).fine_tune_steps and session.data.sizes["train_nodes"]:
                fine_tune(model, ready, ROUND, session.data, session.context)
                found[FITTED] = _accuracies(session, model, ready)
            return found


@torch.no_grad()
def _accuracies(session: OpenedSite, model: NodeClassifier, ready: Prepared) -> dict[str, float | None]:
    tallies = subset_tallies(model(ready.x, session.data.adjacency), session.data.graph)
    return {subset: tally.accuracy for subset, tally in tallies.items()}


def _write(trained: TrainedOn, out: Path) -> None:
    """Write model.safetensors and model.json in a new folder."""
    card = trained.release.card
    entries = {
        "round": ROUND,
        "fingerprint": fingerprint(trained.parameters),
        "classes": list(card.classes),
        "dimension": card.dimension,
        "features": card.features,
        "scoring": TUNED if trained.config.own(FedGCConfig).fine_tune_steps else CONDENSED,
        **released_settings(trained.config),
    }
    RunDirectory(out).write_model(trained.parameters, {**entries, "digest": card_digest(entries)})
