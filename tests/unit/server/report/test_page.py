"""The report page: complete, self-contained, escaped, the same twice."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest

from fedtag.common.errors import RunError
from fedtag.server.pages.wording import duration, percent, size, spans
from fedtag.server.report.page import named, write_report
from fedtag.server.report.phases import distinguishable
from fedtag.server.tracking.rows import ClientRow
from fedtag.server.tracking.run_directory import RunDirectory

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
        if not self.open or self.open[-1] != "style":
            self.words.append(data)

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


def test_page_loads_nothing(make_run: Make, tmp_path: Path) -> None:
    text, page = rendered([make_run("a"), make_run("b")], tmp_path / "report.html")
    assert "://" not in text
    assert "@import" not in text
    assert not re.search(r"url\((?!#)", text)
    for tag, attributes in page.elements:
        assert tag not in {"script", "link", "img", "iframe", "object", "embed", "base"}
        assert not LOADING & set(attributes)
        assert (attributes.get("href") or "#").startswith("#")


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
    assert len(images) == 6
    assert all(len(image["aria-label"] or "") > 40 for image in images)
    assert all("scope" in attributes for tag, attributes in page.elements if tag == "th")
    assert text.count("<figcaption>") == 6
    assert '<html lang="en">' in text
    assert "prefers-color-scheme: dark" in text
    assert "@media print" in text
    assert not re.search(r"#0102\d\w", text)


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
    assert "<script" not in text
    assert "<img" not in text
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
        {"rounds": 3, "clients": ()},
    ],
)
def test_unusual_runs(make_run: Make, tmp_path: Path, options: dict[str, object]) -> None:
    run = make_run(**options)
    text, page = rendered([run], tmp_path / "report.html")
    assert not re.search(r"\bnan\b|\bNone\b|\binf\b", page.text)
    assert ("in progress" in page.text) == (options.get("finish") is False)
    if options.get("tested") is False:
        assert "Test accuracy –" in page.text
    assert "NaN" not in text


def test_a_run_that_has_just_started(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "new")
    run.write_config({"method": "fedavg"})
    _, page = rendered([run], tmp_path / "report.html")
    assert "No round has been recorded yet." in page.text
    assert "no round yet" in page.text
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
    assert "Local models' test – dance does not score them" in page.text
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
