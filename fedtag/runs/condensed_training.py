"""Training on what was released beside a model, for whoever has got it, and what a folder says of that."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor, nn

from fedtag.client.run.method import method_of
from fedtag.client.run.opened_site import OpenedSite, opened_site
from fedtag.client.site.site import Site, name_of
from fedtag.client.train.scoring import subset_tallies
from fedtag.client.train.threads import limited_threads
from fedtag.common.config import RunConfig, flatten
from fedtag.common.errors import DataError, RunError
from fedtag.common.homes import cache_folder
from fedtag.common.models.parameters import Parameters, fingerprint, parameters_of
from fedtag.runs.prediction import check_fit
from fedtag.runs.progress import LOGGED, Progress
from fedtag.runs.simulation import check_device, model_folders
from fedtag.server.methods.assembly import method_of as server_method_of
from fedtag.server.protocol.context import ServerContext
from fedtag.server.tracking.artefact import Beside, artefact_at
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

    release: Beside
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
    release = _released(path)
    settings = {**flatten(release.about.config.to_nested()), "model.backbone": backbone, "seed": seed}
    config = RunConfig.from_flat(settings)
    model = method_of(config).trained_on(release.tensors, config, len(release.about.classes))
    parameters = parameters_of(model)
    accuracies = (
        {}
        if folder is None
        else _scored(release, config, model, folder, device, cache, progress, model_folders(path))
    )
    trained = TrainedOn(release, config, parameters, accuracies)
    if out is not None:
        _write(trained, out)
    return trained


def _released(path: Path) -> Beside:
    kind = artefact_at(path)
    if kind is None:
        raise RunError(
            f"{path} holds nothing that a model can be trained on: name the file that a run released beside its model, "
            "or its run directory"
        )
    return kind.read(path)


def _scored(
    release: Beside,
    config: RunConfig,
    model: nn.Module,
    folder: Path,
    device: str,
    cache: Path | None,
    progress: Progress,
    models: tuple[Path, ...],
) -> Accuracies:
    """Accuracies of the model on a folder, as it is and after it was fitted to the folder's training nodes."""
    about, called = release.about, name_of(folder)
    with tempfile.TemporaryDirectory(prefix="fedtag-") as workspace:
        site = Site(called, folder, Path(workspace), cache or cache_folder(), device, models=models)
        session = opened_site(site, config, progress.work(called), about.classes)
        check_fit(session, about.features, about.dimension)
        with limited_threads(session.data.graph.x.numel()):
            width = session.data.graph.x.shape[1]
            if width != about.dimension:
                raise DataError(
                    f"{folder}: features have {width} numbers a node, but those of the condensed graph "
                    f"{about.dimension}; use the features or the encoder that the federation used."
                )
            said = method_of(config).fits(
                model.to(session.data.device), release.tensors, session.data, session.context
            )
            return {
                when: _accuracies(session, logits)
                for when, (_, logits) in zip((AS_TRAINED, FITTED), said, strict=False)
            }


def _accuracies(session: OpenedSite, logits: Tensor) -> dict[str, float | None]:
    tallies = subset_tallies(logits, session.data.graph)
    return {subset: tally.accuracy for subset, tally in tallies.items()}


def _write(trained: TrainedOn, out: Path) -> None:
    """Write model.safetensors and model.json in a new folder."""
    about, config = trained.release.about, trained.config
    entries = {
        "round": ROUND,
        "fingerprint": fingerprint(trained.parameters),
        "classes": list(about.classes),
        "dimension": about.dimension,
        "features": about.features,
        "scoring": server_method_of(config).scoring_paths(ServerContext(config))[0],
        **released_settings(config),
    }
    RunDirectory(out).write_model(trained.parameters, {**entries, "digest": card_digest(entries)})
