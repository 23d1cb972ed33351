"""What a site does when its data are other ones than before: in a run it refuses, for the next run it starts anew."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from fedtag.client.run import snapshot
from fedtag.client.site.register import Register
from fedtag.common.audit_log.verification import lines_of
from fedtag.common.wire.records import Instruction
from tests.tiny import Tiny, Tried


@pytest.fixture
def own(tiny: Tiny, tmp_path: Path) -> Tiny:
    """Runs on folders of this test alone, which it may change."""
    return replace(tiny, data=tmp_path, folders={})


def relabelled(folder: Path) -> None:
    """As many nodes as before in every split, so that no count tells."""
    table = folder / "nodes.csv"
    table.write_text(table.read_text().replace("text of node 1,", "another text,"))


def run_with(own: Tiny, change: Callable[[Path], None]) -> Tried:
    def tell(client: str, told: Instruction) -> Instruction:
        if client == "site-0" and (told.round, told.phase) == (2, "train") and not done:
            done.append(client)
            change(own.folder(0, True))
        return told

    done: list[str] = []
    return own({"rounds": 3, "exchange.quorum": 0.6, "exchange.retries": 0}, tell=tell, patient=False)


def test_data_that_change_in_a_run_are_refused_and_the_run_goes_on_without_the_site(own: Tiny) -> None:
    run = run_with(own, relabelled)
    assert run.error is None
    why = "the data of site-0 have changed since this run began there, and a run is about one state of them"
    assert why in run.notes
    rows = [row for row in run.lines("clients") if row["client"] == "site-0"]
    assert [bool(row["failed"]) for row in rows] == [True] * len(rows)
    events = [line for line in lines_of(run.sessions[0].site.workspace / "audit") if line.event == "refused"]
    assert {line.facts["error"] for line in events} == {"ProtocolError"}


def test_without_the_check_the_run_would_go_on_with_other_data(
    own: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: counts are the same, so that nobody else would notice."""
    monkeypatch.setattr("fedtag.client.run.site_run.check_unchanged", lambda site, run: None)
    run = run_with(own, relabelled)
    assert run.error is None
    assert not any("have changed" in note for note in run.notes.texts)


def test_files_that_are_written_again_alike_are_the_same_data(own: Tiny) -> None:
    def touched(folder: Path) -> None:
        for path in folder.iterdir():
            path.write_bytes(path.read_bytes())
            os.utime(path, (1, 1))
        (folder / "notes.txt").write_text("beside the data")

    run = run_with(own, touched)
    assert run.error is None
    assert not any("have changed" in note for note in run.notes.texts)


def test_data_that_are_restored_take_part_again(own: Tiny) -> None:
    run = run_with(own, relabelled)
    site, name = run.sessions[0].site, run.rounds.run_state.run
    table = site.folder / "nodes.csv"
    table.write_text(table.read_text().replace("another text,", "text of node 1,"))
    snapshot.check_unchanged(site, name)


def test_the_next_run_is_about_the_new_data(own: Tiny) -> None:
    first = own({"rounds": 1})
    folder = own.folder(0, True)
    lines = (folder / "nodes.csv").read_text().splitlines()
    (folder / "nodes.csv").write_text(
        "\n".join([lines[0], *(line.replace(",val", ",train") for line in lines[1:])]) + "\n"
    )
    second = own({"rounds": 1})
    counts = [
        next(row["train_nodes"] for row in run.lines("clients") if row["client"] == "site-0")
        for run in (first, second)
    ]
    assert counts[1] > counts[0]
    started = [
        next(line for line in lines_of(run.sessions[0].site.workspace / "audit") if line.event == "started")
        for run in (first, second)
    ]
    assert started[0].facts["data"] != started[1].facts["data"]
    val = next(line.split(",")[0] for line in lines if line.endswith(",val"))
    parts = [Register(run.sessions[0].site).runs_of(val) for run in (first, second)]
    assert [[part.trained for part in one] for one in parts] == [[False], [True]]
