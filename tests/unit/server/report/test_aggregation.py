"""The section on aggregation: weights over rounds, who was left out, what the server learned, what protects."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from fedtag.server.report.page import render_report
from fedtag.server.report.run_view import view_run
from fedtag.server.tracking.disclosures import Crossing, Disclosure
from fedtag.server.tracking.rows import ClientRow
from fedtag.server.tracking.run_directory import RunDirectory

Make = Callable[..., RunDirectory]


def rewrite(run: RunDirectory, change: Callable[[ClientRow], ClientRow]) -> None:
    """Change every row of clients.jsonl."""
    rows = [change(row) for row in run.read_clients()]
    (run.path / "clients.jsonl").unlink()
    run.append_clients(rows)


def page(run: RunDirectory) -> str:
    return render_report([view_run(run.path, "run")])


def captions(text: str) -> list[str]:
    return re.findall(r"<figcaption>([^<]*?) ?(?:<span|</fig)", text)


def aware(row: ClientRow) -> ClientRow:
    """Statistics that grow with the round and differ by client, as do local steps."""
    place = len(row.client)
    steps = 3 + place % 2
    return replace(
        row,
        steps=steps,
        normaliser=2.5 * steps,
        statistics={"divergence": row.round + place / 100, "similarity": 0.5},
    )


def test_weights_are_drawn_and_other_numbers_where_there_are_any(make_run: Make) -> None:
    run = make_run()
    assert captions(page(run))[-1] == "Weight of each client"
    rewrite(run, aware)
    text = page(run)
    assert captions(text)[-4:] == [
        "Weight of each client",
        "Divergence of each client",
        "Local steps of each client",
        "Normaliser of each client",
    ]
    assert "charité: 1.070 in round 1, 30.070 in round 30;" in text
    assert "charité: 4 in round 1, 4 in round 30;" in text
    assert "charité: 10.000 in round 1" in text


def test_equal_steps_are_a_sentence_and_no_plot(make_run: Make) -> None:
    run = make_run()
    rewrite(run, lambda row: replace(row, steps=3, normaliser=3.0))
    text = page(run)
    assert "Every client took 3 local steps in each round." in text
    assert "Local steps of" not in text
    assert "Normaliser of" not in text
    # With plain SGD the normaliser is the number of steps.
    rewrite(run, lambda row: replace(row, steps=len(row.client), normaliser=float(len(row.client))))
    text = page(run)
    assert "Local steps of" in text
    assert "Normaliser of" not in text


def test_many_clients_stay_readable(make_run: Make) -> None:
    run = make_run(clients=tuple(f"client-{k:02d}" for k in range(50)), rounds=6)
    rewrite(run, aware)
    rewrite(run, lambda row: replace(row, weight=int(row.client[-2:]) / 1225))
    text = page(run)
    assert (
        "in round 6 the largest is that of client-49 (0.040), the smallest that of client-00 (0.000)" in text
    )
    assert text.count("<bdi>middle half</bdi>") == 3
    assert text.count("<bdi>client-49</bdi>") == 1


def test_clients_that_were_not_drawn_leave_gaps(make_run: Make) -> None:
    def drawn(row: ClientRow) -> ClientRow:
        return replace(row, weight=0.5 if row.round % 2 else 0.0)

    sampled = make_run("sampled", settings={"train": {"client-fraction": 0.5}}, rounds=5)
    rewrite(sampled, drawn)
    assert "charité: 0.500 in round 1, 0.500 in round 5;" in page(sampled)
    everyone = make_run("everyone", rounds=4)
    rewrite(everyone, drawn)
    assert "charité: 0.500 in round 1, 0.000 in round 4;" in page(everyone)


def test_who_was_left_out_and_why(make_run: Make) -> None:
    run = make_run(failing="the update has values that are not finite")
    run.append_clients(
        [
            ClientRow(30, "charité", None, None, None, None, None, {}, weight=0.2, failed="no reply"),
            ClientRow(1, "library", 7, 0, None, None, None, {}, weight=0.0),
        ]
    )
    text = page(run)
    table = text[text.index("<h4>Who was left out") : text.index("<h4>Privacy")]
    cells = re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", table)
    plain = [re.sub(r"<[^>]*>", "", cell) for cell in cells]
    assert plain == [
        *("Client", "Reason", "Times", "Rounds"),
        *("charité", "the update has values that are not finite", "4", "3, 10, 17, 24"),
        *("charité", "no reply", "1 (1 scores only)", "30"),
    ]
    assert "Scores only: the update had been combined" in table
    assert "Without a training node, and so without weight: <bdi>library</bdi>." in table
    assert "Every client that was asked contributed." not in text
    assert "Every client that was asked contributed." in page(make_run("whole"))


def test_what_the_server_learned_stands_apart(make_run: Make) -> None:
    run = make_run(rounds=4)
    sealed = [Crossing("charité", "مستشفى", 2, 40)]
    run.append_disclosures(
        [Disclosure.of(2, "train", "shares", sealed, "nothing to the server", "encrypted")]
    )
    text = page(run)
    learned = text[text.index("What the server learned") : text.index("What the clients received")]
    received = text[text.index("What the clients received") : text.index("Configuration")]

    def table(part: str) -> list[list[str]]:
        body = part[part.index("<tbody>") :]
        return [
            [re.sub(r"<[^>]*>", "", cell) for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", line)]
            for line in re.findall(r"<tr>.*?</tr>", body)
        ]

    senders = "charité, hospital-north and 3 more"
    change = "the change of the model by local training"
    assert table(learned)[:1] + table(learned)[2:] == [
        ["update", senders, "masked", change, "20", "7.46 MB", "4 (1–4)"],
        ["schema", senders, "none", "names of classes, feature dimension", "5", "600 B", "1 (round 0)"],
    ]
    assert table(received) == [
        ["model", "server", senders, "none", "the global model", "20", "7.44 MB", "4 (1–4)"],
        ["shares", "charité", "مستشفى", "encrypted", "nothing to the server", "2", "40 B", "1 (round 2)"],
    ]
    # Each record stands in one table only.
    assert text.count(change) == 1


def test_the_guarantee_is_shown_where_there_is_one(make_run: Make) -> None:
    privacy = {"epsilon": 2.0, "delta": 1e-6, "mode": "distributed", "unit": "institution", "rounds": 30}
    text = page(make_run("private", privacy=privacy))
    assert "with ε = 2 and δ = 1e-06.</strong>" in text
    assert "No node-level or edge-level guarantee is claimed." in text
    assert "differentially private" not in page(make_run("open"))


def test_settings_are_told_in_words(make_run: Make) -> None:
    tables: dict[str, Any] = {
        "aggregation": {"weights": "uniform", "normalise": "fednova", "rule": "mean"},
        "privacy": {"secure-aggregation": True, "roster": True, "hide-statistics": False},
    }
    text = page(make_run(settings=tables))
    for part in (
        "weigh the same (uniform).",
        "(FedNova).",
        "no single one (secure aggregation).",
        "found out.",
    ):
        assert part in text


def test_lag_of_the_summary_counts(make_run: Make) -> None:
    run = make_run(settings={"aggregation": {"weights": "distribution-aware", "statistics": "current"}})
    assert "arrive with the update" in page(run)
    path = run.path / "summary.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "weights_lag": 1}))
    assert "are those of the round before" in page(run)


@pytest.mark.parametrize("name", ["<script>", "{{ 1 + 1 }}"])
def test_hostile_reasons_stay_text(make_run: Make, name: str) -> None:
    run = make_run(clients=(name, "b"), failing="<img src=x>")
    rewrite(run, aware)
    text = page(run)
    assert text.count("<script") == text.count("</script>") == 5, "the page's own"
    assert "<img" not in text
    assert "&lt;img src=x&gt;" in text
