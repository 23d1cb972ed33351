"""The model card, for finished and unfinished runs and hostile names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from fedtag.server.tracking.disclosure_table import disclosure_totals, listed
from fedtag.server.tracking.disclosures import Crossing, Disclosure, Protection
from fedtag.server.tracking.markdown import cell
from fedtag.server.tracking.model_card import model_card, write_model_card
from fedtag.server.tracking.rows import ClientRow, RoundRow, Summary
from fedtag.server.tracking.run_directory import RunDirectory


def finished_run(path: Path, client: str, chosen: bool = True) -> RunDirectory:
    run = RunDirectory(path)
    run.write_config({"run": {"method": "dance", "data": "cora"}})
    run.append_round(
        RoundRow(
            1,
            0.5,
            0.8125,
            0.75,
            0.625,
            1.5,
            {},
            10,
            20,
            2,
            0,
            test_ece=0.0375,
            selection=0.8 if chosen else None,
            val_spread=0.02,
        )
    )
    run.append_round(
        RoundRow(2, 0.4, 0.7, 0.875, 0.6, 1.5, {}, 10, 20, 2, 0, selection=0.7 if chosen else None)
    )
    run.append_clients([ClientRow(1, client, 541, 325, 0.8125, None, None, {})])
    run.append_disclosures(
        [
            Disclosure.of(
                n, "train", "update", [Crossing(client, "server", 1, 1000)], "the | update", "masked"
            )
            for n in (1, 2)
        ]
    )
    return run


def test_card_holds_the_numbers_of_the_chosen_round(tmp_path: Path) -> None:
    run = finished_run(tmp_path / "run", "north")
    run.write_model(
        {"w": torch.zeros(2)},
        {"classes": ["theory", "neural"], "encoder": "mini-lm", "hidden": 64, "scoring": "graph"},
    )
    scores = (1, 0.8125, 0.75, 0.625, 0.875)
    tokens, versions = (None, None, None), {"torch": "2.13"}
    run.write_summary(
        Summary(
            *("dance", "cora", 2, 2, 0.08, 7, *scores, 20, 40, *tokens, 3.0, 1.5, 99.0, versions),
            val_spread=0.02,
        )
    )
    text = write_model_card(run).read_text(encoding="utf-8")
    for line in (
        "| accuracy | validation | 81.25% ± 2.0 over clients | 1 |",
        "| accuracy | test | 75.00% | 1 |",
        "| macro-F1 | test | 62.50% | 1 |",
        "| expected calibration error | test | 3.75% | 1 |",
        "| accuracy | test | 87.50% | 2 (last) |",
        "| north | 541 | 325 | 81.25% | – | – |",
        r"| update | north | server | 2 | 2,000 | the \| update | masked |",
        "# dance on cora",
        "| Hidden | 64 |",
        "| Scoring | graph: the backbone on the original graph with texts that are not fused |",
        "1. neural",
        "- torch 2.13",
    ):
        assert line in text.splitlines()
    assert "has not finished" not in text
    assert "Nothing in the table above was noised" in text
    assert "- Predictions support a person's decision and do not replace it." in text.splitlines()


def test_card_says_what_was_generated_and_what_was_noised(tmp_path: Path) -> None:
    run = finished_run(tmp_path / "run", "north")
    run.append_disclosures(
        [Disclosure.of(2, "train", "core", [Crossing("north", "server", 1, 9)], "the core", "noised")]
    )
    scores = (1, 0.8125, 0.75, 0.625, 0.875)
    tokens = (None, 1000, 3000)
    counts = {"llm_tokens_two_hop": 9000, "llm_summaries": 10}
    run.write_summary(
        Summary("dance", "cora", 1, 2, 0.08, 7, *scores, 20, 40, *tokens, 3.0, 1.5, 99.0, {}, **counts)
    )
    text = model_card(run)
    for line in (
        "| the selected chunks | 100 | generated |",
        "| the selected neighbours' full texts | 300 | counted, not generated |",
        "The chunks take 67% fewer tokens than the full texts.",
    ):
        assert line in text.splitlines()
    assert "10 summaries were written" in text
    assert "reused ones included" in text
    assert "Only what the table above marks as noised was protected by noise" in text
    assert "over 1 institution." in text


def private_run(path: Path, **spent: Any) -> RunDirectory:
    """Central differential privacy: validation is best in round 2 of 3, the last model is released."""
    run = finished_run(path, "north", chosen=False)
    run.write_config({"method": "fedavg", "privacy": {"dp": {"mode": "central"}}})
    run.append_round(RoundRow(3, 0.4, 0.6, 0.5, 0.6, 1.5, {}, 10, 20, 2, 0, test_ece=0.25))
    if spent:
        scores = (3, 0.6, 0.5, 0.6, 0.5)
        tokens = (None, None, None)
        run.write_summary(
            Summary("fedavg", "c", 2, 3, None, 7, *scores, 20, 40, *tokens, 3.0, 1.5, 9.0, {}, privacy=spent)
        )
    return run


def test_card_states_the_guarantee_and_what_it_leaves_out(tmp_path: Path) -> None:
    spent = {"epsilon": 2.0, "delta": 1e-5, "unit": "one institution", "mode": "central", "rounds": 3}
    text = model_card(private_run(tmp_path / "run", **spent))
    (line,) = (line for line in text.splitlines() if line.startswith("**The global models of 3 rounds"))
    assert "for one institution, with ε = 2 and δ = 1e-05.**" in line
    assert "It does not hold towards the server" in line
    assert "No node-level or edge-level guarantee is claimed." in line
    assert "Reported scores, losses and counts of nodes are outside of it" in line
    assert "No round was chosen, the newest model is released" in text
    assert "| expected calibration error | test | 25.00% | 3 |" in text.splitlines()
    assert "is stated under Privacy." in text
    for wrong in ("carries no differential privacy", "chosen by validation", "was noised"):
        assert wrong not in text


def test_card_without_a_bound_or_an_end_claims_nothing(tmp_path: Path) -> None:
    spent = {"epsilon": None, "delta": 1e-5, "unit": "one institution", "mode": "central", "rounds": 3}
    assert "this run has no guarantee.**" in model_card(private_run(tmp_path / "unbounded", **spent))
    text = model_card(private_run(tmp_path / "unfinished"))
    assert "computed when the run has finished" in text
    assert "(ε, δ)" not in text
    assert "| accuracy | test | 50.00% | 3 |" in text.splitlines()


def test_card_of_an_unfinished_run_says_so(tmp_path: Path) -> None:
    text = model_card(finished_run(tmp_path / "run", "north"))
    assert "The run has not finished" in text
    assert "| accuracy | test | 75.00% | 1 |" in text
    assert "The run did not record names of classes." in text
    started = RunDirectory(tmp_path / "started")
    assert "disclosures.jsonl holds no record." in model_card(started)


def test_names_cannot_break_the_card(tmp_path: Path) -> None:
    text = model_card(finished_run(tmp_path / "run", "x | y\n# <script>[a](b)"))
    assert "\n# <script>" not in text
    assert r"x \| y \# \<script\>\[a\](b)" in text
    assert cell("`a`\\_*") == r"\`a\`\\\_\*"


def test_totals_keep_directions_and_protections_apart() -> None:
    def row(number: int, protected: Protection, *crossings: Crossing) -> Disclosure:
        return Disclosure.of(number, "train", "update", crossings, "the update", protected)

    rows = [
        row(1, "none", Crossing("a", "server", 1, 10), Crossing("b", "server", 3, 20)),
        row(2, "masked", Crossing("b", "server", 1, 20)),
        row(2, "none", Crossing("server", "a", 1, 5)),
    ]
    totals = disclosure_totals(rows)
    assert [(t.senders, t.receivers, t.count, t.bytes, t.protected) for t in totals] == [
        (("a", "b"), ("server",), 4, 30, "none"),
        (("b",), ("server",), 1, 20, "masked"),
        (("server",), ("a",), 1, 5, "none"),
    ]
    assert (totals[0].first_round, totals[1].last_round) == (1, 2)
    assert sum(t.bytes for t in totals) == sum(row.bytes for row in rows)


def test_long_lists_of_names_are_cut() -> None:
    assert listed(["a", "b", "c"]) == "a, b, c"
    assert listed(["a", "b", "c", "d"]) == "a, b and 2 more"
    assert listed([]) == ""
