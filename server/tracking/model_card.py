"""README.md of a run directory: the model card."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedtag.common.config import flatten
from fedtag.common.errors import ConfigError
from fedtag.common.methods.spec import METHODS
from fedtag.common.wording.engine import engine_words
from fedtag.common.wording.features import ENCODER, features_words
from fedtag.common.wording.guarantee import guarantee_sentences
from fedtag.common.wording.masked_sums import SPOILABLE, spoilable
from fedtag.common.wording.scoring import ACCURACY, METRICS, SCORING, chosen_by, column
from fedtag.server.tracking.audit_section import audit_section
from fedtag.server.tracking.card_template import TEMPLATE
from fedtag.server.tracking.class_table import read_classes
from fedtag.server.tracking.disclosure_table import disclosure_totals
from fedtag.server.tracking.durable_files import encoded, write_atomically
from fedtag.server.tracking.markdown import template
from fedtag.server.tracking.membership_audit import read_audit
from fedtag.server.tracking.parent import parent_words
from fedtag.server.tracking.rows import ClientRow, RoundRow, Summary, best_round
from fedtag.server.tracking.run_directory import SUMMARY, RunDirectory

CARD = "README.md"
SHOWN_APART = ("classes", "sha256", "tensors", "method", "seed")


def write_model_card(run: RunDirectory) -> Path:
    """Write README.md from what the run directory holds; the run may be unfinished.

    From model.json it takes `classes` (names in the order of the outputs), and shows every other plain entry as a
    line of the first table; it says what the way of scoring means, and what made the features.
    """
    path = run.path / CARD
    write_atomically(path, encoded(model_card(run)))
    return path


def model_card(run: RunDirectory) -> str:
    """The model card as Markdown; names from clients are escaped."""
    summary, config, facts = run.read_summary(), run.read_config(), run.read_model_card()
    rounds, clients = run.read_rounds(), run.read_clients()
    private = is_noised(flatten(config), summary)
    best = released_round(rounds, summary)
    audit = read_audit(run)
    chosen = summary.best_round if summary else (best.round if best else None)
    if parent := parent_words(run):
        facts = {**facts, "trained_on_from": parent}
    encoder = flatten(config).get("text.encoder")
    plain = [
        (field_name(key), explained(key, value, encoder))
        for key, value in facts.items()
        if key not in SHOWN_APART and is_plain(value)
    ]
    method = summary.method if summary else setting(config, "method")
    data = summary.data if summary else setting(config, "data", "")
    scored = summary or best
    return template(TEMPLATE).render(
        title=f"{method} on {data}" if data else method,
        summary=summary,
        method=method,
        data=data or "unknown",
        clients=summary.clients if summary else len({row.client for row in clients}),
        rounds=summary.rounds if summary else len(rounds),
        ratio=summary.ratio if summary else setting(config, "ratio", None),
        seed=summary.seed if summary else setting(config, "seed"),
        facts=plain,
        classes=facts.get("classes"),
        encoder=encoder if str(facts.get("features")).startswith(ENCODER) else None,
        val_accuracy=scored.val_accuracy if scored else None,
        test_accuracy=scored.test_accuracy if scored else None,
        metric=METRICS[chosen_by(config)],
        others=[
            (title, getattr(scored, f"test_{column(name)}", None))
            for name, title in METRICS.items()
            if name != ACCURACY
        ],
        class_rows=read_classes(summary.test_classes, f"test_classes of {run.path / SUMMARY}")
        if summary
        else (),
        val_spread=scored.val_spread if scored else None,
        test_spread=scored.test_spread if scored else None,
        chosen=best is not None and best.selection is not None,
        test_ece=best.test_ece if best else None,
        best_round="none" if chosen is None else chosen,
        last_round=rounds[-1].round if rounds else "none",
        last_test_accuracy=rounds[-1].test_accuracy if rounds else None,
        client_rows=rows_at(clients, chosen),
        totals=disclosure_totals(run.read_disclosures()),
        private=private,
        spoilable=SPOILABLE if spoilable(flatten(config)) else None,
        guarantee=guarantee_sentences(summary.privacy) if summary and summary.privacy else [],
        at_once=engine_words(summary.engine) if summary else "",
        audit=audit_section(audit) if audit is not None else None,
        versions=sorted(summary.versions.items()) if summary else [],
    )


def is_noised(settings: Mapping[str, Any], summary: Summary | None) -> bool:
    """Whether a run has, or will have, differential privacy.

    Args:
        settings: by dotted key.
        summary: None where the run has not finished.
    """
    if settings.get("privacy.dp.mode", "off") != "off" or (summary is not None and summary.privacy):
        return True
    try:
        return bool(METHODS.get(str(settings.get("method"))).noises(settings))
    except ConfigError:
        # Nothing is known of a method that is not installed.
        return False


def released_round(rounds: list[RoundRow], summary: Summary | None) -> RoundRow | None:
    """The row of the round whose model is released, or would be if the run ended now.

    Args:
        rounds: of metrics.jsonl.
        summary: None where the run has not finished.
    """
    if summary is not None:
        return next((row for row in rounds if row.round == summary.best_round), None)
    return best_round(rounds)


def rows_at(rows: list[ClientRow], round_number: int | None) -> list[ClientRow]:
    """The clients' rows of a round, ordered by client."""
    return sorted((row for row in rows if row.round == round_number), key=lambda row: row.client)


def field_name(key: str) -> str:
    """An entry of model.json as the name of a line, in the case of the others."""
    words = key.replace("_", " ").replace("-", " ")
    return words[:1].upper() + words[1:]


def explained(key: str, value: object, encoder: str | None = None) -> object:
    """The value of an entry of model.json, with the meaning of a way of scoring and the name of the encoder."""
    if key == "features":
        return features_words(str(value), encoder)
    return f"{value}: {SCORING[value]}" if key == "scoring" and value in SCORING else value


def setting(config: Mapping[str, Any], name: str, default: Any = "unknown") -> Any:
    """A plain setting at the top of config.toml or in its table `run`."""
    for table in (config, config.get("run", {})):
        if isinstance(table, Mapping) and is_plain(table.get(name)):
            return table[name]
    return default


def is_plain(value: object) -> bool:
    """Whether a value fits in a cell of a table."""
    return isinstance(value, str | int | float | bool)
