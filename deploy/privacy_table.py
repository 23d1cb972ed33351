"""A membership audit on the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from deploy.console import say
from server.report.privacy_words import (
    LEFT,
    TERMS,
    attack_rows,
    conclusions,
    control_sentences,
    population_sentence,
    strongest,
    verdict,
)


def show_audit(console: Console, record: Mapping[str, Any]) -> None:
    """Whom it compared, every attack on every target, controls, and what follows."""
    say(console, population_sentence(record), "bold")
    for sentence in TERMS:
        say(console, sentence, "dim")
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("target", overflow="fold")
    table.add_column("members", overflow="fold")
    table.add_column("attack", no_wrap=True)
    for name in ("AUC", "95% interval", "TPR at 1% FPR", "test accuracy"):
        table.add_column(name, justify="right", no_wrap=True)
    for target in record["targets"]:
        rows = attack_rows(target)
        for row in rows:
            best = row is strongest([one for one in rows if one.group == row.group])
            table.add_row(
                Text(row.target),
                Text(row.group),
                Text(row.attack),
                Text(f"{row.auc:.3f}", style="bold" if best else ""),
                row.interval,
                row.low_rate_words,
                f"{target['test_accuracy']:.1%}",
            )
    console.print(table)
    for sentence, good in control_sentences(record):
        say(console, sentence, "" if good else "yellow")
    for target in record["targets"]:
        say(console, verdict(target), "bold")
    for sentence in conclusions(record):
        say(console, sentence, "bold")
    say(console, LEFT)
