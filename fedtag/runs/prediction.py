"""Predicting with a released model for a folder."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
from numpy.typing import NDArray

from fedtag.client.data.assembly import FOLDER_FEATURES
from fedtag.client.data.text_graph import TextGraph
from fedtag.client.prediction.outcome import Prediction, ReleasedModel
from fedtag.client.prediction.table import table_batches, table_schema
from fedtag.client.run.method import method_of as client_method_of
from fedtag.client.run.opened_site import OpenedSite, opened_site
from fedtag.client.site.site import Site, name_of
from fedtag.client.site.whole_file import write_whole
from fedtag.client.text.encoder import Encoder
from fedtag.client.train.capacity import memory_explained
from fedtag.client.train.threads import limited_threads
from fedtag.common.config import RunConfig
from fedtag.common.config.combinations import excluded_combinations
from fedtag.common.errors import ConfigError, DataError, RunError
from fedtag.common.homes import cache_folder
from fedtag.common.settings.train import AUTO
from fedtag.common.wording.features import features_words
from fedtag.runs.progress import LOGGED, Progress
from fedtag.runs.simulation import check_device, model_folders
from fedtag.server.methods.assembly import method_of
from fedtag.server.protocol.context import ServerContext
from fedtag.server.tracking.release import Release, read_release
from fedtag.server.tracking.run_directory import RunDirectory

SUFFIX = ".parquet"
CONTRACT_STEMS = ("nodes", "edges", "cross_edges")


@dataclass(frozen=True)
class Predicted:
    """What was predicted for a folder, and with what; `scoring` is the path that did."""

    release: Release
    data: TextGraph
    prediction: Prediction
    scoring: str
    facts: Mapping[str, Any]

    @property
    def classes(self) -> NDArray[np.int64]:
        """Position of the predicted class of every node."""
        return self.prediction.classes.cpu().numpy()


def predict(
    run: Path,
    folder: Path,
    cache: Path | None = None,
    device: str = "auto",
    evidence: bool = True,
    name: str | None = None,
    workspace: Path | None = None,
    out: Path | None = None,
    progress: Progress = LOGGED,
) -> Predicted:
    """Predictions for every node of a folder; beside `out` only the cache of encoded texts is written.

    Args:
        run: a run directory, or a folder with model.safetensors and model.json.
        folder: nodes and edges; labels, splits and the names of the classes may be absent.
        cache: folder of encoded texts; that of simulations where None.
        device: auto, cpu, cuda, ...
        evidence: also what each prediction rests on, where the method selects texts.
        name: of the site in the run, by which large neighbourhoods are sampled; the folder's own where None.
        workspace: of the site in the run, with what it kept to itself there and predicts by, such as features that
            others added to; None: it predicts without.
        out: Parquet file for the predictions; none is written where None.
        progress: of the work on the folder.

    Raises:
        RunError: there is no released model, or it cannot be used.
        DataError: the folder breaks the contract, or the model was made for other classes or features.
        ConfigError: `out` cannot be written, no such device, a name that a site cannot have, or a workspace for a
            model that needs none.
    """
    if out is not None:
        check_out(out, folder)
    check_device(device)
    release = read_release(RunDirectory.open_release(run))
    card, config = release.card, taken_in_parts(release.config)
    paths = method_of(config).scoring_paths(ServerContext(config))
    if card.scoring not in paths:
        raise RunError(
            f"the way of scoring '{card.scoring}' in {run / 'model.json'} is none of {', '.join(paths)}; "
            "restore the file from the run"
        )
    if workspace is not None and not keeps(config):
        raise ConfigError(
            f"workspace={workspace}: sites keep nothing to themselves by which this model predicts: leave it out"
        )
    called = name if name is not None else name_of(folder)
    with tempfile.TemporaryDirectory(prefix="fedtag-") as made:
        models = model_folders(run)
        site = Site(called, folder, Path(made), cache or cache_folder(), device, models=models)
        past = None if workspace is None else replace(site, workspace=workspace).state
        session = opened_site(site, config, progress.work(called), card.classes, past, on_host=True)
        check_fit(session, card.features, card.dimension)
        dimension = session.data.graph.x.shape[1]
        if dimension != card.dimension:
            raise DataError(wrong_width(folder, dimension, card.dimension))
        released = ReleasedModel(release.parameters, card.round, card.scoring)
        with limited_threads(session.data.graph.x.numel()), memory_explained(config, session.data.device):
            method = client_method_of(config)
            prediction = method.predict(released, session.data, session.context, evidence)
        scoring = prediction.path or card.scoring
        facts = facts_of(release, scoring, session)
        predicted = Predicted(release, session.data.text_graph, prediction, scoring, facts)
    if out is not None:
        write_predictions(predicted, out)
    return predicted


def taken_in_parts(config: RunConfig) -> RunConfig:
    """Settings by which a graph that does not fit is predicted in parts, if the run neither had nor forbids these."""
    if config.train.batch_size:
        return config
    parts = config.model_copy(update={"train": config.train.model_copy(update={"batch_size": AUTO})})
    return config if excluded_combinations(parts) else parts


def keeps(config: RunConfig) -> bool:
    """Whether a site predicts with something that it keeps to itself."""
    return config.spec.keeps(config) or any(part.keeps(config) for part in config.part_specs)


def check_fit(session: OpenedSite, features: str, dimension: int) -> None:
    """Raise DataError with all that is wrong with a folder, and all that keeps it from what was released.

    Args:
        session: of the folder.
        features: the kind of features that what was released reads.
        dimension: numbers of a node in them.
    """
    problems: list[str] = []
    try:
        _ = session.data.text_graph
    except DataError as error:
        problems += error.problems
    if session.site.folder.is_dir() and (fault := misfit(session, features, dimension)):
        problems.append(fault)
    if problems:
        raise DataError(problems)


def misfit(session: OpenedSite, wanted: str, dimension: int) -> str:
    """What is wrong with the features of a folder that may have other faults, too; empty where they fit."""
    folder, encoder = session.site.folder, session.context.config.text.encoder
    file = folder / FOLDER_FEATURES
    if file.is_file() and wanted != FOLDER_FEATURES:
        return (
            f"{folder} has {FOLDER_FEATURES}, but the model reads {features_words(wanted, encoder)}; "
            f"predict on a copy of the folder without {FOLDER_FEATURES}."
        )
    if file.is_file():
        width = stored_width(file)
        return "" if width in (None, dimension) else wrong_width(folder, width, dimension)
    if wanted == FOLDER_FEATURES:
        return (
            f"{folder} has no {FOLDER_FEATURES}, but the model was trained on features from such a file; "
            f"add it, with the same {dimension} columns as in training."
        )
    own = session.data.features_from
    if own == wanted:
        return ""
    return (
        f"the model was trained on {features_words(wanted, encoder)}, and {session.site.model(encoder)} is here the "
        f"{own}; put the files here that it was trained with."
    )


def stored_width(file: Path) -> int | None:
    """Columns of a matrix on disk; None where it is none, which reading its folder tells."""
    try:
        shape = np.load(file, mmap_mode="r", allow_pickle=False).shape
    except (OSError, ValueError, EOFError):
        return None
    return int(shape[1]) if len(shape) == 2 else None


def wrong_width(folder: Path, found: int | None, wanted: int) -> str:
    """How features of another width are told of."""
    return (
        f"{folder}: features have {found} numbers a node, but the model reads {wanted}; "
        "use the features or the encoder that the model was trained with."
    )


def facts_of(release: Release, scoring: str, session: OpenedSite) -> dict[str, Any]:
    """What the metadata of the table says of its making."""
    card, config = release.card, release.config
    facts: dict[str, Any] = {
        "version": metadata.version("fedtag"),
        "method": config.method,
        "model": card.fingerprint,
        "round": card.round,
        "scoring": scoring,
        "classes": list(card.classes),
        "features": card.features,
        "site": session.site.name,
    }
    if card.features != FOLDER_FEATURES:
        name = session.site.model(config.text.encoder)
        encoder = Encoder(name, str(session.data.device), config.text.dtype)
        facts |= {"encoder_revision": encoder.revision, "encoder_dtype": encoder.dtype}
    return facts


def check_out(out: Path, folder: Path) -> None:
    """Raise ConfigError where predictions cannot be written so, before any work is done."""
    if out.suffix != SUFFIX or out.is_dir():
        raise ConfigError(f"out={out}: name a file that ends with {SUFFIX}")
    if out.exists() and not out.is_file():
        raise ConfigError(f"out={out} is no regular file; choose another name")
    above = next(folder for folder in out.absolute().parents if folder.exists())
    if not above.is_dir():
        raise ConfigError(f"out={out} lies in {above}, which is no folder; choose another name")
    if out.stem in CONTRACT_STEMS and out.resolve().parent == folder.resolve():
        raise ConfigError(f"out={out} is a file of the folder itself; choose another name")


def write_predictions(predicted: Predicted, out: Path) -> None:
    """Write the table, in a folder that is made where it is missing.

    It appears whole or not at all, and the same predictions give the same bytes.
    """
    schema = table_schema(predicted.data, predicted.facts)
    sink = pa.BufferOutputStream()
    with parquet.ParquetWriter(sink, schema, compression="zstd") as writer:
        for batch in table_batches(predicted.data, predicted.prediction, predicted.scoring, schema):
            writer.write_batch(batch)
    write_whole(out, sink.getvalue().to_pybytes())
