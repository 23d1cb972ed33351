"""The end of a run: summary, released model, model card, report."""

from __future__ import annotations

import contextlib
import platform
import resource
import statistics
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path

from torch import Tensor

from fedtag.common.config import RunConfig
from fedtag.common.config.ingredients import packages
from fedtag.common.config.places import parts
from fedtag.common.models.parameters import fingerprint
from fedtag.common.wording.scoring import METRICS, column
from fedtag.common.wording.split import split_words
from fedtag.server.protocol.context import ServerContext
from fedtag.server.protocol.method import ServerMethod, course
from fedtag.server.report.page import write_report
from fedtag.server.state.round import Traffic
from fedtag.server.state.run_state import RunState
from fedtag.server.strategies.accounting import spent
from fedtag.server.tracking.artefact import About, artefact_of
from fedtag.server.tracking.model_card import write_model_card
from fedtag.server.tracking.parent import parent_words
from fedtag.server.tracking.release import card_digest, released_settings
from fedtag.server.tracking.rows import RoundRow, Summary
from fedtag.server.tracking.run_directory import RunDirectory

SUBSETS = ("val", "test")
PACKAGES = ("flwr", "torch", "torch-geometric", "sentence-transformers", "transformers", "numpy")
OWN = "each institution's own graph"
"""What a run is on whose settings name no data."""


def conclude(
    directory: RunDirectory,
    context: ServerContext,
    method: ServerMethod,
    run_state: RunState,
    closing: Traffic,
    report: bool = True,
) -> Summary:
    """Write everything that a finished run has beside its rows; the model is that of the best round.

    `closing` is the traffic of the last exchange, which belongs to no round; without `report` that one is left out.
    """
    agreement = run_state.agreement
    assert agreement is not None
    config, rows = context.settings, directory.read_rounds()
    summary = summarise(rows, context, method, run_state, closing)
    if run_state.best:
        card = {
            "round": run_state.best_round,
            "fingerprint": fingerprint(run_state.best),
            "classes": list(agreement.classes),
            "dimension": agreement.dimension,
            "features": agreement.features,
            "scoring": run_state.best_path,
            **released_settings(config),
        }
        if parent := parent_words(directory):
            card["trained_on_from"] = parent
        directory.write_model(run_state.best, {**card, "digest": card_digest(card)})
    if run_state.best_condensed:
        assert run_state.best_round is not None
        about = About(
            config, run_state.best_round, agreement.classes, agreement.dimension, agreement.features
        )
        artefact_of(config.spec).write(directory.path, run_state.best_condensed, about)
    if run_state.state is not None:
        for name, text in method.documents(run_state.state, context).items():
            directory.write_document(name, text)
    directory.write_summary(summary)
    write_model_card(directory)
    if report:
        write_report([directory.path], directory.path / "report.html")
    return summary


def summarise(
    rows: list[RoundRow],
    context: ServerContext,
    method: ServerMethod,
    run_state: RunState,
    closing: Traffic,
) -> Summary:
    """The figures of a run; those of the best round are at the released round."""
    config, agreement = context.settings, run_state.agreement
    assert agreement is not None
    best = next((row for row in rows if row.round == run_state.best_round), None)
    last = rows[-1] if rows else None
    tokens = run_state.tokens
    seconds = [row.seconds for row in rows]
    return Summary(
        method=config.method,
        data=", ".join(Path(one).name for one in parts(config.data.source) if one) or OWN,
        clients=max((row.clients_ok for row in rows), default=0),
        rounds=len(rows),
        ratio=config.ratio if config.condenses else None,
        seed=config.seed,
        best_round=run_state.best_round,
        metric=config.evaluation.metric,
        **{
            name: getattr(best, name, None)
            for name in (f"{subset}_{column(metric)}" for subset in SUBSETS for metric in METRICS)
        },
        test_classes=[
            {"class": name, **scores}
            for name, scores in zip(agreement.classes, run_state.best_classes, strict=False)
        ]
        or None,
        split=split_words(config.data.split, len(run_state.drawn), len(run_state.stated)),
        run=run_state.run,
        flower_run=context.flower_run,
        link_candidates=_link_candidates(run_state),
        engine=config.engine,
        val_spread=best.val_spread if best else None,
        test_spread=best.test_spread if best else None,
        test_ece=best.test_ece if best else None,
        test_reliability=run_state.best_reliability.get("test") or None,
        val_reliability=run_state.best_reliability.get("val") or None,
        privacy=method.guarantee(run_state.state, context)
        or spent(
            config,
            sum(phase.sums for phase in course(method, len(rows), context)),
            sum(value.numel() for value in run_state.best.values()),
        ),
        weights_lag=weights_lag(config),
        parameters=_parameters(method.predicting(run_state.best, context), run_state),
        last_test_accuracy=last.test_accuracy if last else None,
        bytes_up=sum(row.bytes_up for row in rows) + closing.up,
        bytes_down=sum(row.bytes_down for row in rows) + closing.down,
        encoder_tokens=tokens.get("encoder"),
        llm_tokens=tokens.get("llm"),
        llm_tokens_full_text=tokens.get("llm_full_text"),
        llm_tokens_two_hop=tokens.get("llm_two_hop"),
        llm_summaries=tokens.get("llm_summaries"),
        seconds=sum(seconds),
        seconds_per_round=statistics.median(seconds) if seconds else None,
        peak_rss_mb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
        versions={
            "python": platform.python_version(),
            **installed_versions(PACKAGES),
            **releases(run_state.releases, packages(config)),
        },
    )


def _parameters(model: Mapping[str, Tensor], run_state: RunState) -> int | None:
    """Of the largest network that a client has; else of the model that predicts, if one is released.

    None where clients keep networks of their own to themselves.
    """
    reported = [one.get("columns", {}).get("parameters") for one in run_state.contributed.values()]
    own = [count for count in reported if count is not None]
    if run_state.users is not None and not own:
        return None
    return max(own, default=sum(value.numel() for value in model.values()) or None)


def _link_candidates(run_state: RunState) -> str | None:
    """How clients found the candidates of the links of their condensed graphs; None where no client tells."""
    told = [one.get("condensation", {}).get("approximate") for one in run_state.contributed.values()]
    known = [approximate for approximate in told if approximate is not None]
    if not any(known):
        return "exact" if known else None
    if all(known):
        return "approximate"
    return f"approximate at {sum(known)} of {len(known)} clients"


def installed_versions(packages: Sequence[str]) -> dict[str, str]:
    """Releases of those packages that this machine has; a server needs no encoder."""
    found: dict[str, str] = {}
    for name in packages:
        with contextlib.suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def releases(reported: Mapping[str, Mapping[str, str]], own: Mapping[str, str]) -> dict[str, str]:
    """The server's releases of what the run is made of, and those of clients that have other ones."""
    others = {
        f"{package} at {client}": version
        for client, found in sorted(reported.items())
        for package, version in sorted(found.items())
        if version != own.get(package)
    }
    return {**own, **others}


def weights_lag(config: RunConfig) -> int | None:
    """By how many rounds the statistics behind the weights are older than the updates; None without statistics."""
    if config.aggregation.weights != "distribution-aware":
        return None
    return 1 if config.aggregation.statistics == "previous" else 0
