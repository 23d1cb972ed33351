"""A membership audit on the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from fedtag.common.wording.privacy import (
    LEFT,
    TERMS,
    attack_rows,
    conclusions,
    control_sentences,
    population_sentence,
    strongest,
    strongest_on_first,
    verdict,
)
from fedtag.deploy.terminal.console import say
from fedtag.server.state.progress import percentage


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
                percentage(target["test_accuracy"]),
            )
    console.print(table)
    show_rounds(console, record)
    for sentence, good in control_sentences(record):
        say(console, sentence, "" if good else "yellow")
    for target in record["targets"]:
        say(console, verdict(target), "bold")
    for sentence in conclusions(record):
        say(console, sentence, "bold")
    say(console, LEFT)


def show_rounds(console: Console, record: Mapping[str, Any]) -> None:
    """The strongest attack of each round that was attacked; nothing where none was."""
    rounds = record.get("over_rounds", ())
    if not rounds:
        return
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("round", justify="right")
    table.add_column("target", overflow="fold")
    table.add_column("strongest attack", no_wrap=True)
    for name in ("AUC", "95% interval", "test accuracy"):
        table.add_column(name, justify="right", no_wrap=True)
    for one in rounds:
        for target in one["targets"]:
            best = strongest_on_first(target)
            table.add_row(
                str(one["round"]),
                Text(best.target),
                Text(best.attack),
                f"{best.auc:.3f}",
                best.interval,
                f"{target['test_accuracy']:.1%}",
            )
    console.print(table)
