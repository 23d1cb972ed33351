"""The condensed graph that a run releases: condensed.safetensors, which carries its card, and the card for people."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from torch import Tensor

from fedtag.common.config import RunConfig, flatten
from fedtag.common.errors import ConfigError, RunError, WireError
from fedtag.common.methods.fedgc.model import initial_teacher
from fedtag.common.models.parameters import fingerprint, load_parameters
from fedtag.common.settings.sections import Count
from fedtag.common.synthetic.condensed import Condensed
from fedtag.common.tensors import owned, packed, read_tensors
from fedtag.common.wire.records import Content, prefixed
from fedtag.server.tracking.audit_section import audit_section
from fedtag.server.tracking.durable_files import encoded, json_text, write_atomically
from fedtag.server.tracking.release import settings_names

FILE = "condensed.safetensors"
CARD = "condensed.md"
HEADER = "fedtag"
GRAPH = "graph"
TEACHER = "teacher"


class CondensedCard(BaseModel):
    """What must be known of a condensed graph to train on it.

    Args:
        round: after which it was taken.
        rounds: of condensation behind it.
        ratio: condensed nodes over nodes.
        classes: names by the values of y.
        dimension: of the features.
        features: where the clients' features come from.
        settings: of the run, as far as they decide what the graph means: tables of `released_settings`.
        digest: of the entries above and of all tensors.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    round: Count
    rounds: Count
    ratio: Annotated[float, Field(gt=0, le=1)]
    classes: Annotated[tuple[str, ...], Field(min_length=1)]
    dimension: Count
    features: str
    settings: dict[str, Any]
    digest: str = ""

    @model_validator(mode="after")
    def _of_one_run(self) -> CondensedCard:
        if self.rounds > self.round:
            raise ValueError(
                f"rounds: {self.rounds} of condensation are more than the {self.round} of the run"
            )
        if len(set(self.classes)) < len(self.classes):
            raise ValueError("classes: a name stands twice")
        return self


@dataclass(frozen=True)
class CondensedRelease:
    """A released condensed graph.

    Args:
        card: what its file says of it.
        config: defaults, but for the settings that decide what the graph means.
        graph: the condensed graph.
        teacher: parameters of the self-trained model; empty where there was none.
    """

    card: CondensedCard
    config: RunConfig
    graph: Condensed
    teacher: Mapping[str, Tensor]

    @property
    def tensors(self) -> dict[str, Tensor]:
        """As they are in its file."""
        return {**prefixed(GRAPH, self.graph.tensors), **prefixed(TEACHER, self.teacher)}


def write_condensed(folder: Path, tensors: Mapping[str, Tensor], card: CondensedCard) -> Path:
    """Write both files of a condensed graph.

    Args:
        folder: exists.
        tensors: "graph/..." of `Condensed.tensors`, and "teacher/..." of the self-trained model.
        card: its digest is made here.
    """
    released = owned(tensors)
    card = card.model_copy(update={"digest": digest(card, released)})
    entries = json_text(card.model_dump(), FILE)
    write_atomically(folder / FILE, packed(released, {HEADER: entries}))
    write_atomically(folder / CARD, encoded(card_text(card, released)))
    return folder / FILE


def write_card(folder: Path, release: CondensedRelease, audit: Mapping[str, Any]) -> Path:
    """Write the card of a released graph anew, with what an audit of it says.

    Args:
        folder: of the graph's file.
        release: the graph.
        audit: the record of its audit.
    """
    path = folder / CARD
    write_atomically(path, encoded(card_text(release.card, release.tensors, audit)))
    return path


def read_condensed(path: Path) -> CondensedRelease:
    """The condensed graph of a file, or of the run directory that holds one.

    Raises:
        RunError: there is none, or it is damaged, changed or of another version.
    """
    file = path / FILE if path.is_dir() else path
    if not file.is_file():
        raise RunError(
            f"{file} does not exist; name the {FILE} of a finished run of fedgc, or its run directory"
        )
    try:
        tensors, metadata = read_tensors(file)
        entries = json.loads(metadata.get(HEADER, "null"))
        if not isinstance(entries, dict):
            raise ValueError("it has no card")
        card = CondensedCard.model_validate(entries)
    except (OSError, ValueError, RecursionError) as error:
        reason = wrong_entries(error) if isinstance(error, ValidationError) else str(error)
        raise RunError(
            f"{file} is no condensed graph of fedtag, or is damaged ({reason}); restore it"
        ) from error
    if digest(card, tensors) != card.digest:
        raise RunError(f"{file} was changed: its digest is not that of its content; restore it from the run")
    try:
        config = card_config(card)
        content = Content(tensors)
        graph = Condensed.foreign(content.section(GRAPH), card.dimension, len(card.classes))
        teacher = content.section(TEACHER)
        check_teacher(teacher, config, card.dimension, len(card.classes))
    except ConfigError as error:
        raise RunError(
            f"{file} has settings that cannot be used ({error}); use the fedtag that made it"
        ) from error
    except WireError as error:
        raise RunError(f"{file} cannot be trained on ({error}); restore it from the run") from error
    return CondensedRelease(card, config, graph, teacher)


def wrong_entries(error: ValidationError) -> str:
    """The entries of a card that cannot be used, each with the reason."""
    wrong = [
        (".".join(map(str, one["loc"])), one["msg"].removeprefix("Value error, ")) for one in error.errors()
    ]
    return "; ".join(f"{place}: {reason}" if place else reason for place, reason in wrong)


def card_config(card: CondensedCard) -> RunConfig:
    """Defaults, but for the settings of a card.

    Raises:
        ConfigError: one is not among those that such a card has, or is none of a run; or the method has no such graph.
    """
    strange = sorted(card.settings.keys() - set(settings_names()))
    if strange:
        raise ConfigError(f"settings: {', '.join(strange)} is none of {', '.join(settings_names())}")
    config = RunConfig.from_flat(flatten({**card.settings, "ratio": card.ratio}))
    if config.spec.traits.releases != "graph":
        raise ConfigError(f"settings: method = {card.settings.get('method')!r} releases no condensed graph")
    return config


def check_teacher(teacher: Mapping[str, Tensor], config: RunConfig, dimension: int, classes: int) -> None:
    """Raise WireError where tensors are no self-trained model of these settings; there may be none at all."""
    if teacher:
        load_parameters(initial_teacher(config, dimension, classes), teacher)
    if not all(bool(value.isfinite().all()) for value in teacher.values()):
        raise WireError("the self-trained model has values that are not finite")


def digest(card: CondensedCard, tensors: Mapping[str, Tensor]) -> str:
    """SHA-256 (hex) of the card's entries and of all tensors; it tells accidents, not forgeries."""
    entries = {name: value for name, value in card.model_dump(mode="json").items() if name != "digest"}
    text = json.dumps([entries, fingerprint(tensors)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def card_text(
    card: CondensedCard, tensors: Mapping[str, Tensor], audit: Mapping[str, Any] | None = None
) -> str:
    """The card as Markdown.

    Args:
        card: of the graph.
        tensors: of its file.
        audit: the record of a membership audit of this graph.
    """
    content = Content(tensors)
    graph = Condensed.from_tensors(content.section(GRAPH), copies=False)
    counts = graph.y.bincount(minlength=len(card.classes)).tolist()
    classes = ", ".join(f"{name} {count}" for name, count in zip(card.classes, counts, strict=True))
    teacher = content.section(TEACHER)
    accompanied = (
        "The self-trained model lies in the file under `teacher/`; the clients' gradients, and with them this graph, "
        "depend on it."
        if teacher
        else "No self-trained model was used."
    )
    known = (
        "No membership audit of it is recorded here, so that nothing is known of what it tells about who was among "
        "these nodes: do not call it safe."
        if audit is None
        else "What it tells about who was among these nodes is stated under Membership inference."
    )
    found = "" if audit is None else "\n" + audit_section(audit)
    return f"""# Condensed graph

{graph.num_nodes} nodes and {graph.edge_index.shape[1] // 2} links that stand for the graphs of a federation in \
training. Every node is learned; none was copied from a client.

| | |
| --- | --- |
| Ratio r | {card.ratio:g} of all clients' nodes |
| Taken after | round {card.round}; rounds of condensation: {card.rounds} |
| Features | {card.dimension} numbers a node, {card.features} |
| Nodes by class | {classes} |
| Digest | `{card.digest[:16]}` |

## What follows from this

- The features are in the space of the clients' own: who trains on this graph can score nodes with features of the \
same source. {accompanied}
- The graph follows from gradients of labelled nodes. {known}
- `fedtag train-on {FILE} --backbone NAME` trains a model on it, `--data FOLDER` fits that to a folder and scores it.
{found}"""
