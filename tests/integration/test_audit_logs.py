"""What a run leaves in the logs of its sites and its coordinator, and that nothing of anybody's data is there."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fedtag.audits.card import audit_card
from fedtag.client.site.audit import site_log
from fedtag.common.audit_log.facts import Facts
from fedtag.common.audit_log.lines import days
from fedtag.common.audit_log.verification import lines_of, verify
from fedtag.common.errors import RunError
from fedtag.common.wire.records import Content, Instruction, Reply
from fedtag.deploy.cli import app
from fedtag.server.tracking.disclosures import Crossing, Disclosure
from fedtag.server.tracking.run_directory import RunDirectory
from tests.tiny import Tiny, Tried

MARK = "zqmark"
HIDDEN: dict[str, object] = {
    "privacy.secure-aggregation": True,
    "privacy.hide-statistics": True,
    "aggregation.weights": "uniform",
}
KINDS: dict[str, dict[str, object]] = {
    "fedavg": {},
    "fedavg masked": {"privacy.secure-aggregation": True},
    "fedavg hidden": HIDDEN,
    "isolated": {"method": "isolated"},
    "dance": {"method": "dance"},
    "fedc4": {"method": "fedc4"},
    "fedgc": {"method": "fedgc", "fedgc.learn-from": "both", "fedgc.self-training-rounds": 1},
    "da_dfgas": {"method": "da_dfgas"},
    "neighbours": {"parts": "neighbour-generator"},
}


@pytest.fixture
def marked(tiny: Tiny, write_feature_folder: Callable[..., Path], tmp_path: Path) -> Tiny:
    """Runs on folders whose ids, texts and labels have a mark."""

    def write(path: Path, **arguments: int) -> Path:
        write_feature_folder(path, **arguments)
        table = (path / "nodes.csv").read_text().splitlines()
        rows = [row.split(",") for row in table[1:]]
        marks = [f"{MARK}-{n},{MARK} {text},{MARK}{label},{split}" for n, text, label, split in rows]
        (path / "nodes.csv").write_text("\n".join([table[0], *marks]) + "\n")
        edges = (path / "edges.csv").read_text().splitlines()
        pairs = [",".join(f"{MARK}-{end}" for end in row.split(",")) for row in edges[1:]]
        (path / "edges.csv").write_text("\n".join([edges[0], *pairs]) + "\n")
        meta = json.loads((path / "meta.json").read_text())
        meta["classes"] = [f"{MARK}{label}" for label in meta["classes"]]
        (path / "meta.json").write_text(json.dumps(meta))
        return path

    (tmp_path / "data").mkdir()
    return replace(tiny, write=write, data=tmp_path / "data", folders={})


def logs(run: Tried) -> list[Path]:
    return [*(session.site.workspace / "audit" for session in run.sessions), run.place / "home" / "audit"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_of_any_kind_is_logged_without_its_data(marked: Tiny, kind: str) -> None:
    run = marked({**KINDS[kind], "rounds": 2})
    assert run.error is None
    folders = logs(run)
    for folder in folders:
        found = verify(folder)
        assert (found.faults, found.unsealed) == ((), 0)
        assert found.seals >= 1
        assert MARK not in "".join(file.read_text() for file in folder.iterdir())
    audited = audit_card(run.place / "run", folders[-1], folders[:-1])
    assert audited.faults == ()
    assert audited.replies == len(run.replies())
    assert audited.sites == ("site-0", "site-1", "site-2")
    site = [line.event for line in lines_of(folders[0])]
    assert site[:2] == ["instructed", "started"]
    assert (
        site.count("instructed")
        == site.count("answered")
        == len([one for one in run.crossed if one.client == "site-0"])
    )
    kept = KINDS[kind].get("method") == "dance"
    assert ("evidence" in site, "released" in site) == (kept, kept)
    coordinator = [line.event for line in lines_of(folders[-1])]
    assert coordinator[0] == "started"
    assert coordinator[-3:] == ["released", "ended", "sealed"]
    assert coordinator.count("exchanged") == len(run.grid.exchanges)


def test_facts_without_a_schema_would_let_marks_through(
    marked: Tiny, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control: what the schema refuses is found by the search above."""
    run = marked({"rounds": 1})
    log = site_log(run.sessions[0].site)
    assert log.folder is not None
    monkeypatch.setattr("fedtag.common.audit_log.log.checked", lambda event, facts: Said(rule=facts["rule"]))
    log.append("refused", rule=f"{MARK} text of node 1")
    assert MARK in days(log.folder)[-1].read_text()


class Said(Facts):
    rule: str


def test_protection_is_told_apart(tiny: Tiny) -> None:
    clear, masked = (
        list(lines_of(logs(tiny({**settings, "rounds": 1}))[0]))
        for settings in ({}, {"privacy.secure-aggregation": True})
    )
    told = [
        {
            (row["record"], row["protected"])
            for line in lines
            if line.event == "answered"
            for row in line.facts["records"]
        }
        for lines in (clear, masked)
    ]
    assert ("update", "none") in told[0]
    assert ("update", "none") not in told[1]
    assert ("masked", "masked") in told[1]


def test_a_refusal_is_logged_by_its_kind(tiny: Tiny) -> None:
    def clear(client: str, told: Instruction) -> Instruction:
        values = {name: value for name, value in told.content.values.items() if name != "sum"}
        return replace(told, content=replace(told.content, values=values)) if client == "site-0" else told

    run = tiny(
        {"privacy.secure-aggregation": True, "rounds": 1, "exchange.retries": 0}, tell=clear, patient=False
    )
    events = [line for line in lines_of(logs(run)[0]) if line.event == "refused"]
    assert events
    assert {line.facts["error"] for line in events} == {"ProtocolError"}
    sent = [
        answer
        for line in lines_of(logs(run)[-1])
        if line.event == "exchanged"
        for answer in line.facts["answers"]
    ]
    assert "ProtocolError" in {answer.get("refused") for answer in sent}


@pytest.fixture
def finished(tiny: Tiny) -> Tried:
    return tiny({"rounds": 1})


def faults(run: Tried) -> str:
    *sites, coordinator = logs(run)
    return "\n".join(audit_card(run.place / "run", coordinator, sites).faults)


def test_a_card_that_says_something_else_is_found(finished: Tried) -> None:
    assert faults(finished) == ""
    card = finished.place / "run" / "README.md"
    card.write_text(card.read_text().replace("fedavg", "fedprox"))
    assert "README.md says something else than the files beside it" in faults(finished)


def test_disclosures_that_leave_something_out_are_found(finished: Tried) -> None:
    path = finished.place / "run" / "disclosures.jsonl"
    rows = RunDirectory.open(path.parent).read_disclosures()
    path.unlink()
    left = {
        row: [one for one in row.crossings if (row.kind, one.sender) != ("update", "site-1")] for row in rows
    }
    RunDirectory.open(path.parent).append_disclosures(
        [
            Disclosure.of(row.round, row.phase, row.kind, crossings, row.reveals, row.protected)
            for row, crossings in left.items()
        ]
    )
    found = faults(finished)
    assert "disclosures.jsonl is not the file whose SHA-256 the log has" in found
    assert re.search(
        r"round 1: 'update' of site-1 \(\d+ bytes\) came, and is not among the disclosures", found
    )


def test_signs_of_work_which_no_log_has_are_no_fault(finished: Tried) -> None:
    sign = Crossing("site-1", "server", 2, 400)
    RunDirectory(finished.place / "run", resume=True).append_disclosures(
        [Disclosure.of(1, "train", "working", [sign], "that it works", "none")]
    )
    assert faults(finished) == (
        "disclosures.jsonl is not the file whose SHA-256 the log has: it was changed, or is another run's"
    )


def test_another_model_is_found(finished: Tried) -> None:
    path = finished.place / "run" / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1] + b"\0")
    assert "model.safetensors is not the file whose SHA-256 the log has" in faults(finished)


def test_a_reply_that_was_exchanged_on_the_way_is_in_one_log_alone(tiny: Tiny) -> None:
    def other(client: str, told: Instruction, reply: Reply) -> Reply:
        if client != "site-1" or told.phase != "train":
            return reply
        tensors = {
            name: value * 2 if name.startswith("update/") else value
            for name, value in reply.content.tensors.items()
        }
        return replace(reply, content=Content(tensors, reply.content.values, reply.content.letters))

    found = faults(tiny({"rounds": 1}, answer=other))
    assert (
        "site-1 says that a reply left it in round 1, train, which did not come to the coordinator" in found
    )
    assert "a reply under the name site-1 came in round 1, train, which its log does not have" in found


def test_the_commands_say_what_they_find(finished: Tried) -> None:
    *sites, coordinator = map(str, logs(finished))
    run = str(finished.place / "run")
    options = ["--card", "--log", coordinator, *(word for site in sites for word in ("--site-log", site))]
    done = CliRunner().invoke(app, ["audit", run, *options])
    assert (done.exit_code, "card, disclosures and model are those of the log" in done.stdout) == (0, True)
    done = CliRunner().invoke(app, ["log", "verify", coordinator])
    assert (done.exit_code, "1 seal, whole" in done.stdout) == (0, True)
    key = verify(Path(coordinator)).key
    assert CliRunner().invoke(app, ["log", "verify", coordinator, "--key", key]).exit_code == 0
    wrong = CliRunner().invoke(app, ["log", "verify", coordinator, "--key", "0" * 64])
    assert wrong.exit_code == 1
    assert "the last seal is not by the known key of coordinator" in wrong.stderr
    (finished.place / "run" / "README.md").write_text("nothing")
    assert CliRunner().invoke(app, ["audit", run, *options]).exit_code == 1
    with pytest.raises(RunError, match="is no audit log"):
        verify(finished.place / "run")


def test_a_run_of_other_logs_has_no_release_there(finished: Tried, tiny: Tiny) -> None:
    other = tiny({"rounds": 1, "seed": 5})
    with pytest.raises(RunError, match="tells of no release with the model"):
        audit_card(finished.place / "run", logs(other)[-1])
