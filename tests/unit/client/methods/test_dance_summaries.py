"""Summaries that join the text view: what they are made of, where they are read, and that masking removes them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fedtag.client.data.text_graph import TextGraph
from fedtag.client.data.writing import write_folder
from fedtag.client.evidence.faithfulness import EVIDENCE
from fedtag.client.evidence.keeper import Measured
from fedtag.client.evidence.store import read_packs
from fedtag.client.methods.dance.condensation import chosen_views, forward
from fedtag.client.methods.dance.guarantees import guarantees
from fedtag.client.methods.dance.local_graph import LocalGraph, local_graph
from fedtag.client.methods.dance.masking import MaskedTexts, evidence_path
from fedtag.client.methods.dance.measurement import measure
from fedtag.client.methods.dance.method import METHOD, fused_pass
from fedtag.client.prediction.outcome import Prediction, ReleasedModel
from fedtag.client.run.simulated import simulate_sites
from fedtag.client.run.site_run import SiteRun
from fedtag.client.site.site import Site
from fedtag.client.text.encoder import Encoder
from fedtag.client.text.language_model import LanguageModel
from fedtag.client.text.summaries import SummaryCache, SummaryRequest, count_prompt_tokens, summarise
from fedtag.client.text.summary_vectors import SUMMARY_CACHE
from fedtag.common.config import RunConfig
from fedtag.common.config.run_config import without_foreign
from fedtag.common.errors import ConfigError
from fedtag.common.methods.dance.model import DanceModel, initial_dance_model
from fedtag.common.models.parameters import fingerprint, parameters_of
from fedtag.common.wire.records import Content, Instruction, Reply, prefixed
from tests.exchanges import context_of
from tests.unit.client.text.conftest import save_tiny_model

SENTENCES = (
    "Enzymes bind to the strand of the genome.",
    "A goalkeeper saved a penalty in the final.",
    "The report was printed twice because of a stain.",
    "Nobody remembers who ordered the chairs.",
    "A corridor leads from the entrance to the office.",
    "Bees dance to show where food is.",
)
NODES, EMPTY = 16, 5
CLASSES = ("biology", "sport")

Open = Callable[..., SiteRun]


@pytest.fixture(scope="module")
def writer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A causal model with random weights, which answers every prompt at once and differently."""
    return save_tiny_model(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def shared_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of all tests that do not look at what is written."""
    return tmp_path_factory.mktemp("cache")


def texts_of(seed: int = 0) -> list[str]:
    rng = np.random.default_rng(seed)
    texts = [
        " ".join(SENTENCES[part] for part in rng.permutation(6)[: 1 + node % 4]) for node in range(NODES)
    ]
    texts[EMPTY] = "  "
    return texts


def written(
    path: Path, texts: Sequence[str], labels: np.ndarray[Any, np.dtype[np.int64]] | None = None
) -> Path:
    ring = np.array([(node, (node + 1) % NODES) for node in range(NODES)])
    graph = TextGraph(
        name="bees",
        node_ids=tuple(f"n{node}" for node in range(NODES)),
        texts=tuple(texts),
        labels=np.arange(NODES) // 2 % 2 if labels is None else labels,
        split=np.array([1, 1, 2, 3], np.int8)[np.arange(NODES) % 4],
        edges=np.sort(ring, axis=1).astype(np.int64),
        edge_weights=np.ones(NODES, np.float32),
        classes=CLASSES,
    )
    return write_folder(graph, path)


@pytest.fixture
def open_site(tmp_path: Path, writer: Path, shared_cache: Path) -> Open:
    default = written(tmp_path / "bees", texts_of())

    def build(folder: Path | None = None, cache: Path = shared_cache, **changes: Any) -> SiteRun:
        flat = {
            "method": "dance",
            "ratio": 0.4,
            "model.hidden": 6,
            "text.chunk-tokens": 12,
            "text.dtype": "float32",
            "dance.chunk-budget": 2,
            "dance.summaries": "feature",
            "dance.summary-share": 0.4,
            "summaries.model": str(writer),
            **{key.replace("__", ".").replace("_", "-"): value for key, value in changes.items()},
        }
        site = Site("bees", folder or default, tmp_path / "work", cache, "cpu")
        return SiteRun(site, RunConfig.from_flat(flat))

    return build


def prepared(site: SiteRun) -> tuple[LocalGraph, DanceModel]:
    graph = site.data.graph
    local = local_graph(site.data, context_of(site))
    return local, initial_dance_model(site.config, graph.x.shape[1], graph.num_classes)


def ask(site: SiteRun, phase: str = "train", step: int = 1, **values: Any) -> Reply:
    model = initial_dance_model(site.config, site.data.graph.x.shape[1], 2)
    content = Content(prefixed("model", parameters_of(model)), {"evaluate": True, **values})
    return site.respond(Instruction("run", step, step, phase, content))


def predicted(site: SiteRun, released: ReleasedModel, evidence: bool) -> Prediction:
    return METHOD.predict(released, site.data, context_of(site), evidence)


def measured(site: SiteRun, released: ReleasedModel) -> Measured:
    return measure(released, [3, 7], 0, site.data, context_of(site))


def update(reply: Reply) -> str:
    return fingerprint(reply.content.section("update"))


def summaries_in(site: SiteRun) -> int:
    return len(SummaryCache(site.site.cache / SUMMARY_CACHE))


def test_summaries_are_of_each_nodes_own_central_chunks(
    open_site: Open, writer: Path, tmp_path: Path
) -> None:
    site = open_site()
    local, _ = prepared(site)
    bank, texts = site.data.bank, site.data.text_graph.texts
    assert int(bank.ptr.diff().max()) > 2
    requests = []
    for node, text in enumerate(texts):
        rows = range(int(bank.ptr[node]), int(bank.ptr[node + 1]))
        likeness = {row: float(bank.vectors[row] @ bank.vectors[list(rows)].mean(0)) for row in rows}
        best = sorted(sorted(rows, key=lambda row: -round(likeness[row], 5))[:2])
        requests.append(SummaryRequest(CLASSES, tuple(text[bank.start[row] : bank.end[row]] for row in best)))
    told = summarise(requests, LanguageModel(str(writer)), SummaryCache(tmp_path / "oracle.sqlite"))
    with_text = [node for node in range(NODES) if node != EMPTY]
    expected = Encoder(dtype="float32").encode([told[node].text for node in with_text]).vectors
    assert local.summaries is not None
    torch.testing.assert_close(local.summaries[with_text], expected, atol=1e-5, rtol=0)
    assert not local.summaries[EMPTY].any()
    assert len({tuple(row.tolist()) for row in local.summaries}) > NODES // 2


def test_the_view_is_the_mixture_of_chunks_and_summaries(open_site: Open) -> None:
    """Node by node, from the weights on the selected chunks."""
    site = open_site(dance__mix=1.0)
    local, model = prepared(site)
    assert local.summaries is not None
    # One node whose language model said nothing keeps its chunks as they are.
    silent = int(local.texts.ptr.diff().argmax())
    local = replace(local, summaries=local.summaries.index_fill(0, torch.tensor([silent]), 0.0))
    rows = torch.arange(NODES)
    evidence, seen, found = chosen_views(model, local, forward(model, local), rows)
    owner = site.data.bank.node_of_chunk().tolist()
    expected = torch.zeros_like(seen.text)
    others = 0
    for row, chunk, weight in zip(
        evidence.chunks.row.tolist(), evidence.chunks.index.tolist(), found.chunk_weights, strict=True
    ):
        share = 0.0 if owner[chunk] == silent else 0.4
        assert local.summaries is not None
        value = (1 - share) * local.texts.chunks[chunk] + share * local.summaries[owner[chunk]]
        expected[row] += weight * value
        others += int(owner[chunk] != row and weight.item() > 0)
    torch.testing.assert_close(seen.text, expected)
    assert others > NODES // 2
    plain = chosen_views(model, replace(local, summaries=None), forward(model, local), rows)[1]
    assert not torch.allclose(plain.text, seen.text, atol=1e-2)
    # Selection does not read summaries: the same chunks with the same weights.
    assert torch.equal(plain.bypass, seen.bypass)
    gradient = torch.autograd.grad(seen.text.square().sum(), model.chunk_query.weight)[0]
    assert gradient.any()


def test_without_any_chunk_nothing_joins(open_site: Open, tmp_path: Path) -> None:
    texts = [""] * NODES
    texts[0] = SENTENCES[0]
    site = open_site(written(tmp_path / "bare", texts), dance__mix=1.0)
    local, model = prepared(site)
    _, seen, _ = chosen_views(model, local, forward(model, local), torch.arange(NODES))
    far = torch.arange(3, NODES - 2)
    assert seen.text[0].any()
    assert not seen.text[far].any()


def test_the_truncation_bound_holds_for_what_the_view_reads(open_site: Open) -> None:
    local, model = prepared(open_site(dance__summary_share=0.9))
    passed = forward(model, local)
    evidence, _, _ = chosen_views(model, local, passed, torch.arange(NODES))
    told, _ = guarantees(model, local, passed.g, evidence)
    assert told["chunks"]["over_bound"] == 0
    assert told["chunks"]["distance_largest"] > 0


def test_training_reads_summaries_and_share_zero_is_audit(open_site: Open, tmp_path: Path) -> None:
    audit = update(ask(open_site(dance__summaries="audit")))
    without = open_site(cache=tmp_path / "cache", dance__summary_share=0.0)
    assert update(ask(without)) == audit
    assert summaries_in(without) == 0
    site = open_site()
    assert update(ask(site)) != audit
    assert summaries_in(site) > 0


def test_a_second_start_generates_nothing(open_site: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    first = ask(open_site())
    assert first.content.values["seconds"]["summarise"] > 0
    monkeypatch.setattr(LanguageModel, "generate", lambda *_: pytest.fail("asked again"))
    again = open_site()
    replies = [ask(again), ask(again, step=2)]
    assert update(replies[0]) == update(first)
    # Built once for all messages that a site serves.
    assert "summarise" not in replies[1].content.values["seconds"]


def test_no_label_enters(open_site: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    local, _ = prepared(open_site())
    moved = written(tmp_path / "moved", texts_of(), labels=1 - np.arange(NODES) // 2 % 2)
    monkeypatch.setattr(LanguageModel, "generate", lambda *_: pytest.fail("the prompt has changed"))
    other, _ = prepared(open_site(moved))
    assert local.summaries is not None
    assert other.summaries is not None
    assert torch.equal(local.summaries, other.summaries)
    assert not torch.equal(local.graph.y, other.graph.y)


def test_the_ledger_counts_them(open_site: Open, writer: Path) -> None:
    site = open_site()
    ask(site)
    tokens = ask(site, "close", step=2, last_round=1).content.values["tokens"]
    model, texts = LanguageModel(str(writer)), site.data.text_graph.texts
    requests = [SummaryRequest(CLASSES, (text,)) for node, text in enumerate(texts) if node != EMPTY]
    around = [
        SummaryRequest(CLASSES, tuple(texts[(node + step) % NODES] for step in (-2, -1, 0, 1, 2)))
        for node in range(NODES)
        if node != EMPTY
    ]
    full, two_hop = (sum(count_prompt_tokens(group, model)) for group in (requests, around))
    answers = tokens["llm_full_text"] - full
    assert tokens["llm_summaries"] == NODES - 1
    assert 0 < answers <= 80 * (NODES - 1)
    assert tokens["llm_two_hop"] == answers + two_hop
    assert tokens["llm"] < tokens["llm_full_text"] < tokens["llm_two_hop"]
    assert ask(open_site(), "close", step=2, last_round=1).content.values["tokens"] == tokens


@pytest.mark.parametrize(("summaries", "told"), [("off", 0), ("audit", 2), ("feature", 2)])
def test_the_auditors_summaries_follow_the_limit(
    open_site: Open, tmp_path: Path, summaries: str, told: int
) -> None:
    site = open_site(cache=tmp_path / "cache", dance__summaries=summaries, summaries__limit=2)
    reply = ask(site, "close", last_round=1)
    packs = read_packs(site.site.evidence / "round-0001.parquet")
    assert sum(pack.summary is not None for pack in packs) == told
    joined = NODES - 1 if summaries == "feature" else 0
    assert reply.content.values.get("tokens", {}).get("llm_summaries", 0) == told + joined
    assert (summaries_in(site) == 0) == (summaries == "off")


def test_predicting_is_scoring(open_site: Open) -> None:
    site = open_site()
    local, model = prepared(site)
    released = ReleasedModel(parameters_of(model), 1, "evidence")
    logits = predicted(open_site(), released, evidence=True).logits
    with torch.no_grad():
        torch.testing.assert_close(logits, fused_pass(model, local, forward(model, local))[1])
        plain = replace(local, summaries=None)
        assert not torch.allclose(logits, fused_pass(model, plain, forward(model, plain))[1], atol=1e-3)


def test_predicting_by_the_plain_path_asks_no_language_model(open_site: Open, tmp_path: Path) -> None:
    site = open_site(cache=tmp_path / "cache")
    fresh = initial_dance_model(site.config, site.data.graph.x.shape[1], 2)
    predicted(site, ReleasedModel(parameters_of(fresh), 1, "graph"), evidence=False)
    assert summaries_in(site) == 0


@pytest.mark.parametrize("action", ["removed", "kept", "kept_near"])
def test_masking_a_chunk_rewrites_the_summary(open_site: Open, tmp_path: Path, action: Any) -> None:
    """The oracle writes edited texts to a folder that a fresh site reads with empty caches."""
    site = open_site()
    local, model = prepared(site)
    bank, data = site.data.bank, site.data.text_graph
    target = 6
    # One of several chunks of one node, and all chunks of another.
    cut = [int(bank.ptr[7]), *range(int(bank.ptr[8]), int(bank.ptr[9]))]
    assert bank.ptr.diff()[7] > 1
    near = [(target + step) % NODES for step in range(-2, 3)]
    masked = MaskedTexts(local, site.data, context_of(site))
    mask = masked.masks(action, cut, near)
    masked.request(mask[0])
    found = masked.encoded().graph(*mask)

    edited = []
    for node, text in enumerate(data.texts):
        rows = range(int(bank.ptr[node]), int(bank.ptr[node + 1]))
        gone = [row for row in rows if (row in cut) == (action == "removed")]
        if action == "kept_near" and node not in {*near, 7, 8}:
            gone = []
        edited.append(
            "".join(
                letter
                for place, letter in enumerate(text)
                if not any(bank.start[row] <= place < bank.end[row] for row in gone)
            )
        )
    fresh = open_site(written(tmp_path / "edited" / "bees", edited), cache=tmp_path / "other")
    expected, _ = prepared(fresh)
    assert found.summaries is not None
    assert expected.summaries is not None
    assert local.summaries is not None
    torch.testing.assert_close(found.summaries, expected.summaries, atol=1e-4, rtol=0)
    torch.testing.assert_close(found.chunk_views, expected.chunk_views, atol=1e-4, rtol=0)
    assert not torch.allclose(found.summaries[7], local.summaries[7], atol=1e-2)
    assert bool(found.summaries[8].any()) == (action != "removed")
    said = evidence_path(model, found, torch.tensor([target]), None).whole
    again = evidence_path(model, expected, torch.tensor([target]), None).whole
    torch.testing.assert_close(said, again, atol=1e-3, rtol=0)


def test_the_summary_of_the_whole_text_would_say_something_else(open_site: Open) -> None:
    """A cut chunk that lived on in the summary would be seen in the predictions."""
    site = open_site(dance__summary_share=0.9, dance__mix=1.0)
    local, model = prepared(site)
    masked = MaskedTexts(local, site.data, context_of(site))
    mask = masked.masks("removed", site.data.bank.ptr[:-1][site.data.bank.ptr.diff() > 1].tolist(), ())
    masked.request(mask[0])
    graph = masked.encoded().graph(*mask)
    stale = replace(graph, summaries=local.summaries)
    rows = torch.arange(NODES)
    said, other = (evidence_path(model, some, rows, None).whole for some in (graph, stale))
    assert float((said - other).abs().max()) > 5e-3


def test_faithfulness_is_measured_with_summaries(open_site: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    site = open_site()
    _, model = prepared(site)
    released = ReleasedModel(parameters_of(model), 1, "evidence")
    before = summaries_in(site)
    first = measured(site, released)
    assert summaries_in(site) > before
    monkeypatch.setattr(LanguageModel, "generate", lambda *_: pytest.fail("asked again"))
    again = measured(open_site(), released)
    assert np.array_equal(first.outcomes.full.probability, again.outcomes.full.probability)
    assert np.array_equal(
        first.outcomes.removed[EVIDENCE].probability, again.outcomes.removed[EVIDENCE].probability
    )
    assert first.guarantees["chunks"]["over_bound"] == 0


def test_a_site_without_encoded_texts_is_refused(
    tmp_path: Path, write_feature_folder: Callable[..., Path]
) -> None:
    folder = write_feature_folder(tmp_path / "site")
    config = RunConfig.from_flat({"method": "dance", "dance.summaries": "feature", "clients": 1})
    site = SiteRun(Site("site", folder, tmp_path / "w", tmp_path / "c", "cpu"), config)
    wanted = "brings features.npy .* leave the file out, or set dance.summaries = audit"
    with pytest.raises(ConfigError, match=f"site {wanted}"):
        local_graph(site.data, context_of(site))
    source = {**config.to_flat(), "data.source": str(folder)}
    with pytest.raises(ConfigError, match=f"all {wanted}"):
        simulate_sites(RunConfig.from_flat(source), tmp_path / "sites")
    # A baseline of the same study reads no summaries.
    assert simulate_sites(
        RunConfig.from_flat(without_foreign({**source, "method": "fedavg"})), tmp_path / "others"
    )


def test_summaries_need_text_condensation() -> None:
    with pytest.raises(ConfigError, match=r"dance.summaries = 'feature'.*set dance.text-condensation = true"):
        RunConfig.from_flat({"dance.summaries": "feature", "dance.text-condensation": False})
