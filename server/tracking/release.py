"""The released model of a run: its parameters, and all that must be known to predict with them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from torch import Tensor

from fedtag.common.config import RunConfig, flatten, nested
from fedtag.common.config.catalogue import installed_tables
from fedtag.common.errors import ConfigError, RunError
from fedtag.common.methods.spec import METHODS
from fedtag.common.models.parameters import fingerprint
from fedtag.common.models.spec import BACKBONES
from fedtag.common.parts.spec import PARTS
from fedtag.server.tracking.recorded import check_there
from fedtag.server.tracking.run_directory import MODEL, MODEL_CARD, RunDirectory

SHARED = ("method", "seed", "model", "text")
BATCHING = ("train.batch-size", "train.fan-out")
"""They decide in which order numbers are added up, and what a site draws that fits a model to itself."""
REMEDY = "restore both files from the run"


class Card(BaseModel):
    """The entries of model.json that a prediction needs, beside the settings.

    Args:
        round: of the model.
        fingerprint: of its parameters.
        classes: in the order of the outputs.
        dimension: of the node features.
        features: where these come from.
        scoring: the way of scoring that validation chose.
        digest: of these entries and the settings, see `card_digest`.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    round: Annotated[int, Field(ge=1)]
    fingerprint: str
    classes: Annotated[tuple[str, ...], Field(min_length=1)]
    dimension: Annotated[int, Field(ge=1)]
    features: str
    scoring: str
    digest: str


@dataclass(frozen=True)
class Release:
    """A released model.

    Args:
        card: what model.json says of it.
        config: defaults, but for the settings that decide what the model predicts.
        parameters: of model.safetensors.
    """

    card: Card
    config: RunConfig
    parameters: Mapping[str, Tensor]


def released_settings(config: RunConfig) -> dict[str, Any]:
    """The settings that decide what a model predicts, as tables: what belongs to the model beside its parameters.

    The seed is among them, because large neighbourhoods are sampled by it; nothing tells where data lies.
    """
    tables = config.to_nested()
    deciding = (config.spec, *config.part_specs, BACKBONES.get(config.model.backbone))
    own = [spec.name for spec in deciding if spec.settings is not None]
    parts = ["parts"] if config.parts else []
    flat = config.to_flat()
    keys = [*config.spec.released_with, *(key for part in config.part_specs for key in part.released_with)]
    if config.train.batch_size:
        keys += BATCHING
    shared = nested({key: flat[key] for key in keys})
    return {**{name: tables[name] for name in (*SHARED, *parts, *own)}, **shared}


def settings_names() -> tuple[str, ...]:
    """Names under which model.json may hold settings: shared tables, and those of what is installed."""
    keys = [key for spec in METHODS.usable().values() for key in spec.released_with]
    keys += [*BATCHING, *(key for spec in PARTS.usable().values() for key in spec.released_with)]
    shared = {key.partition(".")[0] for key in keys}
    return (*SHARED, "parts", *sorted(shared), *installed_tables())


def card_digest(entries: Mapping[str, Any]) -> str:
    """SHA-256 (hex) of all entries of model.json that decide what the model predicts.

    The fingerprint of the parameters is among them, so that the meaning of the outputs (classes, scoring,
    method, settings) belongs to these parameters. It tells accidents and edits by hand; whoever forges a
    model can compute it anew.
    """
    names = {*Card.model_fields, *settings_names()} - {"digest"}
    bound = {name: entries[name] for name in names if name in entries}
    return hashlib.sha256(json.dumps(bound, sort_keys=True).encode()).hexdigest()


def releasing() -> list[str]:
    """The methods that can be used and release a model."""
    return [name for name, spec in METHODS.usable().items() if spec.traits.releases != "nothing"]


def read_release(run: RunDirectory) -> Release:
    """The released model of a run, from model.json and model.safetensors alone.

    Raises:
        RunError: there is none, or one of the files is damaged, belongs to another model or lacks something.
        ConfigError: what it is made of is not there.
    """
    if run.finished and not any((run.path / name).exists() for name in (MODEL, MODEL_CARD)):
        if run.read_config().get("method") in releasing():
            raise RunError(f"{run.path} has lost {MODEL} and {MODEL_CARD}; {REMEDY}")
        raise RunError(
            f"{run.path} is a finished run that released no model, as its method leaves models with the clients; "
            f"use a run of {', '.join(releasing())}"
        )
    parameters, entries = run.read_model(), run.read_model_card()
    place = run.path / MODEL_CARD
    if "digest" not in entries:
        raise RunError(
            f"{place} has no digest of its entries, without which an edit of them would go unseen; "
            "use both files as a run of this version of fedtag wrote them"
        )
    try:
        card = Card.model_validate(entries)
        known = {name: entries[name] for name in settings_names() if name in entries}
        if missing := set(SHARED) - known.keys():
            raise KeyError(*sorted(missing))
        settings = flatten(known)
    except ValidationError as error:
        names = ", ".join(sorted({str(fault["loc"][0]) for fault in error.errors()}))
        raise RunError(f"{place} lacks {names}, or has no usable value there; {REMEDY}") from None
    except KeyError as error:
        names = ", ".join(map(str, error.args))
        raise RunError(f"{place} lacks {names}; {REMEDY}") from None
    check_there(run.path, settings)
    try:
        config = RunConfig.from_flat(settings)
    except ConfigError as error:
        raise RunError(f"{place} has settings that cannot be used ({error}); {REMEDY}") from error
    if fingerprint(parameters) != card.fingerprint:
        raise RunError(
            f"{run.path / MODEL} does not hold the parameters whose fingerprint is in {MODEL_CARD}; {REMEDY}"
        )
    if card_digest(entries) != card.digest:
        raise RunError(
            f"{place} was changed: its classes, scoring, settings or other entries are not those whose digest "
            f"is in it; {REMEDY}"
        )
    return Release(card, config, parameters)
