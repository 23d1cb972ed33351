"""The run directory: what a run leaves behind, and what other programs read."""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any

import tomli_w
from torch import Tensor

from fedtag.common.errors import RunError
from fedtag.common.tensors import tensor_bytes, tensors_of
from fedtag.server.tracking.disclosure_file import DisclosureFile
from fedtag.server.tracking.disclosures import Disclosure
from fedtag.server.tracking.durable_files import (
    RESTORE,
    append_lines,
    drop_unfinished_line,
    encoded,
    exclusively,
    json_text,
    keep_lines,
    read_lines,
    read_object,
    require_whole,
    write_atomically,
)
from fedtag.server.tracking.row_objects import object_to_row, row_to_object
from fedtag.server.tracking.rows import ClientRow, RoundRow, RowType, Summary
from fedtag.server.tracking.toml_values import toml_table

CONFIG = "config.toml"
METRICS = "metrics.jsonl"
CLIENTS = "clients.jsonl"
DISCLOSURES = "disclosures.jsonl"
SUMMARY = "summary.json"
MODEL = "model.safetensors"
MODEL_CARD = "model.json"
PLACES = "places.json"
"""Where the data of the run's sites came from on this machine: what no other file says, and what stays here."""
SITES = "sites"
"""Folders of the sites; only in simulations and after `fedtag up`."""
CONTRACT = (CONFIG, METRICS, CLIENTS, DISCLOSURES, SUMMARY)


class RunDirectory:
    """The folder of one run, opened for writing.

    Args:
        path: a folder that is absent or empty; with `resume`, the folder of an earlier run.
        resume: continue the run that is there. What a killed process left of a line is removed.

    Raises:
        RunError: the folder holds something else, or a run that this one would overwrite.
    """

    def __init__(self, path: Path | str, *, resume: bool = False) -> None:
        self.path = Path(path)
        if resume:
            require_run(self.path)
            # What another version began is refused before anything of it is changed.
            self._disclosures.read()
            for name in (METRICS, CLIENTS, DISCLOSURES):
                drop_unfinished_line(self.path / name)
            return
        require_free(self.path)
        self.path.mkdir(parents=True, exist_ok=True)

    @classmethod
    def open(cls, path: Path | str) -> RunDirectory:
        """An existing run for reading; nothing is written, not even repairs.

        Raises:
            RunError: the folder is absent or is no run directory.
        """
        require_run(Path(path))
        run = cls.__new__(cls)
        run.path = Path(path)
        return run

    @classmethod
    def open_release(cls, path: Path | str) -> RunDirectory:
        """The same; a folder with nothing but a released model will do.

        Raises:
            RunError: the folder is absent, or is neither.
        """
        run = cls.__new__(cls)
        run.path = Path(path)
        if not (run.path / MODEL_CARD).is_file():
            require_run(run.path)
        return run

    @contextmanager
    def exclusively(self) -> Iterator[None]:
        """Keep other processes from writing the run; the lock ends with the process, however it ends.

        Raises:
            RunError: another process has it.
        """
        with exclusively(self.path):
            yield

    @cached_property
    def _disclosures(self) -> DisclosureFile:
        return DisclosureFile(self.path / DISCLOSURES)

    @property
    def finished(self) -> bool:
        """Whether the summary, which a run writes last, is there."""
        return (self.path / SUMMARY).exists()

    def write_config(self, settings: Mapping[str, Any]) -> None:
        """Write config.toml; a setting that is None is left out, because TOML has no empty value."""
        content = tomli_w.dumps(toml_table(settings, ""))
        write_atomically(self.path / CONFIG, encoded(content))

    def write_places(self, places: Mapping[str, str]) -> None:
        """Write places.json: settings, by dotted keys, that are paths on this machine."""
        write_atomically(self.path / PLACES, encoded(json_text(dict(places), PLACES, indent=2) + "\n"))

    def read_places(self) -> dict[str, str]:
        """The settings that are paths on this machine; empty where the run has none."""
        return read_object(self.path / PLACES) or {}

    def append_round(self, row: RoundRow) -> None:
        """Append to metrics.jsonl."""
        append_lines(self.path / METRICS, [row_to_object(row)])

    def append_clients(self, rows: Sequence[ClientRow]) -> None:
        """Append to clients.jsonl."""
        append_lines(self.path / CLIENTS, [row_to_object(row) for row in rows])

    def append_disclosures(self, rows: Sequence[Disclosure]) -> None:
        """Append to disclosures.jsonl."""
        self._disclosures.append(rows)

    def write_summary(self, summary: Summary) -> None:
        """Write summary.json, which marks the run as finished."""
        text = json_text(row_to_object(summary), SUMMARY, indent=2) + "\n"
        write_atomically(self.path / SUMMARY, encoded(text))

    def write_model(self, tensors: Mapping[str, Tensor], card: Mapping[str, Any]) -> None:
        """Write model.safetensors, and model.json: the card with the file's SHA-256 and the tensors' shapes."""
        content = tensor_bytes(tensors)
        shapes = {name: list(tensor.shape) for name, tensor in tensors.items()}
        record = {**card, "sha256": hashlib.sha256(content).hexdigest(), "tensors": shapes}
        text = json_text(record, MODEL_CARD, indent=2) + "\n"
        write_atomically(self.path / MODEL, content)
        write_atomically(self.path / MODEL_CARD, encoded(text))

    def write_document(self, name: str, text: str) -> None:
        """Write a text of the method under a relative path."""
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, encoded(text))

    def truncate_after(self, round_number: int) -> None:
        """Forget the results of later rounds: rows of metrics and clients, and the summary of the longer run.

        Disclosures stay: what crossed the network in an aborted round has crossed it.
        """
        (self.path / SUMMARY).unlink(missing_ok=True)
        for name in (METRICS, CLIENTS):
            keep_lines(self.path / name, lambda record: int(record["round"]) <= round_number)

    def read_config(self) -> dict[str, Any]:
        """The settings; empty where the run has not written them yet."""
        path = self.path / CONFIG
        if self.finished:
            require_whole(path)
        if not path.exists():
            return {}
        try:
            return tomllib.loads(path.read_text(encoding="utf-8"))
        except (ValueError, RecursionError) as error:
            raise RunError(f"{path} is not TOML ({error}); restore the file") from error

    def read_rounds(self) -> list[RoundRow]:
        """The rows of metrics.jsonl.

        Raises:
            RunError: the file is damaged, or a finished run has lost rows.
        """
        rows, summary = self._rows(RoundRow, METRICS), self.read_summary()
        if summary is not None and [row.round for row in rows] != list(range(1, summary.rounds + 1)):
            raise RunError(
                f"{self.path / METRICS} does not hold rounds 1 to {summary.rounds}, one row each; {RESTORE}"
            )
        return rows

    def read_clients(self) -> list[ClientRow]:
        """The rows of clients.jsonl; errors as of `read_rounds`."""
        return self._rows(ClientRow, CLIENTS)

    def read_disclosures(self) -> list[Disclosure]:
        """The rows of disclosures.jsonl; errors as of `read_rounds`, and of a file of another schema."""
        if self.finished:
            require_whole(self.path / DISCLOSURES)
        return self._disclosures.read()

    def read_summary(self) -> Summary | None:
        """The summary, None where the run has not finished.

        Raises:
            RunError: the file is damaged.
        """
        record = read_object(self.path / SUMMARY)
        return None if record is None else row_of(Summary, record, self.path / SUMMARY)

    def check(self) -> None:
        """Raise RunError where a file of the contract is damaged, or missing in a finished run."""
        self.read_config()
        for read in (self.read_rounds, self.read_clients, self.read_disclosures):
            read()

    def _rows(self, kind: type[RowType], name: str) -> list[RowType]:
        path = self.path / name
        if self.finished:
            require_whole(path)
        return [
            row_of(kind, record, f"{path}, line {number}")
            for number, record in enumerate(read_lines(path), start=1)
        ]

    def read_model_card(self) -> dict[str, Any]:
        """model.json; empty where no model has been written."""
        return read_object(self.path / MODEL_CARD) or {}

    def read_of_release(self, name: str) -> dict[str, Any] | None:
        """A JSON record that was made of the released model; None if there is none, or one of another model."""
        record = read_object(self.path / name)
        of_it = record is not None and record.get("model") == self.read_model_card().get("fingerprint")
        return record if of_it else None

    def read_model(self) -> dict[str, Tensor]:
        """The tensors of model.safetensors.

        Raises:
            RunError: the file is absent, damaged, or is not the one that model.json describes.
        """
        path = self.path / MODEL
        if not path.exists() and self.read_model_card():
            raise RunError(f"{path}, which {MODEL_CARD} describes, is missing; restore both from the run")
        if not path.exists():
            raise RunError(f"{path} does not exist; the run has not released a model yet: resume it")
        content = path.read_bytes()
        if hashlib.sha256(content).hexdigest() != self.read_model_card().get("sha256"):
            raise RunError(
                f"{path} is not the file whose SHA-256 is in {MODEL_CARD}; restore both from the run"
            )
        try:
            return tensors_of(content)
        except ValueError as error:
            raise RunError(f"{path} is damaged ({error}); restore it from the run") from error


def is_run(path: Path) -> bool:
    """Whether a folder holds any file of the contract."""
    return any((path / name).exists() for name in CONTRACT)


def require_free(path: Path) -> None:
    """Raise RunError where something lies that a new run, or a new model, would overwrite."""
    if path.exists() and not path.is_dir():
        raise RunError(f"{path} is a file, not a folder; choose another out=")
    if is_run(path):
        state = "a finished run" if (path / SUMMARY).exists() else "an unfinished run"
        raise RunError(f"{path} holds {state}; choose another out=, or resume it")
    if path.exists() and any(path.iterdir()):
        raise RunError(f"{path} is not empty and is no run directory; choose another out=")


def require_run(path: Path) -> None:
    """Raise RunError where a path is no run directory."""
    if not path.is_dir():
        raise RunError(f"{path} is not a folder; name the folder of an earlier run")
    if not is_run(path):
        raise RunError(
            f"{path} is no run directory: it has none of {', '.join(CONTRACT)}; name the folder of an earlier run"
        )


def row_of(kind: type[RowType], record: Mapping[str, Any], where: Path | str) -> RowType:
    """The row of a JSON object.

    Raises:
        RunError: it is none, with where it stands.
    """
    try:
        return object_to_row(kind, record)
    except RunError as error:
        raise RunError(f"{where}: {error}; {RESTORE}") from error
