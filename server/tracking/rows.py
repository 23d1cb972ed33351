"""The records of a run directory, one frozen dataclass for each kind of file.

Field names are the keys in the files, with two exceptions: a disclosure's `sender` and `receiver` are
written as `from` and `to`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import Field, dataclass, field, fields
from numbers import Integral, Real
from typing import Any, Literal, TypeVar, get_args

from fedtag.common.errors import RunError

COLUMNS = "columns"
Protection = Literal["none", "masked", "encrypted", "noised"]
"""What hides a record from whoever receives or carries it."""


@dataclass(frozen=True)
class RoundRow:
    """One line of metrics.jsonl: the scores of the global model of a round, and what the round cost.

    Accuracies, macro-F1 and calibration error are fractions in [0, 1], None where no node was scored.
    `local_*` are the scores of the locally trained models. `effective_ratio` is the share of nodes that
    was trained on, None where nothing is condensed. `empty` marks a round without any contributor. `selection` is
    what the released round is chosen by, None where none is chosen; `val_spread` and `test_spread` are the standard
    deviations of the accuracies over clients, None for fewer than two of them, or where they are hidden.
    """

    round: int
    train_loss: float | None
    val_accuracy: float | None
    test_accuracy: float | None
    test_macro_f1: float | None
    seconds: float
    seconds_by_phase: Mapping[str, float]
    bytes_up: int
    bytes_down: int
    clients_ok: int
    clients_failed: int
    test_ece: float | None = None
    val_macro_f1: float | None = None
    local_val_accuracy: float | None = None
    local_test_accuracy: float | None = None
    effective_ratio: float | None = None
    empty: bool = False
    selection: float | None = None
    val_spread: float | None = None
    test_spread: float | None = None

    def __post_init__(self) -> None:
        check_fractions(self, f"round {self.round}")


@dataclass(frozen=True)
class ClientRow:
    """One line of clients.jsonl: one client at one evaluation.

    The scores are those of the global model on the client's full local graph; `local_test_accuracy` is
    that of the model which the client trained. `scores` holds further ways of scoring, by name. `failed`
    is the reason why the client did not contribute, None where it did; the counts of nodes are None where
    a client failed before it said them. `steps` and `normaliser` are the local steps and FedNova's a_i;
    `statistics` holds what distribution-aware weights were made of: accuracy, attention, divergence from the
    global class distribution, similarity. `condensation` holds `core` and `nodes`, the numbers of condensed and of
    original nodes, and of a synthetic graph the shares of its nodes that are `copied` from real ones, or `close`:
    closer to a real node than any other real node is. `parameters` is how many
    the client's network has, where clients have networks of their own. `columns` are those of the run's method and
    parts, which stand beside the others in the file.
    """

    round: int
    client: str
    nodes: int | None
    train_nodes: int | None
    val_accuracy: float | None
    test_accuracy: float | None
    test_macro_f1: float | None
    seconds_by_phase: Mapping[str, float]
    val_nodes: int | None = None
    test_nodes: int | None = None
    local_test_accuracy: float | None = None
    weight: float | None = None
    failed: str | None = None
    scores: Mapping[str, float | None] = field(default_factory=dict)
    steps: int | None = None
    normaliser: float | None = None
    statistics: Mapping[str, float | None] = field(default_factory=dict)
    condensation: Mapping[str, float | None] = field(default_factory=dict)
    parameters: int | None = None
    columns: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_fractions(self, f"client {self.client!r} in round {self.round}")


@dataclass(frozen=True)
class Disclosure:
    """One line of disclosures.jsonl: a kind of record that crossed the network.

    `count` is the number of such records, `bytes` their size as sent, `reveals` what a reader of the
    record learns, in words.
    """

    round: int
    sender: str = field(metadata={"key": "from"})
    receiver: str = field(metadata={"key": "to"})
    kind: str
    bytes: int
    reveals: str
    protected: Protection
    count: int = 1

    def __post_init__(self) -> None:
        if self.protected not in get_args(Protection):
            allowed = ", ".join(get_args(Protection))
            raise RunError(f"a disclosure's protection is {self.protected!r}; it must be one of {allowed}")


@dataclass(frozen=True)
class NodeTokens:
    """Language model tokens, prompt and answer, that the summary of one node took on average.

    Args:
        chunks: as written.
        full_text: with the selected neighbours' full texts in the prompt; not run.
        two_hop: with all texts within two hops; not run.
    """

    chunks: float
    full_text: float
    two_hop: float

    @property
    def saving(self) -> float:
        """Share of the full-text prompt's tokens that the chunks spare."""
        return 1 - self.chunks / self.full_text


@dataclass(frozen=True)
class Summary:
    """summary.json: the result of a finished run.

    `best_round` is chosen by validation alone, and is the last under differential privacy and hidden statistics;
    `val_accuracy`, `test_accuracy`, their spreads over clients and `test_macro_f1` are those of that round.
    `seconds_per_round` is the median. The numbers of tokens are None where the method reads no text;
    `llm_tokens_full_text` is what the prompts would take with the full texts of the selected neighbours,
    `llm_tokens_two_hop` with all texts within two hops; `llm_summaries` is of how many nodes.

    `test_reliability` and `val_reliability` are the calibration bins of the best round, lowest confidence
    first: nodes, mean confidence, accuracy. `privacy` is what the accountant says of a run with differential
    privacy: epsilon, delta, noise, clip, mode, unit, rounds; an epsilon of None is no bound. `weights_lag` is
    by how many rounds the statistics that made the weights are older than the updates. `parameters` is how many
    numbers the model has that predicts; where clients have networks of their own, the largest of these, None if they
    do not tell.
    """

    method: str
    data: str
    clients: int
    rounds: int
    ratio: float | None
    seed: int
    best_round: int | None
    val_accuracy: float | None
    test_accuracy: float | None
    test_macro_f1: float | None
    last_test_accuracy: float | None
    bytes_up: int
    bytes_down: int
    encoder_tokens: int | None
    llm_tokens: int | None
    llm_tokens_full_text: int | None
    seconds: float
    seconds_per_round: float | None
    peak_rss_mb: float | None
    versions: Mapping[str, str]
    llm_tokens_two_hop: int | None = None
    llm_summaries: int | None = None
    test_ece: float | None = None
    test_reliability: Sequence[Mapping[str, float | None]] | None = None
    val_reliability: Sequence[Mapping[str, float | None]] | None = None
    privacy: Mapping[str, Any] | None = None
    weights_lag: int | None = None
    parameters: int | None = None
    val_spread: float | None = None
    test_spread: float | None = None

    def __post_init__(self) -> None:
        check_fractions(self, "the summary")

    @property
    def tokens_per_node(self) -> NodeTokens | None:
        """What one summary took; None without summaries."""
        totals = self.llm_tokens, self.llm_tokens_full_text, self.llm_tokens_two_hop
        if not self.llm_summaries or not all(totals):
            return None
        return NodeTokens(*((total or 0) / self.llm_summaries for total in totals))


Row = RoundRow | ClientRow | Disclosure | Summary
RowType = TypeVar("RowType", RoundRow, ClientRow, Disclosure, Summary)


def check_fractions(row: Row, where: str) -> None:
    """Raise RunError where a score lies outside [0, 1], as a percentage does."""
    for item in fields(row):
        value = getattr(row, item.name)
        is_score = item.name.endswith(("accuracy", "macro_f1", "_ece"))
        if is_score and value is not None and not math.isnan(value) and not 0.0 <= value <= 1.0:
            raise RunError(f"{item.name} of {where} is {value}; it must be a fraction in [0, 1]")


def row_to_object(row: Row) -> dict[str, Any]:
    """The JSON object of a row, without NaN or infinity.

    A field that may be empty becomes None where its value is not finite.

    Raises:
        RunError: a field that must have a value is not finite, or has a type that JSON lacks.
    """
    record: dict[str, Any] = {}
    for item in fields(row):
        value = plain(getattr(row, item.name), item.name)
        missing = value is None and not may_be_empty(item)
        if isinstance(value, dict) and not entries_may_be_empty(item):
            missing = None in value.values()
        if missing:
            raise RunError(
                f"{item.name} of a {type(row).__name__} is not finite; only a finite number can be kept"
            )
        record[key_of(item)] = value
    return {**record.pop(COLUMNS, {}), **record}


def object_to_row(kind: type[RowType], record: Mapping[str, Any]) -> RowType:
    """The row of a JSON object; keys that this version does not know are columns of a method, or ignored.

    Raises:
        RunError: a key without a default is missing.
    """
    names = {key_of(item): item.name for item in fields(kind)}
    known = {names[key]: value for key, value in record.items() if key in names}
    if COLUMNS in names:
        known[COLUMNS] = {key: value for key, value in record.items() if key not in names}
    try:
        return kind(**known)
    except TypeError as error:
        raise RunError(f"an object is no {kind.__name__}: {error}") from error


def best_round(rows: Sequence[RoundRow]) -> RoundRow | None:
    """The row that is best by `selection`, the earliest of equals; the last where no round is chosen."""
    judged = [row for row in rows if row.selection is not None]
    if not judged:
        return rows[-1] if rows else None
    return max(judged, key=lambda row: (row.selection or 0.0, -row.round))


def key_of(item: Field[Any]) -> str:
    """The name of a field in the files."""
    return str(item.metadata.get("key", item.name))


def may_be_empty(item: Field[Any]) -> bool:
    """Whether None is a value of the field; annotations are strings in this module."""
    return str(item.type).endswith("| None")


def entries_may_be_empty(item: Field[Any]) -> bool:
    """Whether None is a value of the entries of a field that holds a mapping."""
    return "| None]" in str(item.type) or ", Any]" in str(item.type)


def plain(value: object, name: str) -> Any:
    """The value in JSON's own types; numbers that are not finite become None."""
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): plain(entry, f"{name}.{key}") for key, entry in value.items()}
    if isinstance(value, Sequence):
        return [plain(entry, name) for entry in value]
    raise RunError(
        f"{name} is a {type(value).__name__}, which JSON lacks; pass a Python number, text, list or dict"
    )
