"""Evidence of a graph without any text: who was selected is audited, and that there are no words is said."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import fedtag
from fedtag.audits.examination import examine
from fedtag.deploy.terminal.audit_view import WORDLESS, show_examination


def test_evidence_without_words_verifies_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 90)
    x = np.concatenate([2 * np.eye(3)[labels], np.zeros((90, 3))], 1) + rng.normal(size=(90, 6))
    file = tmp_path / "graph.npz"
    np.savez(file, x=x.astype(np.float32), y=labels, edge_index=rng.integers(0, 90, (2, 240)))
    run = fedtag.simulate(
        fedtag.Graph.from_npz(file), method="dance", clients=2, rounds=1, out=tmp_path / "run", device="cpu"
    )
    found = examine(run.path)
    assert found.verified
    assert all(pack.neighbours for site in found.sites for pack in site.packs)
    show_examination(found, measuring=False)
    told = " ".join(capsys.readouterr().out.split())
    assert told.count(WORDLESS) == 2
    assert "literal" not in told
