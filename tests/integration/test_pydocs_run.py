"""The built-in graph with whole docstrings, to the end of a run and of its audit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fedtag.client.data.pydocs import read_pydocs
from fedtag.client.data.text_graph import TEST, TRAIN, VAL
from fedtag.deploy.cli import app
from tests.encoders import save_tiny_encoder

CLIENTS = 3


@pytest.mark.parametrize("source", ["pydocs", "pydocs-brief"])
def test_the_built_in_graphs_run_to_the_end_and_their_evidence_verifies(source: str, tmp_path: Path) -> None:
    graph = read_pydocs(brief=source == "pydocs-brief").graph
    size = f"{graph.num_nodes:,} nodes, {len(graph.edges):,} edges"
    out, encoder = tmp_path / "run", save_tiny_encoder(tmp_path / "encoder")
    options = {"clients": CLIENTS, "rounds": 1, "train.epochs": 1, "text.encoder": encoder, "device": "cpu"}
    words = [word for key, value in options.items() for word in ("--set", f"{key}={value}")]
    done = CliRunner().invoke(app, ["simulate", "--data", source, *words, "--out", str(out)])
    assert done.exit_code == 0, done.output
    training = int((graph.split == TRAIN).sum())
    assert f"{source}: {size}; {training:,} training" in done.output
    assert json.loads((out / "summary.json").read_text(encoding="utf-8"))["test_accuracy"] > 0
    audited = CliRunner().invoke(app, ["audit", str(out)])
    assert audited.exit_code == 0, audited.output
    assert audited.output.count("every span is literal") == CLIENTS


def test_whole_docstrings_are_longer_and_more_nodes_train() -> None:
    """As docs/own-data.md says."""
    whole, brief = read_pydocs().graph, read_pydocs(brief=True).graph
    assert sum(map(len, whole.texts)) > 20 * sum(map(len, brief.texts))
    assert whole.num_nodes > brief.num_nodes
    assert len(whole.edges) == len(brief.edges)
    shares = [
        [float((graph.split == code).mean()) for code in (TRAIN, VAL, TEST)] for graph in (whole, brief)
    ]
    assert shares[0] == pytest.approx([0.6, 0.2, 0.2], abs=0.03)
    assert shares[1] == pytest.approx([0.1, 0.1, 0.8], abs=0.03)
