from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from client.evidence.packs import EvidencePack, SelectedChunk, SelectedNeighbour, text_digest, write_packs
from deploy.cli import app


def fedtag(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def site(tmp_path: Path, write_feature_folder: Callable[..., Path]) -> Path:
    return write_feature_folder(tmp_path / "site-a")


def write_evidence(site: Path, round_number: int, changed: bool = False) -> None:
    text = "text of node 3"
    pack = EvidencePack(
        node=3,
        kind="core",
        round=round_number,
        prediction="a",
        confidence=0.75,
        label="a",
        neighbours=(SelectedNeighbour(3, 0, 1.0),),
        chunks=(SelectedChunk(3, 0, 4, 1.0, text_digest("other" if changed else text)),),
        model="0" * 64,
    )
    write_packs(site / "evidence", round_number, [pack])


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
    assert "site-a, round 12: 1 packs verified, every span is literal" in result.stdout
    page = site / "audit-site-a.html"
    assert "Evidence of site-a, round 12" in page.read_text(encoding="utf-8")
    page.unlink()
    result = fedtag("audit", site, "--node", 3, "--round", 3)
    assert result.exit_code == 0
    assert "predicted a" in result.stdout
    assert "verified" in result.stdout
    assert not page.exists()
    result = fedtag("audit", site, "--node", 4)
    assert result.exit_code == 1
    assert "node 4 has no evidence at site-a in round 12: name one that has, for example 3" in result.stderr
    result = fedtag("audit", site, "--round", 5)
    assert result.exit_code == 1
    assert "has no evidence of round 5; it has 3, 12" in result.stderr
    assert fedtag("audit", site, "--client", "site-a").exit_code == 2


def test_audit_with_evidence_elsewhere_and_other_budgets(site: Path, tmp_path: Path) -> None:
    write_evidence(tmp_path / "workspace", 1)
    page = tmp_path / "page.html"
    result = fedtag("audit", tmp_path / "workspace", "--data", site, "--html", page)
    assert result.exit_code == 0, result.stderr
    assert page.is_file()


def test_changed_text_is_a_violation(site: Path) -> None:
    write_evidence(site, 1, changed=True)
    result = fedtag("audit", site)
    assert result.exit_code == 1
    assert "1 violations" in result.stdout
    assert "SHA-256" in result.stderr


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
    released = json.loads((out / "model.json").read_text())["round"]
    for round_number in (released, 99):
        write_evidence(out / "sites" / "all", round_number)
    result = fedtag("audit", out)
    assert result.exit_code == 0, result.stderr
    assert f"all, round {released}: 1 packs verified" in result.stdout
    assert (out / "audit-all.html").is_file()
    assert "fedtag audit" in fedtag("simulate", "--resume", out).stdout
    result = fedtag("audit", out, "--client", "client-07")
    assert result.exit_code == 1
    assert "choose all" in result.stderr
    assert fedtag("audit", out, "--data", site).exit_code == 2
