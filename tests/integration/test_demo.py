"""The demonstration: one command to a table, pages and two nodes; what was encoded or has finished stays."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import Result as Invoked
from typer.testing import CliRunner

from fedtag.client.text.cache import TextCache
from fedtag.client.text.node_texts import CACHE_FILE
from fedtag.common.homes import cache_folder
from fedtag.comparison.demonstration import demo_study, encode
from fedtag.deploy.cli import app
from fedtag.runs.progress import LogProgress, Work

REPOSITORY = Path(__file__).resolve().parents[2]
ROWS = ("text alone", "isolated", "FedAvg", "DANCE")
SHORT = ("--seeds", 1, "--clients", 2, "--rounds", 2, "--jobs", 1)
TEXTS, BLOCK = 200, 128
KILLED = """
import os, signal, sys
from pathlib import Path
from fedtag.comparison.demonstration import demo_study, encode

class Killing:
    def work(self, site):
        return lambda what, done, total: os.kill(os.getpid(), signal.SIGKILL) if done else None

encode(demo_study(sys.argv[1], {}), Path(sys.argv[2]), Killing())
"""


def demo(*options: object) -> Invoked:
    return CliRunner().invoke(app, ["demo", *map(str, options)])


@pytest.fixture(scope="module")
def shown(
    tmp_path_factory: pytest.TempPathFactory, write_feature_folder: Callable[..., Path], one_thread: None
) -> tuple[Path, Invoked]:
    """A short demonstration on a tiny folder, which has features."""
    place = tmp_path_factory.mktemp("demo")
    write_feature_folder(place / "tiny")
    return place / "out", demo("--data", place / "tiny", "--out", place / "out", *SHORT)


def test_it_says_why_then_shows_rows_pages_and_seconds(shown: tuple[Path, Invoked]) -> None:
    out, result = shown
    assert result.exit_code == 0, result.stderr
    said = result.stderr.splitlines()
    assert [line.partition(":")[0].strip() for line in said[3:7]] == list(ROWS)
    assert "validation nodes choose the round, test nodes are only read" in result.stderr
    lines = result.stdout.splitlines()
    assert [line[: len(row)] for line, row in zip(lines[1:5], ROWS, strict=True)] == list(ROWS)
    apart = [line for line in lines if " − " in line]
    assert len(apart) == len(ROWS) - 1
    assert all(line.endswith("; 1 of at least 3 seeds tell nothing apart") for line in apart)
    for name in ("report", "audit"):
        (page,) = (Path(line.split(maxsplit=1)[1]) for line in lines if line.startswith(f"{name} "))
        assert page.is_file()
        assert page.is_relative_to(out)
    parts = lines[[line.startswith("part ") for line in lines].index(True) + 1 :]
    seconds = {re.split(r"\s{2,}", line)[0]: float(line.split()[-2]) for line in parts if line}
    assert list(seconds) == ["programs loaded", "graph", "texts encoded", "runs", "pages", "all"]
    assert seconds.pop("all") == pytest.approx(sum(seconds.values()), abs=0.3)


def test_links_decide_where_evidence_is_right_and_text_wrong(
    shown: tuple[Path, Invoked], tmp_path: Path
) -> None:
    """Counted anew from the files: evidence as it was written, and what `fedtag predict` says without links."""
    out, result = shown
    site = next(out.glob("runs/DANCE/*/seed-0/sites/client-00"))
    text_alone = next(out.glob("runs/text-alone/*/seed-0"))
    made = CliRunner().invoke(
        app, ["predict", str(text_alone), str(site), "--out", str(tmp_path / "p.parquet")]
    )
    assert made.exit_code == 0, made.stderr
    table = pd.read_parquet(tmp_path / "p.parquet").set_index("node_id")
    nodes = pd.read_parquet(site / "nodes.parquet").set_index("node_id")
    chosen = json.loads((site.parents[1] / "model.json").read_text())["round"]
    packs = pd.read_parquet(site / "evidence" / f"round-{chosen:04d}.parquet", columns=["node", "prediction"])
    right = wrong = tested = 0
    for node, prediction in packs.itertuples(index=False):
        if nodes.loc[node, "split"] != "test":
            continue
        tested += 1
        with_links = prediction == nodes.loc[node, "label"]
        without = table.loc[node, "prediction"] == nodes.loc[node, "label"]
        right, wrong = right + (with_links and not without), wrong + (without and not with_links)
    assert f"Of {tested} test nodes of client-00, links set {right} right that text alone" in result.stdout
    assert f"and {wrong} wrong that it gets right" in result.stdout


def test_the_same_command_uses_what_is_there(shown: tuple[Path, Invoked]) -> None:
    out, first = shown
    data = out.parent / "tiny"
    again = demo("--data", data, "--out", out, *SHORT)
    assert "4 runs; 4 finished before" in again.stderr
    assert again.stdout.splitlines()[:5] == first.stdout.splitlines()[:5]
    other = demo("--data", data, "--out", out, *SHORT, "--rounds", 3)
    assert other.exit_code == 1
    assert "was run with rounds = 2, not 3" in other.stderr


def test_every_seed_labels_one_in_ten_of_the_built_in_graph_and_other_data_keep_their_split() -> None:
    assert demo_study(None, {}).seeds == (0, 1, 2)
    assert demo_study(None, {}).settings["data.split"] == "0.1,0.1,0.8"
    assert demo_study("pydocs", {"rounds": 4}).settings["data.split"] == "0.1,0.1,0.8"
    assert "data.split" not in demo_study("site-a", {"seeds": 2}).settings
    assert demo_study("site-a; site-b", {}).settings["clients"] == 2


class Heard(LogProgress):
    """What long work reports."""

    def __init__(self) -> None:
        super().__init__()
        self.reports: list[tuple[str, int, int]] = []

    def work(self, site: str) -> Work:
        return lambda *report: self.reports.append(report)


def test_a_demo_killed_while_it_encodes_encodes_no_text_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEDTAG_CACHE", str(tmp_path / "cache"))
    folder, out = tmp_path / "site", tmp_path / "out"
    folder.mkdir()
    rows = [f"{row},part {row},{'ab'[row % 2]},{('train', 'val', 'test')[row % 3]}" for row in range(TEXTS)]
    (folder / "nodes.csv").write_text("\n".join(["node_id,text,label,split", *rows]))
    (folder / "edges.csv").write_text("src,dst\n0,2\n")
    (folder / "meta.json").write_text(json.dumps({"name": "site", "classes": ["a", "b"]}))
    command = [sys.executable, "-c", KILLED, str(folder), str(out)]
    assert subprocess.run(command, cwd=REPOSITORY, env=os.environ, timeout=300).returncode == -signal.SIGKILL
    cache = TextCache(cache_folder() / CACHE_FILE)
    assert len(cache) == BLOCK
    heard = Heard()
    encode(demo_study(str(folder), {}), out, heard)
    assert heard.reports == [("encoding texts", done, TEXTS - BLOCK) for done in (0, TEXTS - BLOCK)]
    assert len(cache) == TEXTS
    again = Heard()
    encode(demo_study(str(folder), {}), out, again)
    assert again.reports == []


@pytest.mark.slow
def test_on_the_built_in_graph_links_and_a_federation_help(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEDTAG_CACHE", str(tmp_path / "cache"))
    result = demo("--out", tmp_path / "out", "--seeds", 1)
    assert result.exit_code == 0, result.stderr
    assert re.search(r"encoding texts, 128 of \d{4}, \S+ a second, .* left", result.stderr)
    scores = pd.read_csv(tmp_path / "out" / "comparison.csv").set_index("row")["test"]
    assert scores["text alone"] + 0.05 < scores["FedAvg"] < 1
    named = re.findall(r"^  (scipy\.\S+): “", result.stdout, re.MULTILINE)
    assert len(named) == len(set(named)) == 2
    assert np.all(pd.read_csv(tmp_path / "out" / "costs.csv")["encoder_tokens"] == 0)
