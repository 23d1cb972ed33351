"""After a node is forgotten, nobody finds it in what the site has: every file is searched for its text and name."""

from __future__ import annotations

import json
import os
import pwd
import shutil
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow.parquet as parquet
import pytest
import torch
from typer.testing import CliRunner

from fedtag.client.data.folder import read_folder
from fedtag.client.data.writing import write_folder
from fedtag.client.evidence.store import read_packs
from fedtag.client.evidence.verdicts import keep_verdicts, read_verdicts
from fedtag.client.forgetting import forgetting
from fedtag.client.forgetting.folder import JOURNAL
from fedtag.client.forgetting.forgetting import forget
from fedtag.client.run.site_run import SiteRun
from fedtag.client.site import use
from fedtag.client.site.audit import site_log
from fedtag.client.site.register import FOLDER as REGISTER
from fedtag.client.site.retention import Retention, caches, sweep
from fedtag.client.site.site import Site
from fedtag.client.site.state import StateStore
from fedtag.client.site.use import in_use
from fedtag.client.text.cache import EncodedText, text_key
from fedtag.client.text.store import ContentStore
from fedtag.client.text.summaries import Summary
from fedtag.common.audit_log.lines import days
from fedtag.common.audit_log.verification import lines_of, verify
from fedtag.common.config import RunConfig
from fedtag.common.config.run_config import without_foreign
from fedtag.common.errors import DataError, RunError
from fedtag.common.wire.records import Content, Instruction
from fedtag.deploy.cli import app
from tests.tiny import Tiny

NODE, TEXT = "zqmark-7", "zqmark text of node 7"
LONG_AGO = datetime.now(UTC) + timedelta(days=40)


@dataclass(frozen=True)
class Marked:
    """Sites whose ids and texts are marked, after a run with evidence; the first has caches that know of node 7."""

    sites: tuple[Site, ...]
    run: str


@pytest.fixture(scope="module")
def finished(tiny: Tiny, tmp_path_factory: pytest.TempPathFactory) -> Marked:
    place = tmp_path_factory.mktemp("marked")

    def write(path: Path, nodes: int, seed: int) -> Path:
        graph = read_folder(tiny.write(path.with_name(f"{path.name}-raw"), nodes=nodes, seed=seed)).graph
        ids = tuple(f"zqmark-{n}" for n in range(nodes))
        texts = tuple(f"zqmark text of node {n}" for n in range(nodes))
        return write_folder(replace(graph, node_ids=ids, texts=texts, name=path.name), path)

    run = replace(tiny, write=write, data=place, folders={})({"method": "dance", "rounds": 1})
    assert run.error is None
    return Marked(tuple(session.site for session in run.sessions), run.rounds.run_state.run)


@pytest.fixture
def marked(finished: Marked, tmp_path: Path) -> Marked:
    sites = []
    for site in finished.sites[:2]:
        folder, workspace = tmp_path / site.name / "data", tmp_path / site.name / "own"
        shutil.copytree(site.folder, folder)
        shutil.copytree(site.workspace, workspace)
        sites.append(replace(site, folder=folder, workspace=workspace, cache=workspace / "cache"))
    fill(sites[0])
    said = {"verdict": "partly", "note": "", "at": None}
    keep_verdicts(sites[0].workspace, "evidence", {NODE: said, "zqmark-8": said})
    # As a method keeps what goes by nodes.
    StateStore(sites[0].state, finished.run).save(1, 1, {"core": torch.arange(3)}, {"nodes": [NODE]})
    return Marked(tuple(sites), finished.run)


def fill(site: Site, texts: tuple[str, ...] = (TEXT, "zqmark text of node 8")) -> None:
    stored, summaries, vectors = caches(site)
    for text in texts:
        key = text_key(text, "revision", 64, "float32")
        one = torch.ones(1, dtype=torch.int64)
        entry = EncodedText(one, one, one.to(torch.int32), torch.ones(1, 2), torch.ones(2))
        stored.put_many({key: entry}, {key: [text]})
        summaries.put_many({key: Summary(f"says: {text}", 1, 1, 0, False)}, {key: [text, "another text"]})
        vectors.put_many({key: entry}, {key: [text]})


def without_kill(site: Site) -> Mapping[str, object]:
    """The receipt that the log of a copy of a site gets where nobody is killed."""
    copied = replace(
        site,
        folder=Path(shutil.copytree(site.folder, site.folder.with_name("data-2"))),
        workspace=Path(shutil.copytree(site.workspace, site.workspace.with_name("own-2"))),
    )
    copied = replace(copied, cache=copied.workspace / "cache")
    forget(copied, [NODE])
    (line,) = [line for line in lines_of(copied.workspace / "audit") if line.event == "forgotten"]
    return line.facts


def places(site: Site, mark: str) -> list[Path]:
    """The files in which a mark stands that is no part of a longer one."""
    found = []
    for folder in {site.folder, site.workspace, site.cache}:
        for path in folder.rglob("*"):
            content = path.read_bytes() if path.is_file() else b""
            if path.suffix == ".parquet":
                content = json.dumps(parquet.read_table(path).to_pylist(), default=bytes.hex).encode()
            parts = content.split(mark.encode())
            if any(not after[:1].isdigit() for after in parts[1:]):
                found.append(path)
    return sorted(found)


def test_every_trace_of_a_node_is_gone_and_the_rest_stays(marked: Marked) -> None:
    site = marked.sites[0]
    # The control: the search finds it wherever it is.
    assert {path.name for path in places(site, NODE)} >= {
        "nodes.parquet",
        "edges.parquet",
        "round-0001.parquet",
        "audit-verdicts.json",
    }
    assert "summaries.sqlite" in {path.name for path in places(site, TEXT)}
    # Evidence of an earlier release, which nothing reads any more.
    earlier = site.evidence / "earlier" / "run" / "round-0001.jsonl"
    earlier.parent.mkdir(parents=True)
    earlier.write_text(json.dumps({"node": NODE}))
    before = read_folder(site.folder).graph
    states = len([path for path in site.state.rglob("*") if path.is_file()])

    found = forget(site, [NODE])

    assert places(site, NODE) == []
    assert read_verdicts(site.workspace)["evidence"].keys() == {"zqmark-8"}
    assert places(site, TEXT) == []
    assert (found.rows, found.vectors, found.summaries) == (1, 2, 1)
    assert found.packs > 0
    assert found.states == 2
    assert len([path for path in site.state.rglob("*") if path.is_file()]) == states - found.states
    after = read_folder(site.folder).graph
    kept = [row for row, node in enumerate(before.node_ids) if node != NODE]
    assert after.node_ids == tuple(before.node_ids[row] for row in kept)
    assert after.texts == tuple(before.texts[row] for row in kept)
    assert before.features is not None
    assert after.features is not None
    np.testing.assert_array_equal(after.features, before.features[kept])
    assert len(before.edges) - len(after.edges) == found.edges == int((before.edges == 7).any(axis=1).sum())
    assert "zqmark text of node 8" in "".join(
        path.read_bytes().decode("utf-8", "replace") for path in site.cache.glob("summaries*")
    )
    packs = [pack for path in site.evidence.rglob("round-*.parquet") for pack in read_packs(path)]
    assert packs


def test_the_receipt_names_nobody_and_the_runs_are_told(marked: Marked) -> None:
    site = marked.sites[0]
    (told,) = forget(site, [NODE]).nodes
    (line,) = [line for line in lines_of(site.workspace / "audit") if line.event == "forgotten"]
    assert line.facts["receipt"] == told.receipt
    assert NODE not in days(site.workspace / "audit")[-1].read_text()
    assert verify(site.workspace / "audit").faults == ()
    graph = read_folder(marked.sites[1].folder).graph
    run = marked.run
    assert [(part.run, part.trained) for part in told.runs] == [(run, bool(graph.split[7] == 1))]
    # Another site's key gives another digest, so that lists of identifiers cannot be tried.
    (other,) = forget(marked.sites[1], [NODE]).nodes
    assert other.receipt != told.receipt
    # The same question again finds the receipt, and nothing to do.
    (again,) = forget(site, [NODE]).nodes
    assert (again.earlier, again.receipt, again.runs) == (True, told.receipt, told.runs)


def test_the_register_of_runs_forgets_as_well(marked: Marked) -> None:
    site = marked.sites[0]
    members = next((site.workspace / REGISTER).glob("*.members"))
    before = members.read_bytes()
    (told,) = forget(site, [NODE]).nodes
    assert bytes.fromhex(told.receipt) in before
    assert bytes.fromhex(told.receipt) not in members.read_bytes()
    assert len(members.read_bytes()) == len(before) - 33


def test_what_another_node_has_in_the_same_words_stays_and_is_said(marked: Marked) -> None:
    site = marked.sites[0]
    graph = read_folder(site.folder).graph
    shutil.rmtree(site.folder)
    write_folder(replace(graph, texts=(*graph.texts[:8], TEXT, *graph.texts[9:])), site.folder)
    found = forget(site, [NODE])
    assert found.nodes[0].shared
    assert (found.vectors, found.summaries) == (0, 0)
    assert [
        line.facts["stays"] for line in lines_of(site.workspace / "audit") if line.event == "forgotten"
    ] == [1]


def test_entries_that_do_not_say_what_they_are_of_go(marked: Marked) -> None:
    site = marked.sites[0]
    ContentStore(site.cache / "summaries.sqlite", "summary").put_many({b"k" * 32: b'["an old one", 1, 1, 0]'})
    assert places(site, "an old one")
    assert forget(site, [NODE]).summaries == 2
    assert places(site, "an old one") == []


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(
    "step", ["stage", "without_evidence_of", "_without_states", "_cleared", "_finished", "finish"]
)
def test_who_is_killed_meanwhile_goes_on_with_the_next_call(
    marked: Marked, step: str, after: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = marked.sites[0]
    own = getattr(forgetting, step)
    untouched = without_kill(site)

    def killed(*arguments: object) -> None:
        if after:
            own(*arguments)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(forgetting, step, killed)
        with pytest.raises(KeyboardInterrupt):
            forget(site, [NODE])
    (told,) = forget(site, [NODE]).nodes
    assert [part.run for part in told.runs] == [marked.run]
    assert places(site, NODE) == places(site, TEXT) == []
    assert not (site.folder / JOURNAL).exists()
    (line,) = [line for line in lines_of(site.workspace / "audit") if line.event == "forgotten"]
    assert line.facts == untouched
    assert line.facts["receipt"] == told.receipt


def test_a_message_in_work_is_waited_for_and_nothing_is_removed_before(
    marked: Marked, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = marked.sites[0]
    before = places(site, NODE)
    monkeypatch.setattr(use, "WAIT_SECONDS", 0.05)
    with in_use(site), pytest.raises(RunError, match=r"stays locked for 0\.05 s: end the process"):
        forget(site, [NODE])
    assert places(site, NODE) == before
    monkeypatch.setattr(use, "WAIT_SECONDS", 60.0)
    message = in_use(site)
    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(forget, site, [NODE])
        with pytest.raises(TimeoutError):
            found.result(0.1)
        assert places(site, NODE) == before
        message.close()
        assert found.result(60).rows == 1


def test_a_message_that_comes_meanwhile_reads_no_row_before_it_is_over(
    write_feature_folder: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_feature_folder(tmp_path / "north", nodes=30)
    site = Site("north", folder, tmp_path / "own", tmp_path / "cache", "cpu")
    run = SiteRun(site, RunConfig.from_flat(without_foreign({"method": "fedavg", "model.hidden": 8})))
    first = Instruction("run", 1, 1, "train", Content({}, {"introduce": True}))
    finish, come = forgetting.finish, []

    with ThreadPoolExecutor(1) as pool:

        def interrupted(*arguments: object) -> None:
            # All but the rows is gone, and here a message comes.
            come.append(pool.submit(run.respond, first))
            with pytest.raises(TimeoutError):
                come[0].result(0.5)
            assert "data" not in vars(run)
            finish(*arguments)

        monkeypatch.setattr(forgetting, "finish", interrupted)
        forget(site, ["3"])
        assert come[0].result(60).content.values["sizes"]["nodes"] == 29


def test_a_folder_that_cannot_be_written_loses_nothing(
    marked: Marked, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = marked.sites[0]
    before = places(site, NODE)

    def refused(*arguments: object, **named: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("fedtag.client.forgetting.folder.write_whole", refused)
    with pytest.raises(DataError, match="nothing was removed: take rows 8 out of its nodes"):
        forget(site, [NODE])
    assert places(site, NODE) == before


def test_wrong_names_are_told_before_anything_is_removed(marked: Marked) -> None:
    site = marked.sites[0]
    before = places(site, NODE)
    with pytest.raises(DataError, match="has no node 'nobody', and none was forgotten there"):
        forget(site, [NODE, "nobody"])
    with pytest.raises(DataError, match="would have no node left"):
        forget(site, [str(node) for node in read_folder(site.folder).graph.node_ids])
    assert places(site, NODE) == before


def test_the_command_forgets_in_a_folder_of_csv(
    write_feature_folder: Callable[..., Path], tmp_path: Path
) -> None:
    folder = write_feature_folder(tmp_path / "north", nodes=30)
    edges = (folder / "edges.csv").read_text().splitlines()
    nodes = next(folder.glob("nodes.*"))
    nodes.chmod(0o644)
    done = CliRunner().invoke(app, ["site", "forget", "3", "4", "--data", str(folder)])
    assert done.exit_code == 0, done.output
    assert nodes.stat().st_mode & 0o777 == 0o644
    graph = read_folder(folder).graph
    assert graph.node_ids == (*range(3), *range(5, 30))
    assert graph.features is not None
    gone = [edge for edge in edges[1:] if {"3", "4"} & set(edge.split(","))]
    assert (folder / "edges.csv").read_text().splitlines() == [edge for edge in edges if edge not in gone]
    assert f"removed: 2 rows, {len(gone)} edges" in done.stdout
    assert CliRunner().invoke(app, ["site", "forget", "99", "--data", str(folder)]).exit_code == 2


@pytest.mark.parametrize("command", [("forget", "3"), ("sweep",)])
def test_who_does_not_own_the_workspace_is_refused(
    command: tuple[str, ...],
    write_feature_folder: Callable[..., Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = write_feature_folder(tmp_path / "north", nodes=30)
    before = {path: path.read_bytes() for path in folder.iterdir()}
    owner = folder.stat().st_uid
    with monkeypatch.context() as patch:
        patch.setattr(os, "geteuid", lambda: owner + 1)
        done = CliRunner().invoke(app, ["site", *command, "--data", str(folder)])
    assert done.exit_code == 2
    text = " ".join(done.output.split())
    assert f"begin the command with sudo -u {pwd.getpwuid(owner).pw_name}" in text
    assert {path: path.read_bytes() for path in folder.iterdir()} == before
    assert CliRunner().invoke(app, ["site", *command, "--data", str(folder)]).exit_code == 0


def test_retention_removes_what_is_too_old_and_says_so(marked: Marked) -> None:
    site = marked.sites[0]
    nothing = sweep(site, Retention(states=30, evidence=30, caches=30))
    assert (nothing.states, nothing.evidence) == ((), ())
    running = marked.run
    assert sweep(site, Retention(states=30), LONG_AGO, running).states == ()
    assert [path.name for path in sweep(site, Retention(states=30), LONG_AGO).states] == [running]
    assert not (site.state / running).exists()
    assert sweep(site, Retention(), LONG_AGO).evidence == ()
    assert places(site, TEXT)
    assert sweep(site, Retention(evidence=30, caches=30), LONG_AGO).evidence
    assert not list(site.evidence.rglob("round-*.parquet"))
    assert [path.name for path in places(site, TEXT)] == ["nodes.parquet"]
    swept = [line.facts for line in lines_of(site.workspace / "audit") if line.event == "swept"]
    assert [(facts["states"], facts["evidence"] > 0, facts["caches"]) for facts in swept] == [
        (1, False, 0),
        (0, True, 6),
    ]
    assert site_log(site).kept
