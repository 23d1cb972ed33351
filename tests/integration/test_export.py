"""The condensed graph of a site as a folder of its own: what it holds, and that it can be trained on."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from fedtag.client.data.folder import read_folder
from fedtag.client.data.text_graph import NONE, TRAIN
from fedtag.client.data.writing import write_folder
from fedtag.client.evidence.condensed import CORE_FOLDER, links_file, read_links
from fedtag.client.evidence.store import available_rounds, read_packs, round_file
from fedtag.deploy.cli import app

if TYPE_CHECKING:
    from tests.integration.conftest import Federated


def exported(run: Federated, out: Path, *options: str) -> str:
    arguments = ["export", str(run.directory.path), "--out", str(out), *options]
    result = CliRunner().invoke(app, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_the_links_of_every_kept_core_lie_beside_it(dance_run: Federated) -> None:
    for site in dance_run.sites:
        core = site.evidence / CORE_FOLDER
        rounds = available_rounds(core)
        assert rounds
        links = {links_file(core, number).name for number in rounds}
        assert {path.name for path in core.glob("*.safetensors")} == links


def test_a_core_is_exported_checked_and_trained_on(
    dance_run: Federated, run_federation: Callable[..., Federated], tmp_path: Path
) -> None:
    site, session = dance_run.sites[0], dance_run.sessions[0]
    out = tmp_path / "condensed"
    said = exported(dance_run, out, "--client", site.name)
    graph = read_folder(out).graph
    core = site.evidence / CORE_FOLDER
    number = available_rounds(core)[-1]
    packs = read_packs(round_file(core, number))
    assert f"{len(packs)} nodes, {len(graph.edges)} edges" in " ".join(said.split())
    assert graph.node_ids == tuple(pack.node for pack in packs)
    assert set(graph.split.tolist()) <= {TRAIN, NONE}
    own = {node: row for row, node in enumerate(session.data.text_graph.node_ids)}
    for node, label, split in zip(graph.node_ids, graph.labels, graph.split, strict=True):
        trained = session.data.text_graph.split[own[node]] == TRAIN
        assert (split == TRAIN) == trained
        assert label == (session.data.text_graph.labels[own[node]] if trained else -1)
    texts = dict(zip(session.data.text_graph.node_ids, session.data.text_graph.texts, strict=True))
    for text, pack in zip(graph.texts, packs, strict=True):
        assert text == "\n\n".join(texts[chunk.node][chunk.start : chunk.end] for chunk in pack.chunks)
    wanted = read_links(core, number, len(packs))
    found = graph.to_graph(torch.zeros(graph.num_nodes, 1)).adjacency()
    assert torch.equal(found.edge_index, wanted.edge_index)
    assert np.allclose(found.weight.numpy(), wanted.weight.numpy(), atol=1e-6)

    assert CliRunner().invoke(app, ["validate", str(out)]).exit_code == 0
    settings = {"method": "fedavg", "data.source": str(out), "clients": 1, "rounds": 2}
    trained_on = run_federation(tmp_path / "run", settings)
    assert trained_on.summary.rounds == 2
    rows = [json.loads(line) for line in (tmp_path / "run" / "clients.jsonl").read_text().splitlines()]
    assert rows[-1]["train_nodes"] == int((graph.split == TRAIN).sum()) > 0


def test_what_cannot_be_exported_is_said(dance_run: Federated, tmp_path: Path) -> None:
    run, name = str(dance_run.directory.path), dance_run.sites[0].name
    (tmp_path / "there").mkdir()
    for arguments, words in (
        ([run, "--client", name, "--out", str(tmp_path / "there")], "is there already"),
        ([run, "--out", str(tmp_path / "new")], "client None has no core"),
        ([run, "--client", "nobody", "--out", str(tmp_path / "new")], "client nobody has no core"),
        ([run, "--client", name, "--round", "99", "--out", str(tmp_path / "new")], "no core of round 99"),
        ([run, "--client", name, "--round", "0", "--out", str(tmp_path / "new")], "no core of round 0;"),
        ([str(tmp_path), "--client", name, "--out", str(tmp_path / "new")], "is none; leave it out"),
        ([str(tmp_path), "--out", str(tmp_path / "new")], "no core of any round; it has none"),
    ):
        result = CliRunner().invoke(app, ["export", *arguments])
        assert result.exit_code != 0
        assert words in " ".join(result.output.split())
    assert not (tmp_path / "new").exists()


def test_texts_that_were_not_selected_are_not_written(dance_run: Federated, tmp_path: Path) -> None:
    """The same nodes with texts that have become longer at their beginning, so that every offset is off."""
    graph = read_folder(dance_run.sites[0].folder).graph
    changed = replace(graph, texts=tuple(f"New words. {text}" for text in graph.texts))
    for data in (write_folder(changed, tmp_path / "changed"), dance_run.sites[1].folder):
        place, out = dance_run.sites[0].workspace, tmp_path / "new"
        arguments = ["export", str(place), "--out", str(out), "--data", str(data)]
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 1, result.output
        assert "name the folder with the texts on which the run was made" in " ".join(result.stderr.split())
        assert len(result.stderr.strip().splitlines()) == 1
    assert not (tmp_path / "new").exists()


@pytest.mark.slow
def test_summaries_may_stand_for_the_chunks(narrated_run: Federated, tmp_path: Path) -> None:
    exported(narrated_run, tmp_path / "told", "--client", narrated_run.sites[0].name, "--texts", "summaries")
    graph = read_folder(tmp_path / "told").graph
    assert all(text.startswith("The passages are about") for text in graph.texts if text)
    assert any(graph.texts)
