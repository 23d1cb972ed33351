from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from fedtag.client.evidence.packs import EvidencePack, SelectedChunk, SelectedNeighbour, text_digest
from fedtag.client.evidence.store import write_packs
from fedtag.deploy.cli import app
from tests.audited import page_blocks


def fedtag(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def site(tmp_path: Path, write_feature_folder: Callable[..., Path]) -> Path:
    return write_feature_folder(tmp_path / "site-a")


def pack_of(node: int, round_number: int, model: str) -> EvidencePack:
    return EvidencePack(
        node=node,
        kind="scored",
        round=round_number,
        prediction="a",
        confidence=0.75,
        label="abc"[node % 3],
        neighbours=(SelectedNeighbour(node, 0, 1.0),),
        chunks=(SelectedChunk(node, 0, 4, 1.0, text_digest(f"text of node {node}")),),
        model=model,
    )


def write_evidence(
    site: Path,
    round_number: int,
    model: str = "0" * 64,
    change: Callable[[list[EvidencePack]], list[EvidencePack]] = list,
) -> None:
    packs = [pack_of(node, round_number, model) for node in range(60)]
    write_packs(site / "evidence", round_number, change(packs))


def test_validate_describes_a_good_folder(site: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in site.rglob("*")}
    result = fedtag("validate", site)
    assert result.exit_code == 0
    lines = [line.split() for line in result.stdout.splitlines()]
    assert ["nodes", "60"] in lines
    assert ["a", "12", "4", "4", "0", "20"] in lines
    assert "keeps the contract" in result.stdout
    assert {path: path.stat().st_mtime_ns for path in site.rglob("*")} == before


def test_validate_lists_all_problems(site: Path) -> None:
    (site / "edges.csv").write_text("src,dst\n1,nobody\n")
    (site / "features.npy").write_bytes(b"nothing")
    result = fedtag("validate", site)
    assert result.exit_code == 2
    assert "nobody" in result.stderr
    assert "features.npy" in result.stderr
    assert result.stdout == ""
    assert fedtag("validate", site / "missing").exit_code == 2


def test_audit_of_a_site(site: Path) -> None:
    assert fedtag("audit", site).exit_code == 1
    write_evidence(site, 3)
    write_evidence(site, 12)
    result = fedtag("audit", site)
    assert result.exit_code == 0, result.stderr
    assert "site-a, round 12: 60 packs verified, every span is literal" in result.stdout
    page = site / "audit-site-a.html"
    assert "Evidence of site-a, round 12" in page.read_text(encoding="utf-8")
    page.unlink()
    result = fedtag("audit", site, "--node", 3, "--round", 3)
    assert result.exit_code == 0
    assert "predicted a" in result.stdout
    assert "verified" in result.stdout
    assert not page.exists()
    result = fedtag("audit", site, "--node", 60)
    assert result.exit_code == 1
    assert (
        "node 60 is in none of the graphs with evidence, site-a in round 12: name one that has, for example 0"
        in result.stderr
    )
    result = fedtag("audit", site, "--round", 5)
    assert result.exit_code == 1
    assert "has no evidence of round 5; it has 3, 12" in result.stderr
    assert fedtag("audit", site, "--client", "site-a").exit_code == 2


def test_an_audit_draws_as_many_nodes_as_are_asked_for(site: Path) -> None:
    write_evidence(site, 1)
    for options, drawn in (((), 50), (("--sample", 7), 7), (("--sample", 0), 0)):
        assert fedtag("audit", site, *options).exit_code == 0
        overview, rest = page_blocks((site / "audit-site-a.html").read_text(encoding="utf-8"))
        assert len(set(overview["sample"])) == drawn
        assert set(overview["sample"]) <= set(rest["index"]["rows"])
    assert fedtag("audit", site, "--sample", -1).exit_code == 2


def test_the_pages_are_served_until_somebody_stops_it(site: Path) -> None:
    write_evidence(site, 1)
    # Whoever runs the tests in the background has them ignore Ctrl-C.
    program = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
    program += "from fedtag.deploy.cli import main; main()"
    command = [sys.executable, "-c", program, "audit", str(site), "--serve"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as serving:
        assert serving.stdout is not None
        address = next(line.split()[1] for line in serving.stdout if line.startswith("page "))
        with urllib.request.urlopen(address) as answer:
            assert "Evidence of site-a, round 1" in answer.read().decode()
        serving.send_signal(signal.SIGINT)
        try:
            assert serving.wait(20) == 0
        finally:
            serving.kill()
    assert not (site / "audit-site-a.html").exists()


def test_audit_with_evidence_elsewhere_and_other_budgets(site: Path, tmp_path: Path) -> None:
    write_evidence(tmp_path / "workspace", 1)
    page = tmp_path / "page.html"
    result = fedtag("audit", tmp_path / "workspace", "--data", site, "--html", page)
    assert result.exit_code == 0, result.stderr
    assert page.is_file()


def with_third(**changes: object) -> Callable[[list[EvidencePack]], list[EvidencePack]]:
    return lambda packs: [replace(pack, **changes) if pack.node == 3 else pack for pack in packs]


FAULTS = {
    "SHA-256": with_third(chunks=(SelectedChunk(3, 0, 4, 1.0, text_digest("other")),)),
    "60 of 60 nodes have no evidence": lambda packs: [],
    "1 of 60 nodes have no evidence, for example 0": lambda packs: packs[1:],
    "node 0 has 2 packs": lambda packs: [packs[0], *packs],
    "name 2 different models": with_third(model="1" * 64),
    "is no probability": with_third(confidence=5.0),
    "is not adjacent": with_third(
        neighbours=(SelectedNeighbour(3, 0, 1.0), SelectedNeighbour(4, 1, 1.0)),
    ),
}


@pytest.mark.parametrize("sentence", FAULTS)
def test_each_fault_of_the_evidence_is_a_violation(site: Path, sentence: str) -> None:
    write_evidence(site, 1, change=FAULTS[sentence])
    result = fedtag("audit", site)
    assert result.exit_code == 1
    assert "1 violation\n" in result.stdout
    assert sentence in result.stderr


def test_what_does_not_verify_is_not_measured(site: Path, tmp_path: Path) -> None:
    """The model is not even looked for."""
    for change in (FAULTS["SHA-256"], FAULTS["60 of 60 nodes have no evidence"]):
        write_evidence(site, 1, change=change)
        result = fedtag("audit", site, "--faithfulness", "--model", tmp_path / "none")
        assert result.exit_code == 1
        assert "the evidence does not verify: nothing was measured" in " ".join(result.stderr.split())
        assert not (site / "faithfulness.json").exists()
        assert (site / "audit-site-a.html").is_file()


def test_audit_of_a_run_is_at_the_released_model(site: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    done = fedtag(
        "simulate", "--method", "fedavg", "--data", site, "--clients", 1, "--rounds", 3, "--out", out
    )
    assert done.exit_code == 0, done.stderr
    assert "fedtag audit" not in done.stdout
    result = fedtag("audit", out)
    assert result.exit_code == 1
    assert "has no evidence in sites/" in result.stderr
    card = json.loads((out / "model.json").read_text())
    released = card["round"]
    for round_number in (released, 99):
        write_evidence(out / "sites" / "all", round_number, card["fingerprint"])
    result = fedtag("audit", out)
    assert result.exit_code == 0, result.stderr
    assert f"all, round {released}: 60 packs verified" in result.stdout
    assert (out / "audit-all.html").is_file()
    assert "fedtag audit" in fedtag("simulate", "--resume", out).stdout
    (out / "sites" / "beside").mkdir()
    result = fedtag("audit", out)
    assert result.exit_code == 1
    assert "1 of 2 sites has no evidence: beside" in result.stderr
    assert fedtag("audit", out, "--client", "all").exit_code == 0
    result = fedtag("audit", out, "--client", "client-07")
    assert result.exit_code == 1
    assert "choose all" in result.stderr
    assert fedtag("audit", out, "--data", site).exit_code == 2
