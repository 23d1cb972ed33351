"""The report page: complete, self-contained, escaped, the same twice."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pandas as pd
import pytest

from fedtag.common.config import RunConfig
from fedtag.common.errors import RunError
from fedtag.server.pages.wording import duration, percent, size, spans
from fedtag.server.report.account import Reference, account
from fedtag.server.report.page import named, write_report
from fedtag.server.report.phases import distinguishable
from fedtag.server.report.run_view import view_run
from fedtag.server.tracking.row_objects import row_to_object
from fedtag.server.tracking.rows import ClientRow
from fedtag.server.tracking.run_directory import RunDirectory
from fedtag.server.tracking.status import RunStatus, write_status
from tests.unit.server.report.conftest import CLIENTS

Make = Callable[..., RunDirectory]
VOID = {"meta", "line", "path", "use", "rect", "stop", "br", "input", "img"}
LOADING = {"src", "srcset", "data", "action", "background", "poster"}


class Page(HTMLParser):
    """What a browser would see: balanced elements, ids, attributes, text."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.scripts: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if not self.open or self.open[-1] not in ("style", "script"):
            self.words.append(data)
        elif self.open[-1] == "script":
            self.scripts.append(data)

    @property
    def data(self) -> dict[str, Any]:
        """What the page's charts are drawn from."""
        found: dict[str, Any] = json.loads(self.scripts[0])
        return found

    @property
    def text(self) -> str:
        return re.sub(r"\s+", " ", " ".join(self.words))


def rendered(runs: list[RunDirectory], out: Path) -> tuple[str, Page]:
    write_report([run.path for run in runs], out)
    text = out.read_text(encoding="utf-8")
    return text, Page(text)


def test_one_run_shows_all_its_numbers(make_run: Make, tmp_path: Path) -> None:
    run = make_run(failing="timeout: no reply within 600 s")
    _, page = rendered([run], tmp_path / "out" / "report.html")
    summary = run.read_summary()
    assert summary is not None
    for value in (
        summary.test_accuracy,
        summary.val_accuracy,
        summary.test_macro_f1,
        summary.last_test_accuracy,
    ):
        assert percent(value) in page.text
    for value in (summary.bytes_up, summary.bytes_down, summary.bytes_up + summary.bytes_down):
        assert size(value) in page.text
    assert duration(summary.seconds) in page.text
    assert f"at round {summary.best_round}, chosen by validation" in page.text
    for row in run.read_clients():
        if row.round == summary.best_round:
            assert f"{row.train_nodes} / {row.val_nodes} / {row.test_nodes}" in page.text
            assert percent(row.test_accuracy) in page.text
            assert percent(row.test_macro_f1) in page.text
            assert percent(row.scores["test_accuracy_evidence"]) in page.text
    for item in run.read_disclosures():
        assert item.reveals in page.text
    total = sum(item.bytes for item in run.read_disclosures() if item.kind == "update")
    assert size(total) in page.text
    assert "timeout: no reply within 600 s" in page.text
    assert "3, 10, 17, 24" in page.text
    for key, value in (
        ("dance.core-policy", "coverage"),
        ("train.learning-rate", "0.01"),
        ("torch", "2.13.0"),
    ):
        assert f"{key} {value}" in page.text


def test_several_runs_start_with_a_comparison(make_run: Make, tmp_path: Path) -> None:
    runs = [
        make_run("a"),
        make_run("b", method="fedavg", ceiling=0.84),
        make_run("c", method="fedgc", finish=False),
    ]
    text, page = rendered(runs, tmp_path / "report.html")
    assert page.text.index("3 runs compared") < page.text.index("Accuracy Solid: test")
    assert text.count('class="number best"') == 3
    best = re.findall(r'number best">([^<]*)<', text)
    summaries = [run.read_summary() for run in runs]
    expected = max(s.val_accuracy or 0.0 for s in summaries if s is not None)
    unfinished = max(row.val_accuracy or 0.0 for row in runs[2].read_rounds())
    assert best[0] == percent(max(expected, unfinished))
    assert page.text.count("in progress") == 2


def test_a_value_that_all_runs_have_is_not_the_highest(make_run: Make, tmp_path: Path) -> None:
    runs = [make_run(name, rounds=rounds) for name, rounds in (("a", 5), ("b", 5))]
    text, _ = rendered(runs, tmp_path / "report.html")
    assert 'class="number best"' not in text
    runs.append(make_run("c", rounds=5, ceiling=0.6))
    text, _ = rendered(runs, tmp_path / "report.html")
    assert text.count('class="number best"') == 2 * 3, "two runs of three have the highest of three scores"


def test_a_spread_says_whose_it_is(make_run: Make, tmp_path: Path) -> None:
    run = make_run()
    summary = run.read_summary()
    assert summary is not None
    run.write_summary(replace(summary, test_spread=0.103, val_spread=0.031))
    _, page = rendered([run], tmp_path / "report.html")
    assert (
        f"test ± 10.3 over clients; at round {summary.best_round}, chosen by validation accuracy" in page.text
    )
    assert "validation ± 3.1 over clients" in page.text


def test_a_tile_has_a_value(make_run: Make, tmp_path: Path) -> None:
    text, page = rendered([make_run(local=False)], tmp_path / "report.html")
    tiles = re.findall(r'<div class="tile"><dt>(.*?)</dt><dd>(.*?)[<]', text)
    assert len(tiles) == text.count('class="tile"') > 6
    assert all(value not in ("", "–") for _, value in tiles)
    assert "Local models: dance does not score them." in page.text


def test_the_date_and_the_pages_of_evidence(make_run: Make, tmp_path: Path) -> None:
    run = make_run()
    out = tmp_path / "pages" / "report.html"
    _, page = rendered([run], out)
    assert "started" not in page.text
    assert "fedtag audit" not in page.text
    started = "2026-03-01T09:30:12Z"
    write_status(run.path, RunStatus("r", "dance", "finished", 30, 30, 5, "host", 1, started, started))
    evidence = run.path / "sites" / "north" / "evidence"
    evidence.mkdir(parents=True)
    (evidence / "round-30.parquet").touch()
    _, page = rendered([run], out)
    assert "started 2026-03-01 09:30 UTC" in page.text
    assert "The sites kept evidence: fedtag audit RUN" in page.text
    for name in ("audit-north.html", "audit-süd & west.html"):
        (run.path / name).touch()
    _, page = rendered([run], out)
    links = [attributes["href"] for tag, attributes in page.elements if tag == "a"]
    assert [(out.parent / unquote(link or "")).resolve() for link in links] == [
        (run.path / name).resolve() for name in ("audit-north.html", "audit-süd & west.html")
    ]
    assert all("/" in (link or "") and not (link or "").startswith(("/", "file")) for link in links)
    assert "audit-süd & west" in page.text
    assert "fedtag audit RUN" not in page.text


def test_page_loads_nothing_and_runs_what_it_carries_alone(make_run: Make, tmp_path: Path) -> None:
    text, page = rendered([make_run("a"), make_run("b")], tmp_path / "report.html")
    assert "@import" not in text
    assert not re.search(r"url\((?!#)", text)
    for tag, attributes in page.elements:
        assert tag not in {"link", "img", "iframe", "object", "embed", "base"}
        assert not LOADING & set(attributes)
        assert not [name for name in attributes if name.startswith("on")]
        assert (attributes.get("href") or "#").startswith("#")
    (policy,) = [a["content"] or "" for _, a in page.elements if a.get("http-equiv")]
    allowed = set(re.findall(r"'sha256-([^']+)'", policy))
    ran = {base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() for one in page.scripts[1:]}
    assert ran == allowed
    assert len(ran) == 4
    assert "default-src 'none'" in policy
    assert "unsafe-inline" not in policy.split("script-src")[1]
    assert "uPlot (v1.6.32)" in page.scripts[1]


def test_ids_are_unique_and_references_resolve(make_run: Make, tmp_path: Path) -> None:
    text, page = rendered([make_run("a"), make_run("b")], tmp_path / "report.html")
    ids = [attributes["id"] for _, attributes in page.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    targets = [a["href"] for _, a in page.elements if "href" in a]
    targets += [f"#{name}" for name in re.findall(r"url\(#([^)]*)\)", text)]
    assert targets
    assert {target[1:] for target in targets if target} <= {name for name in ids if name}


def test_page_can_be_read_without_seeing_it(make_run: Make, tmp_path: Path) -> None:
    text, page = rendered([make_run()], tmp_path / "report.html")
    images = [attributes for _, attributes in page.elements if attributes.get("role") == "img"]
    charts = page.data["charts"]
    assert len(images) == sum(len(one["panels"]) for one in charts)
    assert all(len(image["aria-label"] or "") > 40 for image in images)
    assert all("scope" in attributes for tag, attributes in page.elements if tag == "th")
    assert text.count("<figcaption>") == len(charts) == 7
    assert '<html lang="en">' in text
    assert "prefers-color-scheme: dark" in text
    assert "@media print" in text


def test_charts_hold_what_the_run_recorded(make_run: Make, tmp_path: Path) -> None:
    run = make_run(failing="lost")
    _, page = rendered([run], tmp_path / "report.html")
    charts = {one["title"]: one for one in page.data["charts"]}
    rounds = pd.DataFrame([row_to_object(row) for row in run.read_rounds()])
    panel = charts["Accuracy"]["panels"][0]
    for series, column in zip(panel["series"], ("test_accuracy", "val_accuracy"), strict=True):
        assert panel["places"][series["x"]] == rounds["round"].tolist()
        assert series["y"] == pytest.approx(rounds[column].tolist(), rel=1e-4)
    up, down = charts["Traffic, cumulative"]["panels"][0]["series"]
    assert up["y"] == pytest.approx((rounds["bytes_up"].cumsum() / 1e6).tolist(), rel=1e-4)
    assert down["y"] == pytest.approx((rounds["bytes_down"].cumsum() / 1e6).tolist(), rel=1e-4)
    phases = charts["Seconds per round, by phase"]["panels"][0]["series"]
    assert np.array([one["y"] for one in phases]).sum(0) == pytest.approx(
        rounds["seconds"].to_numpy(), rel=1e-3
    )
    assert phases[-1]["high"] == pytest.approx(rounds["seconds"].tolist(), rel=1e-3)
    record = page.data["runs"][0]
    clients = pd.DataFrame([row_to_object(row) for row in run.read_clients()])
    table = clients.pivot(index="client", columns="round", values="test_accuracy")
    assert record["clients"] == sorted(CLIENTS) == table.index.tolist()
    assert record["rounds"] == table.columns.tolist()
    found = np.array(record["columns"]["test_accuracy"]["values"], float)
    assert np.allclose(found, table.to_numpy(float), rtol=1e-4, equal_nan=True)
    failed = clients.pivot(index="client", columns="round", values="failed").notna()
    assert (np.array(record["states"]) == 0).tolist() == failed.to_numpy().tolist()
    assert failed.to_numpy().any()


def test_a_few_lines_say_what_happened(make_run: Make, tmp_path: Path) -> None:
    run = make_run(failing="lost", privacy={"epsilon": 2.0, "delta": 1e-5, "rounds": 30})
    view = view_run(run.path, "run")
    references = [Reference("isolated", 0.5, 30), Reference("unscored", None, 30)]
    lines = {line.about: line.said for line in account(view, references)}
    summary, first = run.read_summary(), run.read_rounds()[0]
    assert summary is not None
    assert len(lines) == 10
    assert "30 rounds with 5 clients on cora, seed 7" in lines["Who"]
    rows = [row for row in run.read_clients() if row.round == summary.best_round]
    train, val, test = (
        sum(getattr(row, f"{part}_nodes") or 0 for row in rows) for part in ("train", "val", "test")
    )
    assert lines["On how much"].startswith(f"{train:,} training nodes of ")
    assert lines["On how much"].endswith(
        f"; {val} validation nodes to choose the round, {test} test nodes to test it."
    )
    assert f"Round {summary.best_round} was chosen by accuracy on validation nodes" in lines["Round"]
    assert percent(summary.test_accuracy) in lines["Score"]
    assert percent(first.val_accuracy) in lines["Course"]
    points = 100 * ((summary.test_accuracy or 0) - 0.5)
    assert f"isolated 50.00% (this run {points:.2f} points above)" in lines["Beside others"]
    assert "unscored" not in lines["Beside others"]
    assert lines["What was lost"] == "4 of 150 answers did not come or were refused."
    assert lines["Who was left out"] == "charité (4×) for failures."
    assert "ε = 2" in lines["Privacy"]
    assert size(summary.bytes_up) in lines["What it took"]
    write_report([run.path], tmp_path / "report.html", {run.path: references})
    page = Page((tmp_path / "report.html").read_text(encoding="utf-8"))
    assert all(line in page.text for line in lines.values())
    assert "Beside references" in page.text
    assert page.text.index(lines["What it took"]) < page.text.index("Last round's test")


def test_lines_of_a_quiet_and_of_a_fresh_run(make_run: Make, tmp_path: Path) -> None:
    lines = {line.about: line.said for line in account(view_run(make_run().path, "run"))}
    assert lines["What was lost"] == "Nothing: every client that was asked answered."
    assert lines["Who was left out"] == "Nobody."
    fresh = RunDirectory(tmp_path / "new")
    fresh.write_config({"method": "fedavg"})
    lines = {line.about: line.said for line in account(view_run(fresh.path, "new"))}
    assert lines["Round"] == "No round has been recorded yet."
    assert not re.search(r"\bNone\b|nan", " ".join(lines.values()))


def test_settings_that_are_defaults_are_folded(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "run")
    run.write_config(
        RunConfig.from_flat({"method": "fedavg", "rounds": 7, "train.momentum": 0.5}).to_nested()
    )
    view = view_run(run.path, "run")
    assert dict(view.changed) == {"rounds": "7", "train.momentum": "0.5"}
    text, _ = rendered([run], tmp_path / "report.html")
    shown, folded = text.split("<h3>Configuration</h3>")[1].split("<details>")[:2]
    assert "train.momentum" in shown
    assert "train.momentum" not in folded
    assert "train.weight-decay" in folded


def test_a_long_run_of_many_clients_stays_small_and_says_what_it_leaves_out(
    make_run: Make, tmp_path: Path
) -> None:
    clients = tuple(f"institution-of-some-length-{number:04d}" for number in range(1000))
    run = make_run(rounds=1, clients=clients, finish=False)
    repeat(run.path / "metrics.jsonl", 1000)
    repeat(run.path / "clients.jsonl", 20)
    text, page = rendered([run], tmp_path / "report.html")
    assert len(text.encode()) < 1_500_000
    assert "400 of 1000 clients, those with the lowest test accuracy; all are in clients.jsonl." in page.text
    record = page.data["runs"][0]
    assert f"{len(record['rounds'])} of 20 rounds can be picked here" in page.text
    assert {1, 20} <= set(record["rounds"])
    assert [one for one in page.data["charts"] if "thinned" in one]


def repeat(path: Path, rounds: int) -> None:
    """The lines of the first round as those of so many."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    lines = (json.dumps(row | {"round": number}) for number in range(1, rounds + 1) for row in rows)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def test_hostile_names_stay_text(make_run: Make, tmp_path: Path) -> None:
    clients = (
        "<script>alert(1)</script>",
        "$x^2$",
        "$\\frac",
        '"><img src=x onerror=y>',
        "{{ 7*7 }}",
        "a\x00\u202eb",
    )
    run = make_run("<b>$y_1$&", clients=clients, failing="</td><script>$z$ \ud800")
    text, page = rendered([run, make_run("_hidden")], tmp_path / "report.html")
    assert text.count("<script") == 5
    assert [tag for tag, _ in page.elements].count("script") == 5
    assert "<img" not in text.replace("\\u003cimg", "")
    assert "<script>alert(1)</script>" in page.data["runs"][0]["clients"]
    assert "\x00" not in text
    assert "\u202e" not in text
    for name in (*clients[:5], "<b>$y_1$&", "_hidden", "</td><script>$z$"):
        assert name in page.text
    assert "49" not in re.findall(r"<bdi>(\d+)</bdi>", text)


def test_the_same_runs_make_the_same_bytes(make_run: Make, tmp_path: Path) -> None:
    runs = [make_run("a", failing="x"), make_run("b")]
    first, _ = rendered(runs, tmp_path / "first.html")
    second, _ = rendered(runs, tmp_path / "second.html")
    assert first == second


@pytest.mark.parametrize(
    "options",
    [
        {"rounds": 1},
        {"rounds": 1, "finish": False},
        {"tested": False},
        {"scored": False, "failing": "died"},
        {"rounds": 130, "clients": ("a",)},
        {"rounds": 3, "clients": (), "finish": False},
    ],
)
def test_unusual_runs(make_run: Make, tmp_path: Path, options: dict[str, object]) -> None:
    run = make_run(**options)
    text, page = rendered([run], tmp_path / "report.html")
    assert not re.search(r"\bnan\b|\bNone\b|\binf\b", page.text)
    assert ("in progress" in page.text) == (options.get("finish") is False)
    if options.get("tested") is False:
        assert "No test node was scored." in page.text
        assert not re.search("<dt>Test|local models", text)
    assert "NaN" not in text


def test_a_run_that_has_just_started(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "new")
    run.write_config({"method": "fedavg"})
    _, page = rendered([run], tmp_path / "report.html")
    assert "No round has been recorded yet." in page.text
    assert "No disclosure is recorded." in page.text


def test_a_killed_run_is_shown_up_to_its_last_line(make_run: Make, tmp_path: Path) -> None:
    run = make_run(rounds=5, finish=False)
    with (run.path / "metrics.jsonl").open("ab") as file:
        file.write(b'{"round": 6, "train_l')
    _, page = rendered([run], tmp_path / "report.html")
    assert "5 rounds so far" in page.text


def test_a_client_outside_the_round_and_one_that_failed_in_it(make_run: Make, tmp_path: Path) -> None:
    run = make_run(rounds=2, finish=False)
    best = max(run.read_rounds(), key=lambda row: row.val_accuracy or 0.0).round
    run.append_clients(
        [
            ClientRow(3 - best, "absent", 5, 3, 0.5, 0.5, 0.5, {}),
            ClientRow(best, "broken", None, None, None, None, None, {}, failed="out of memory"),
        ]
    )
    _, page = rendered([run], tmp_path / "report.html")
    assert "not in this round" in page.text
    assert "failed (1 of 1 failed)" in page.text
    assert "out of memory" in page.text


def test_empty_rounds_are_told(make_run: Make, tmp_path: Path) -> None:
    run = make_run(rounds=4, finish=False)
    path = run.path / "metrics.jsonl"
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    for row in rows[1:3]:
        row["empty"] = True
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    _, page = rendered([run], tmp_path / "report.html")
    assert "No client contributed in rounds 2–3." in page.text


def test_what_cannot_be_reported(make_run: Make, tmp_path: Path) -> None:
    with pytest.raises(RunError, match="a report of no run was asked for"):
        write_report([], tmp_path / "report.html")
    with pytest.raises(RunError, match="is not a folder"):
        write_report([make_run().path, tmp_path / "nowhere"], tmp_path / "report.html")
    assert not (tmp_path / "report.html").exists()


def test_runs_of_the_same_name_are_told_apart(make_run: Make, tmp_path: Path) -> None:
    _, page = rendered([make_run("a/run", rounds=2), make_run("b/run", rounds=2)], tmp_path / "report.html")
    assert "a/run" in page.text
    assert "b/run" in page.text


def test_names_are_the_shortest_ends_that_tell_all_runs_apart() -> None:
    def names(*paths: str) -> list[str]:
        return [name for _, name in named([Path(path) for path in paths])]

    assert names("/c/dance-8/cora/seed-0") == ["seed-0"]
    assert names("/c/dance-8/cora/seed-0", "/c/dance-8/cora/seed-1") == ["seed-0", "seed-1"]
    assert names("/c/dance-8/cora/seed-0", "/c/FedAvg/cora/seed-0", "/c/FedAvg/cora/seed-1") == [
        "dance-8/cora/seed-0",
        "FedAvg/cora/seed-0",
        "FedAvg/cora/seed-1",
    ]
    assert names("/c/one", "/c/one") == ["one", "one"]


def test_no_two_phases_share_a_colour() -> None:
    phases = [f"p{number}" for number in range(10)]
    layers = [[float(10 - number), 1.0] for number in range(10)]
    names, shown, folded = distinguishable([*phases, "other"], [*layers, [0.5, 0.5]])
    assert names == [*phases[:7], "other"]
    assert folded == phases[7:]
    assert shown[:7] == layers[:7]
    assert shown[7] == [3.0 + 2.0 + 1.0 + 0.5, 3.5]
    assert distinguishable(phases[:8], layers[:8]) == (phases[:8], layers[:8], [])


def test_dashes_and_zeros_are_explained(make_run: Make, tmp_path: Path) -> None:
    run = make_run(local=False, encoder_tokens=0)
    _, page = rendered([run], tmp_path / "report.html")
    assert "Local models: dance does not score them." in page.text
    assert "Local models' test" not in page.text
    assert "Local model, test" not in page.text
    assert "Encoder tokens 0 all texts were cached" in page.text
    assert "Evidence, test Graph, test" in page.text
    assert "graph: the backbone on the original graph" in page.text
    assert "evidence: the backbone on features fused" in page.text
    _, page = rendered([make_run("scored")], tmp_path / "report.html")
    assert "accuracy after local training" in page.text
    assert "Local model, test" in page.text
    assert "all texts were cached" not in page.text


def test_units() -> None:
    assert [size(value) for value in (0, 999, 1_000, 1_234_567, 5e9, None)] == [
        "0 B",
        "999 B",
        "1.00 kB",
        "1.23 MB",
        "5.00 GB",
        "–",
    ]
    assert [duration(value) for value in (0.0123, 5.0, 119.0, 120.0, 7_261.0, None)] == [
        "0.0123 s",
        "5 s",
        "119 s",
        "2 min 00 s",
        "2 h 01 min",
        "–",
    ]
    assert spans([3, 1, 2, 7, 9, 10]) == "1–3, 7, 9–10"
    assert percent(0.87654) == "87.65%"
