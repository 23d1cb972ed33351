"""The walk-through of docs/site-policy.md: its files are the policy, its texts what is told."""

from __future__ import annotations

import re
from pathlib import Path

from typer.testing import CliRunner

from fedtag.client.policy.checks import broken_by_run
from fedtag.client.policy.leaving import leaving
from fedtag.client.policy.requests import Requests
from fedtag.client.policy.rules import Policy, read_policy
from fedtag.client.policy.spending import spent_by_run
from fedtag.common.config import RunConfig
from fedtag.common.wire.protocol import PROTOCOL
from fedtag.common.wire.records import Instruction
from fedtag.deploy.cli import app
from tests.tiny import Tiny, Tried

PAGE = Path(__file__).resolve().parents[2] / "docs" / "site-policy.md"
TEXT = PAGE.read_text(encoding="utf-8")
ROUNDS: dict[str, object] = {"rounds": 2, "exchange.retries": 0}


def blocks(kind: str, text: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)\n```$", text, re.DOTALL | re.MULTILINE)


WALK = TEXT[TEXT.index("## A walk-through") :]
STRICT, ASKING = blocks("toml", WALK)
FORBIDDEN, WAITING, PREVIEW, SPENT = blocks("text", WALK)


def told(tried: Tried) -> set[str]:
    """What the first site's refusals told the server, without the run's identifier."""
    notes = [note for note in tried.notes.texts if "left out" in note]
    return {re.sub(r"\b[0-9a-f]{32}\b", "RUN", note.split("Error: ", 1)[1]) for note in notes}


def test_the_file_with_every_rule_is_a_policy(tmp_path: Path) -> None:
    (example,) = blocks("toml", TEXT[: TEXT.index("## A walk-through")])
    path = tmp_path / "policy.toml"
    path.write_text(example.replace("/var/lib/fedtag-policy/hospital-a", str(tmp_path)), encoding="utf-8")
    policy = read_policy(path)
    shown = policy.model_dump(by_alias=True)
    assert {name for name, field in Policy.model_fields.items() if not field.exclude} == set(shown)
    assert all(value is not None for value in shown.values())
    for table in ("limits", "budget", "hours"):
        assert all(value is not None for value in shown[table].values())
    fitting = {
        "method": "fedavg",
        "rounds": 20,
        "privacy.secure-aggregation": True,
        "privacy.hide-statistics": True,
        "privacy.dp.mode": "distributed",
        "privacy.dp.noise": 1.0,
        "aggregation.weights": "uniform",
    }
    config = RunConfig.from_flat(fitting)
    assert list(broken_by_run(policy, config, leaving(config))) == []
    older = policy.model_copy(update={"protocols": (PROTOCOL - 1,)})
    assert [one.rule for one in broken_by_run(older, config, leaving(config))] == ["protocols"]


def test_the_walk_through_happens_as_it_is_told(tiny: Tiny, tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text(STRICT, encoding="utf-8")
    refused = tiny(ROUNDS, policy=policy)
    assert told(refused) == {FORBIDDEN}
    assert refused.summary is not None
    assert refused.summary.clients == 2

    policy.write_text(ASKING, encoding="utf-8")
    (tmp_path / "kept").mkdir()
    shown = []

    def approves(client: str, instruction: Instruction) -> Instruction:
        """An operator who reads, and approves, between the first round and the second."""
        if client == "site-0" and instruction.round == 2 and not shown:
            (waiting,) = Requests(tmp_path / "kept").waiting()
            for command in ("preview", "approve"):
                result = CliRunner().invoke(app, ["site", command, waiting.run, "--policy", str(policy)])
                assert result.exit_code == 0, result.output
                shown.append(result.output.rstrip())
        return instruction

    first = tiny(ROUNDS, policy=policy, tell=approves)
    assert told(first) == {WAITING}
    assert first.summary is not None
    assert first.summary.clients == 3
    assert [one["clients_ok"] for one in first.lines("metrics")] == [2, 3]
    said = re.sub(r"\b[0-9a-f]{32}\b", "RUN", shown[0])
    for pattern, name in (
        (r"(?<=since )\S+", "TIME"),
        (r"(?<=own: ).+", "SETTINGS"),
        (r"(?<=digest )\w+", "DIGEST"),
    ):
        said = re.sub(pattern, name, said)
    assert said == PREVIEW
    assert sum(one.updates for one in spent_by_run(tmp_path / "kept").values()) == 1

    second = tiny(ROUNDS, policy=policy)
    assert told(second) == set()
    third = tiny(ROUNDS, policy=policy)
    assert told(third) == {SPENT}
    assert third.summary is not None
    assert third.summary.clients == 2


def test_a_run_that_nobody_approves_stops_with_the_remedy(tiny: Tiny, tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text(ASKING, encoding="utf-8")
    (tmp_path / "kept").mkdir()
    settings = {**ROUNDS, "exchange.quorum": 1.0, "exchange.start-timeout": 0.3}
    stopped = tiny(settings, policy=policy)
    assert stopped.error is not None
    assert "waiting for approval at the site: fedtag site approve" in str(stopped.error)
    assert len(told(stopped)) == 1
    (waiting,) = Requests(tmp_path / "kept").waiting()
    assert spent_by_run(tmp_path / "kept") == {}
    assert CliRunner().invoke(app, ["site", "approve", waiting.run, "--policy", str(policy)]).exit_code == 0
    # The coordinator starts again: another run, with the same settings.
    assert tiny(settings, policy=policy).summary is not None
