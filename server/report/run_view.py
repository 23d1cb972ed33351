"""What the report shows of one run, worked out from its directory."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fedtag.common.config import flatten
from fedtag.common.numerics.scores import ReliabilityBin
from fedtag.common.wording.scoring import chosen_by, column
from fedtag.server.pages.section import Recorded, ReportSection
from fedtag.server.report.aggregation import AggregationView, view_aggregation
from fedtag.server.report.changed_settings import changed_settings
from fedtag.server.report.client_record import client_record
from fedtag.server.report.client_series import ClientSeries, client_series
from fedtag.server.report.evidence_pages import EvidencePages, evidence_pages
from fedtag.server.report.faithfulness import FaithfulnessView, view_faithfulness
from fedtag.server.report.letters import shared_sections
from fedtag.server.report.made_of import made_of, own_sections
from fedtag.server.report.parent import parent_sections
from fedtag.server.report.privacy import PrivacyView, view_privacy
from fedtag.server.tracking.class_table import ClassLine, read_classes
from fedtag.server.tracking.disclosure_table import DisclosureTotal, disclosure_totals
from fedtag.server.tracking.model_card import setting
from fedtag.server.tracking.reliability import read_bins
from fedtag.server.tracking.rows import ClientRow, RoundRow, Summary, best_round
from fedtag.server.tracking.run_directory import SUMMARY, RunDirectory
from fedtag.server.tracking.status import read_status

MOST_CLIENTS = 400
"""In the page's table; all are in clients.jsonl."""


@dataclass(frozen=True)
class ClientLine:
    """One client's line: its row at the chosen round, and how often it failed over the run."""

    client: str
    row: ClientRow | None
    seconds: float | None
    answered: int
    failures: int


@dataclass(frozen=True)
class RunView:
    """One run. What an unfinished run has no summary for is worked out from its rounds so far."""

    name: str
    path: Path
    finished: bool
    summary: Summary | None
    rounds: tuple[RoundRow, ...]
    every_client: tuple[ClientLine, ...]
    clients_round: int | None
    score_names: tuple[str, ...]
    disclosures: tuple[DisclosureTotal, ...]
    empty_rounds: tuple[int, ...]
    settings: tuple[tuple[str, str], ...]
    changed: tuple[tuple[str, str], ...]
    versions: tuple[tuple[str, str], ...]
    method: str
    data: str
    client_count: int
    round_count: int
    ratio: float | None
    seed: int | str
    best_round: int | None
    val_accuracy: float | None
    val_spread: float | None
    test_spread: float | None
    chosen: bool
    test_accuracy: float | None
    test_macro_f1: float | None
    test_balanced_accuracy: float | None
    test_auroc: float | None
    test_auprc: float | None
    metric: str
    classes: tuple[ClassLine, ...]
    test_ece: float | None
    last_test_accuracy: float | None
    local_test_accuracy: float | None
    bytes_up: int
    bytes_down: int
    seconds: float
    seconds_per_round: float | None
    encoder_tokens: int | None
    llm_tokens: int | None
    llm_tokens_full_text: int | None
    peak_rss_mb: float | None
    client_tests: ClientSeries
    client_record: Mapping[str, Any]
    aggregation: AggregationView
    sections: tuple[ReportSection, ...]
    missing: tuple[str, ...]
    evidence: EvidencePages
    started: str
    reliability: tuple[ReliabilityBin, ...] = ()
    faithfulness: FaithfulnessView | None = None
    privacy: PrivacyView | None = None

    @property
    def test_score(self) -> float | None:
        """On test nodes, by the metric that chooses the round."""
        found: float | None = getattr(self, f"test_{column(self.metric)}")
        return found

    @property
    def clients(self) -> tuple[ClientLine, ...]:
        """The lines of the page's table, in the order of the names: all, or of many those that score lowest."""
        if len(self.every_client) <= MOST_CLIENTS:
            return self.every_client
        lowest = sorted(self.every_client, key=_score)[:MOST_CLIENTS]
        return tuple(sorted(lowest, key=lambda line: line.client))

    @property
    def local_note(self) -> str:
        """What the score of the locally trained models is, or why there is none."""
        if self.local_test_accuracy is not None:
            return "accuracy after local training"
        if self.test_accuracy is None:
            return "no test node was scored"
        if ("evaluation.local", "False") in self.settings:
            return "turned off by evaluation.local"
        return f"{self.method} does not score them"


def view_run(path: Path, name: str, runs: int = 1) -> RunView:
    """Read a run directory, finished or not.

    Args:
        path: of the directory.
        name: by which the page calls the run.
        runs: how many share the page.

    Raises:
        RunError: the folder is no run directory, or a file in it is damaged.
        ConfigError: an installed method or part has a report that cannot be imported.
    """
    run = RunDirectory.open(path)
    summary, config = run.read_summary(), run.read_config()
    rounds, clients, disclosures = run.read_rounds(), run.read_clients(), run.read_disclosures()
    method = summary.method if summary else str(setting(config, "method", ""))
    made, recorded = made_of(config, method), Recorded(run, clients, disclosures)
    best = best_round(rounds)
    if summary is not None:
        best = next((row for row in rounds if row.round == summary.best_round), best)
    last = rounds[-1] if rounds else None
    scored: Summary | RoundRow | None = summary or best
    chosen = summary.best_round if summary else (best.round if best else None)
    evaluated = {row.round for row in clients}
    shown = chosen if chosen in evaluated else max(evaluated, default=None)
    names = tuple(sorted({score for row in clients for score in row.scores}))
    settings = {key: str(value) for key, value in flatten(config).items()}
    view = RunView(
        name=name,
        path=path,
        finished=run.finished,
        summary=summary,
        rounds=tuple(rounds),
        every_client=tuple(client_lines(clients, shown)),
        clients_round=shown,
        score_names=names,
        disclosures=tuple(disclosure_totals(disclosures)),
        empty_rounds=tuple(row.round for row in rounds if row.empty),
        settings=tuple(settings.items()),
        changed=changed_settings(settings),
        versions=tuple(sorted(summary.versions.items())) if summary else (),
        method=method or "unknown",
        data=summary.data if summary else str(setting(config, "data")),
        client_count=summary.clients if summary else len({row.client for row in clients}),
        round_count=summary.rounds if summary else len(rounds),
        ratio=summary.ratio if summary else setting(config, "ratio", None),
        seed=summary.seed if summary else setting(config, "seed"),
        best_round=chosen,
        val_accuracy=scored.val_accuracy if scored else None,
        test_accuracy=scored.test_accuracy if scored else None,
        test_macro_f1=scored.test_macro_f1 if scored else None,
        test_balanced_accuracy=scored.test_balanced_accuracy if scored else None,
        test_auroc=scored.test_auroc if scored else None,
        test_auprc=scored.test_auprc if scored else None,
        metric=chosen_by(config),
        classes=read_classes(summary.test_classes, f"test_classes of {path / SUMMARY}") if summary else (),
        val_spread=scored.val_spread if scored else None,
        test_spread=scored.test_spread if scored else None,
        chosen=best is not None and best.selection is not None,
        test_ece=best.test_ece if best else None,
        last_test_accuracy=summary.last_test_accuracy if summary else (last.test_accuracy if last else None),
        local_test_accuracy=best.local_test_accuracy if best else None,
        bytes_up=summary.bytes_up if summary else sum(row.bytes_up for row in rounds),
        bytes_down=summary.bytes_down if summary else sum(row.bytes_down for row in rounds),
        seconds=summary.seconds if summary else sum(row.seconds for row in rounds),
        seconds_per_round=summary.seconds_per_round if summary else median([row.seconds for row in rounds]),
        encoder_tokens=summary.encoder_tokens if summary else None,
        llm_tokens=summary.llm_tokens if summary else None,
        llm_tokens_full_text=summary.llm_tokens_full_text if summary else None,
        peak_rss_mb=summary.peak_rss_mb if summary else None,
        client_tests=client_series(clients, lambda row: row.test_accuracy),
        client_record={},
        aggregation=view_aggregation(config, made.method, summary, clients),
        sections=(*own_sections(made, recorded), *shared_sections(recorded), *parent_sections(recorded)),
        missing=made.missing,
        reliability=read_bins(summary.test_reliability, f"test_reliability of {path / SUMMARY}")
        if summary
        else (),
        faithfulness=view_faithfulness(run),
        privacy=view_privacy(run),
        evidence=evidence_pages(path),
        started=status.started if (status := read_status(path)) else "",
    )
    shown_clients = [line.client for line in view.clients]
    return replace(view, client_record=client_record(clients, shown_clients, shown, names, runs))


def client_lines(rows: Sequence[ClientRow], shown: int | None) -> Iterator[ClientLine]:
    """One line a client, ordered by name; clients that are not in the shown round have no row."""
    by_client: dict[str, list[ClientRow]] = {}
    for row in rows:
        by_client.setdefault(row.client, []).append(row)
    for client in sorted(by_client):
        own = by_client[client]
        current = next((row for row in reversed(own) if row.round == shown), None)
        yield ClientLine(
            client=client,
            row=current,
            seconds=median([sum(row.seconds_by_phase.values()) for row in own if row.failed is None]),
            answered=sum(row.failed is None for row in own),
            failures=sum(row.failed is not None for row in own),
        )


def _score(line: ClientLine) -> float:
    """By which clients of a large run are shown; those without a score come last."""
    found = line.row.test_accuracy if line.row else None
    return 2.0 if found is None else found


def median(values: Sequence[float]) -> float | None:
    """The median, None of nothing."""
    return statistics.median(values) if values else None
