"""The faithfulness of evidence on the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from fedtag.common.wording.counts import plural
from fedtag.common.wording.faithfulness import (
    PREDICTORS,
    TERMS,
    churn_sentences,
    comparison_sentences,
    condition_rows,
    goal_rows,
    guarantee_sentences,
    verdict_sentences,
)
from fedtag.deploy.terminal.console import say


def show_measures(console: Console, summary: Mapping[str, Any], title: str) -> None:
    """Conditions, goals, compactness and the checks of one site or run, for a person."""
    say(
        console,
        f"{title}: faithfulness on {plural(summary['targets'], 'test node')}, round {summary['round']}",
        "bold",
    )
    for sentence in TERMS:
        say(console, sentence, "dim")
    for key, heading in PREDICTORS.items():
        report = summary["reports"].get(key)
        if report is None:
            say(
                console, "This model has no bypass: nothing but the selection and the graph state reaches it."
            )
            continue
        say(console, heading)
        for sentence in verdict_sentences(report):
            say(console, sentence, "bold")
        table = Table(box=None, pad_edge=False, header_style="dim")
        table.add_column("read from", overflow="fold")
        for name in ("accuracy", "of full text", "drop in p"):
            table.add_column(name, justify="right", no_wrap=True)
        for row in condition_rows(report):
            ratio = "–" if row.ratio is None else f"{row.ratio:.1%}"
            drop = "–" if row.drop is None else f"{row.drop:+.3f}"
            table.add_row(Text(row.words), f"{row.accuracy:.1%}", ratio, drop)
        console.print(table)
        for goal in goal_rows(report):
            style = {"met": "green", "not met": "red"}.get(goal.verdict, "yellow")
            say(console, goal.sentence, style)
        for sentence in comparison_sentences(report):
            say(console, sentence)
    sizes = summary["sizes"]
    say(
        console,
        "A node's evidence: "
        f"{sizes['selected_nodes']:.1f} of {sizes['candidate_nodes']:.1f} candidate nodes, "
        f"{sizes['selected_chunks']:.1f} of {sizes['candidate_chunks']:.1f} chunks, "
        f"{sizes['selected_tokens']:.0f} of {sizes['candidate_tokens']:.0f} tokens "
        f"({sizes['neighbourhood_tokens']:.0f} within two hops)",
    )
    for sentence in (*guarantee_sentences(summary["guarantees"]), *churn_sentences(summary["churn"])):
        say(console, sentence)
