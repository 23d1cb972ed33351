"""Masking acts on texts: as if the institution had edited its folder; and what is measured by it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from click.testing import Result
from typer.testing import CliRunner

from fedtag.client.data.folder import read_folder
from fedtag.client.data.text_graph import TextGraph
from fedtag.client.data.writing import write_folder
from fedtag.client.evidence.condensed import CORE_FOLDER
from fedtag.client.evidence.faithfulness import EVIDENCE, RANDOM, faithfulness_report
from fedtag.client.evidence.measured import read_measured
from fedtag.client.evidence.store import available_rounds, read_packs, round_file, write_packs
from fedtag.client.methods.dance.condensation import chosen_views, forward
from fedtag.client.methods.dance.local_graph import LocalGraph, local_graph
from fedtag.client.methods.dance.masking import MaskedTexts, evidence_path, reach_of
from fedtag.client.methods.dance.measurement import chosen_targets, measure
from fedtag.client.methods.dance.method import fused_pass
from fedtag.client.methods.dance.rankings import rankings
from fedtag.client.prediction.outcome import ReleasedModel
from fedtag.client.run.site_run import SiteRun
from fedtag.client.site.site import Site
from fedtag.common.config import RunConfig
from fedtag.common.errors import ConfigError
from fedtag.common.methods.dance.model import DanceModel, initial_dance_model
from fedtag.common.models.parameters import load_parameters, parameters_of
from fedtag.deploy.cli import app
from fedtag.server.tracking.release import read_release
from tests.audited import page_blocks
from tests.exchanges import context_of

if TYPE_CHECKING:
    from tests.integration.conftest import Federated

Spans = dict[str, set[tuple[int, int]]]


@dataclass(frozen=True)
class Opened:
    """A site of a run with its released model and its packs."""

    session: SiteRun
    model: DanceModel
    local: LocalGraph
    round: int


def opened(run: Federated, position: int, folder: Path | None = None, cache: Path | None = None) -> Opened:
    """A site opened anew, with its own folder or an edited one."""
    site = run.sites[position]
    release = read_release(run.directory)
    place = Site(site.name, folder or site.folder, site.workspace, cache or site.cache, "cpu")
    session = SiteRun(place, release.config)
    graph = session.data.graph
    local = local_graph(session.data, context_of(session))
    model = initial_dance_model(release.config, graph.x.shape[1], graph.num_classes)
    load_parameters(model, release.parameters)
    return Opened(session, model, local, release.card.round)


def cut(text: str, spans: set[tuple[int, int]]) -> str:
    """Character by character, unlike the code under test."""
    return "".join(
        character
        for place, character in enumerate(text)
        if not any(start <= place < end for start, end in spans)
    )


def only(text: str, spans: set[tuple[int, int]], chunks: set[tuple[int, int]]) -> str:
    return cut(text, chunks - spans)


def flat(value: object, path: str = "") -> dict[str, object]:
    """The leaves of nested JSON by their paths."""
    if isinstance(value, dict | list):
        items = value.items() if isinstance(value, dict) else enumerate(value)
        return {key: leaf for name, inner in items for key, leaf in flat(inner, f"{path}/{name}").items()}
    return {path: value}


@pytest.mark.parametrize("position", [0, 1])
def test_masking_is_as_if_the_folder_had_been_edited(
    dance_run: Federated, tmp_path: Path, position: int
) -> None:
    """The oracle writes edited texts to a folder that a fresh site reads with an empty cache."""
    site = opened(dance_run, position)
    session, model, local = site.session, site.model, site.local
    data, bank = session.data.text_graph, session.data.bank
    packs = read_packs(round_file(session.site.evidence, site.round))
    target = next(row for row, pack in enumerate(packs) if len(pack.chunks) == 4 and row % 7 == 3)
    pack = packs[target]
    chosen: Spans = {}
    for chunk in pack.chunks:
        chosen.setdefault(str(chunk.node), set()).add((chunk.start, chunk.end))
    assert len(chosen) > 1
    owner = bank.node_of_chunk().tolist()
    chunks: Spans = {str(node): set() for node in data.node_ids}
    for row, node in enumerate(owner):
        chunks[str(data.node_ids[node])].add((int(bank.start[row]), int(bank.end[row])))
    adjacent = {target} | {b if a == target else a for a, b in data.edges.tolist() if target in (a, b)}
    near = adjacent | {node for edge in data.edges.tolist() if adjacent & set(edge) for node in edge}
    texts = {
        "removed": [
            cut(text, chosen.get(str(node), set()))
            for node, text in zip(data.node_ids, data.texts, strict=True)
        ],
        "kept": [
            only(text, chosen[str(node)], chunks[str(node)]) if str(node) in chosen else ""
            for node, text in zip(data.node_ids, data.texts, strict=True)
        ],
        "kept_near": [
            only(text, chosen.get(str(node), set()), chunks[str(node)]) if place in near else text
            for place, (node, text) in enumerate(zip(data.node_ids, data.texts, strict=True))
        ],
    }

    rows = torch.tensor([target])
    passed = forward(model, local)
    evidence, _, found = chosen_views(model, local, passed, rows)
    ranked = rankings(model, local, passed.g, evidence, found, bank.tokens, 0, session.site.name)
    order = ranked.orders[EVIDENCE][0]
    assert [(int(bank.start[row]), int(bank.end[row])) for row in order] == [
        (chunk.start, chunk.end) for chunk in pack.chunks
    ]
    assert set(ranked.neighbourhoods[0]) == near
    masked = MaskedTexts(local, session.data, context_of(session))
    masks = {action: masked.masks(action, order, ranked.neighbourhoods[0]) for action in texts}  # type: ignore[arg-type]
    for left, _ in masks.values():
        masked.request(left)
    encoded = masked.encoded()
    reach = reach_of(model)
    assert reach == 2

    full = evidence_path(model, local, rows, None).whole[0]
    different = []
    for action, edited in texts.items():
        folder = write_folder(replace(data, texts=tuple(edited), extra={}), tmp_path / action / data.name)
        fresh = opened(dance_run, position, folder, tmp_path / f"cache-{action}")
        expected = fused_pass(fresh.model, fresh.local, forward(fresh.model, fresh.local))[1][target]
        said = evidence_path(model, encoded.graph(*masks[action]), rows, reach).whole[0]
        torch.testing.assert_close(said, expected, atol=2e-4, rtol=1e-4)
        different.append(float((expected - full).abs().max()))
    assert min(different) > 1e-2
    assert fresh.session.data.encoded["chunks"] > 0


SENTENCES = (
    "The committee met on a Tuesday and agreed about the usual minutes.",
    "A long corridor leads from the entrance to the office of the clerk.",
    "Several boxes of paper were moved from one shelf to another shelf.",
    "Nobody remembers who had ordered the chairs that stand in the hall.",
    "The report was printed twice because the first copy had a stain.",
)
CLASS_SENTENCES = (
    "Enzymes and proteins in the cell bind to the strand of the genome.",
    "The goalkeeper saved a penalty in the final of the football cup.",
)


@pytest.fixture
def planted(tmp_path: Path) -> SiteRun:
    """Triangles of one class; each node has five chunks, one of which says the class; no bypass."""
    rng = np.random.default_rng(0)
    count = 48
    labels = np.arange(count) // 3 % 2
    texts = []
    for label in labels:
        parts = [SENTENCES[place] for place in rng.permutation(len(SENTENCES))[:4]]
        parts.insert(int(rng.integers(0, 5)), CLASS_SENTENCES[label])
        texts.append(" ".join(parts))
    corners = np.arange(0, count, 3)[:, None, None] + np.array([(0, 1), (0, 2), (1, 2)])
    graph = TextGraph(
        name="planted",
        node_ids=tuple(f"n{node}" for node in range(count)),
        texts=tuple(texts),
        labels=labels.astype(np.int64),
        split=np.array([1, 2, 3], np.int8)[np.arange(count) % 3],
        edges=corners.reshape(-1, 2).astype(np.int64),
        edge_weights=np.ones(count, np.float32),
        classes=("biology", "sport"),
    )
    folder = write_folder(graph, tmp_path / "planted")
    config = RunConfig.from_flat({"method": "dance", "text.chunk-tokens": 20, "dance.propagated": 0})
    return SiteRun(Site("planted", folder, tmp_path / "work", tmp_path / "cache", "cpu"), config)


def reading_model(session: SiteRun) -> DanceModel:
    """Selects sentences that speak of a class, and tells the classes by the selected text alone."""
    config, data, bank = session.config, session.data.text_graph, session.data.bank
    model = initial_dance_model(config, session.data.graph.x.shape[1], 2)
    spans = [
        data.texts[node][start:end]
        for node, start, end in zip(
            bank.node_of_chunk().tolist(), bank.start.tolist(), bank.end.tolist(), strict=True
        )
    ]
    biology, sport, filler = (
        bank.vectors[[span in group for span in spans]].mean(0)
        for group in (CLASS_SENTENCES[:1], CLASS_SENTENCES[1:], SENTENCES)
    )
    with torch.no_grad():
        for parameter in (*model.backbone.layers.parameters(), *model.graph_projection.parameters()):
            parameter.zero_()
        bias = next(p for name, p in model.backbone.layers[0].named_parameters() if name.endswith("bias"))
        bias[0] = 1.0  # the same hidden state for every text, so that the selection asks the same of all
        model.chunk_query.weight.zero_()
        model.chunk_query.weight[:, 0] = biology + sport - 2 * filler
        model.gate.weight.zero_()
        model.gate.bias.fill_(5.0)
        assert model.backbone.skip is not None
        model.backbone.skip.bias.zero_()
        model.backbone.skip.weight.copy_(5 * torch.stack([biology - sport, sport - biology]))
    return model


def test_planted_evidence_is_found_necessary(planted: SiteRun) -> None:
    assert np.diff(planted.data.bank.ptr).tolist() == [5] * 48
    model = reading_model(planted)
    targets = chosen_targets(planted.data, 12, 0)
    assert len(targets) == 12
    assert (np.array(targets) % 3 == 2).all()
    released = ReleasedModel(parameters_of(model), 1, "evidence")
    measured = measure(released, targets, 0, planted.data, context_of(planted))
    assert measured.without_bypass is None
    report = faithfulness_report(measured.outcomes, 0)
    assert report["accuracy"]["full"] == 1.0
    assert report["accuracy"]["kept"][EVIDENCE] == 1.0
    drop = report["drop"]["removed"]
    assert drop[EVIDENCE] > 0.1 > 2 * abs(drop[RANDOM])
    assert report["comprehensiveness_minus"][RANDOM]["low"] > 0
    assert report["goals"][2]["secured"]
    # The first span removed already takes more than a random one.
    curves = report["curves"]["removed"]
    assert curves[EVIDENCE]["probability"][1] < curves[RANDOM]["probability"][1]


def test_a_site_with_features_has_no_text_to_mask(
    tmp_path: Path, write_feature_folder: Callable[..., Path]
) -> None:
    site = Site("s", write_feature_folder(tmp_path / "s"), tmp_path / "w", tmp_path / "c", "cpu")
    session = SiteRun(site, RunConfig.from_flat({"method": "dance"}))
    local = local_graph(session.data, context_of(session))
    with pytest.raises(
        ConfigError, match=r"s brings features.npy .* measure faithfulness on a site without it"
    ):
        MaskedTexts(local, session.data, context_of(session))


@pytest.fixture
def run_copy(dance_run: Federated, tmp_path: Path) -> Path:
    """The run with its sites, which a test may write to."""
    return Path(shutil.copytree(dance_run.directory.path, tmp_path / "copy"))


def fedtag(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def strings(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, entry in value.items():
            yield key
            yield from strings(entry)
    elif isinstance(value, list):
        for entry in value:
            yield from strings(entry)


def test_audit_with_faithfulness(run_copy: Path) -> None:
    result = fedtag("audit", run_copy, "--faithfulness", "--nodes", 2)
    assert result.exit_code == 0, result.stderr
    assert "3 sites: faithfulness on 6 test nodes" in result.stdout
    assert "The same with the bypass off" in result.stdout
    together = (run_copy / "faithfulness.json").read_bytes()
    record = json.loads(together)
    assert record["targets"] == 6
    assert set(record["reports"]) == {"as_trained", "bypass_off"}
    assert record["guarantees"]["chunks"]["over_bound"] == record["guarantees"]["chunks"]["over_budget"] == 0
    ids = {node for site in sites_of(run_copy) for node in ids_of(site)}
    assert not ids & set(strings(record))
    assert b"paper-" not in together
    assert "Faithfulness of the evidence" in (run_copy / "report.html").read_text()
    own = read_measured(run_copy / "sites" / "client-00" / "faithfulness.json")
    assert own is not None
    assert len(own.nodes) == 2
    assert set(own.nodes) <= set(ids_of(run_copy / "sites" / "client-00"))
    _, held = page_blocks((run_copy / "audit-client-00.html").read_text())
    views = dict(zip(held["index"]["nodes"], held["views"], strict=True))
    assert {node for node, view in views.items() if view["measured"]} == set(map(str, own.nodes))
    assert all(0 <= view["share"] <= 1 for view in views.values())
    # Once measured, every audit shows it; and measuring again gives the same bytes.
    shown = fedtag("audit", run_copy, "--node", next(iter(own.nodes)))
    assert "Without it the probability" in shown.stdout
    assert fedtag("audit", run_copy, "--faithfulness", "--nodes", 2).exit_code == 0
    assert (run_copy / "faithfulness.json").read_bytes() == together


def test_audit_with_faithfulness_inside_an_institution(run_copy: Path, tmp_path: Path) -> None:
    site = Path(shutil.copytree(run_copy / "sites" / "client-01", tmp_path / "client-01"))
    result = fedtag("audit", site, "--faithfulness", "--nodes", 1)
    assert result.exit_code == 2
    assert "by --model" in result.stderr
    round_number = json.loads((run_copy / "model.json").read_text())["round"]
    released = tmp_path / "released"
    released.mkdir()
    for name in ("model.json", "model.safetensors"):
        shutil.copy(run_copy / name, released / name)
    options = ("--faithfulness", "--nodes", 1, "--round", round_number, "--model", released)
    result = fedtag("audit", site, *options)
    assert result.exit_code == 0, result.stderr
    alone = json.loads((site / "faithfulness.json").read_text())
    run_files = [run_copy / "faithfulness.json", run_copy / "report.html"]
    before_run = [path.read_bytes() if path.exists() else None for path in run_files]
    result = fedtag("audit", run_copy, "--client", "client-01", "--faithfulness", "--nodes", 1)
    assert result.exit_code == 0, result.stderr
    assert [path.read_bytes() if path.exists() else None for path in run_files] == before_run
    within = json.loads((run_copy / "sites" / "client-01" / "faithfulness.json").read_text())
    # The encoder's batches depend on what the cache holds, and with them the last bits of a vector.
    assert flat(within) == pytest.approx(flat(alone), abs=1e-4)
    packs = read_packs(round_file(site / "evidence", round_number))
    write_packs(site / "evidence", round_number, [replace(pack, model="0" * 64) for pack in packs])
    result = fedtag("audit", site, *options)
    assert result.exit_code == 1
    assert "is not that of the model in" in result.stderr


def test_nothing_is_measured_for_a_run_of_which_a_site_has_no_evidence(run_copy: Path) -> None:
    shutil.rmtree(run_copy / "sites" / "client-01")
    result = fedtag("audit", run_copy, "--faithfulness", "--nodes", 1)
    assert result.exit_code == 1
    assert "1 of 3 sites has no evidence: client-01" in result.stderr
    assert "nothing was measured" in result.stderr
    assert not list(run_copy.rglob("faithfulness.json"))


def test_kept_evidence_is_read_before_anything_is_measured(
    run_copy: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    core = run_copy / "sites" / "client-02" / "evidence" / CORE_FOLDER
    file = round_file(core, available_rounds(core)[-1])
    file.write_bytes(file.read_bytes()[:-1])
    monkeypatch.setattr(
        "fedtag.client.methods.dance.keeper.measure", lambda *_: pytest.fail("measured before reading")
    )
    result = fedtag("audit", run_copy, "--faithfulness", "--nodes", 1)
    assert result.exit_code == 2
    assert "is damaged" in result.stderr


def sites_of(run: Path) -> Sequence[Path]:
    return sorted(path for path in (run / "sites").iterdir() if path.is_dir())


def ids_of(site: Path) -> list[str]:
    return [str(node) for node in read_folder(site, require_training=False).graph.node_ids]
