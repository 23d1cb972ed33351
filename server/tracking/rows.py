"""The records of a run directory, one frozen dataclass for each kind of file; field names are the keys in the files.

What crossed the network has a form of its own (`disclosures`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from fedtag.common.errors import RunError
from fedtag.common.wording.scoring import METRICS, column


@dataclass(frozen=True)
class RoundRow:
    """One line of metrics.jsonl: the scores of the global model of a round, and what the round cost.

    Accuracies, macro-F1, AUROC, AUPRC and calibration error are fractions in [0, 1], None where no node was scored; the
    areas also where all scored nodes are of one class.
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
    val_balanced_accuracy: float | None = None
    test_balanced_accuracy: float | None = None
    val_auroc: float | None = None
    test_auroc: float | None = None
    val_auprc: float | None = None
    test_auprc: float | None = None

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
    closer to a real node than any other real node is; `approximate` says whether the links of the condensed graph
    are among candidates of an approximate index, and not of all pairs. `parameters` is how many the client's network
    has, where clients have networks of their own. `columns` are those of the run's method and parts, which stand
    beside the others in the file.
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
    test_balanced_accuracy: float | None = None
    test_auroc: float | None = None
    test_auprc: float | None = None
    columns: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_fractions(self, f"client {self.client!r} in round {self.round}")


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

    `best_round` is chosen by validation alone, by `metric`, and is the last under differential privacy and hidden
    statistics; scores, their spreads over clients and `test_classes` are those of that round. `test_classes` has of
    each class: class, nodes, precision, recall, f1, auroc, auprc.
    `seconds_per_round` is the median. The numbers of tokens are None where the method reads no text;
    `llm_tokens_full_text` is what the prompts would take with the full texts of the selected neighbours,
    `llm_tokens_two_hop` with all texts within two hops; `llm_summaries` is of how many nodes.

    `test_reliability` and `val_reliability` are the calibration bins of the best round, lowest confidence
    first: nodes, mean confidence, accuracy. `privacy` is what the accountant says of a run with differential
    privacy: epsilon, delta, noise, clip, mode, unit, rounds; an epsilon of None is no bound. `weights_lag` is
    by how many rounds the statistics that made the weights are older than the updates. `parameters` is how many
    numbers the model has that predicts; where clients have networks of their own, the largest of these, None if they
    do not tell. `split` says where training, validation and test nodes are from. `run` is the run's own identifier, as
    in logs and status.json; `flower_run` is Flower's, None where Flower has not started it. `link_candidates` says how
    clients found those of the links of their condensed graphs in the last round, None where no client tells. `engine`
    is how the clients of a simulation were trained, as in the settings.
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
    metric: str = "accuracy"
    val_macro_f1: float | None = None
    val_balanced_accuracy: float | None = None
    test_balanced_accuracy: float | None = None
    val_auroc: float | None = None
    test_auroc: float | None = None
    val_auprc: float | None = None
    test_auprc: float | None = None
    test_classes: Sequence[Mapping[str, Any]] | None = None
    split: str | None = None
    run: str | None = None
    flower_run: str | None = None
    link_candidates: str | None = None
    engine: str = "separate"

    def __post_init__(self) -> None:
        check_fractions(self, "the summary")
        if self.metric not in METRICS:
            raise RunError(
                f"metric of the summary is '{self.metric}'; it must be one of {', '.join(METRICS)}"
            )

    @property
    def tokens_per_node(self) -> NodeTokens | None:
        """What one summary took; None without summaries."""
        totals = self.llm_tokens, self.llm_tokens_full_text, self.llm_tokens_two_hop
        if not self.llm_summaries or not all(totals):
            return None
        return NodeTokens(*((total or 0) / self.llm_summaries for total in totals))


Row = RoundRow | ClientRow | Summary
SCORES = (*map(column, METRICS), "_ece")
"""How the names of fields end that hold a fraction."""
RowType = TypeVar("RowType", RoundRow, ClientRow, Summary)


def check_fractions(row: Row, where: str) -> None:
    """Raise RunError where a score lies outside [0, 1], as a percentage does."""
    for item in fields(row):
        value = getattr(row, item.name)
        is_score = item.name.endswith(SCORES)
        if is_score and value is not None and not math.isnan(value) and not 0.0 <= value <= 1.0:
            raise RunError(f"{item.name} of {where} is {value}; it must be a fraction in [0, 1]")


def best_round(rows: Sequence[RoundRow]) -> RoundRow | None:
    """The row that is best by `selection`, the earliest of equals; the last where no round is chosen."""
    judged = [row for row in rows if row.selection is not None]
    if not judged:
        return rows[-1] if rows else None
    return max(judged, key=lambda row: (row.selection or 0.0, -row.round))
