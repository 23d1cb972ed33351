"""Summaries by the on-device language model: where they are kept, what they cost, and that they are asked once."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from safetensors.torch import load_file

from fedtag.client.data.folder import read_folder
from fedtag.client.data.text_graph import TEST
from fedtag.client.evidence.narration import TokenLedger
from fedtag.client.evidence.store import available_rounds, read_packs, round_file
from fedtag.client.methods.dance.node_summaries import language_model
from fedtag.client.site.site import Site
from fedtag.client.text.language_model import LanguageModel
from fedtag.client.text.summaries import SummaryCache, SummaryRequest, summarise
from fedtag.client.text.summary_vectors import SUMMARY_CACHE
from fedtag.runs.prediction import predict
from tests.exchanges import context_of

if TYPE_CHECKING:
    from tests.integration.conftest import Federated

pytestmark = pytest.mark.slow


def test_the_first_test_nodes_of_the_released_round_are_summarised(narrated_run: Federated) -> None:
    """Of the other candidate too, because the last scores decide between the two."""
    released = narrated_run.directory.read_model_card()["round"]
    limit = narrated_run.config.summaries.limit
    for site, session in zip(narrated_run.sites, narrated_run.sessions, strict=True):
        test = [
            node
            for node, split in zip(
                session.data.text_graph.node_ids, session.data.text_graph.split.tolist(), strict=True
            )
            if split == TEST
        ]
        assert released in available_rounds(site.evidence)
        for number in available_rounds(site.evidence):
            packs = read_packs(round_file(site.evidence, number))
            told = [pack for pack in packs if pack.summary is not None]
            assert [pack.node for pack in told] == test[:limit]
            for pack in told:
                assert pack.summary is not None
                assert pack.account is not None
                assert 1 <= len(pack.account.sentences) <= 2
                assert pack.summary.startswith("The passages are about")
                for sentence in pack.account.sentences:
                    marks = [int(number) for number in re.findall(r"\[(\d+)\]", sentence.text)]
                    assert tuple(dict.fromkeys(marks)) == sentence.citations
                    assert all(1 <= number <= len(pack.chunks) for number in marks)
                    assert bool(marks) == (sentence.support in ("cited", "added", "doubtful"))


def test_chunks_cost_fewer_tokens_than_full_texts(narrated_run: Federated) -> None:
    summary = narrated_run.summary
    assert summary.llm_tokens is not None
    assert summary.llm_tokens_full_text is not None
    assert summary.llm_tokens_two_hop is not None
    assert 0 < summary.llm_tokens < summary.llm_tokens_full_text <= summary.llm_tokens_two_hop
    kept = [
        pack
        for site in narrated_run.sites
        for number in available_rounds(site.evidence)
        for pack in read_packs(round_file(site.evidence, number))
    ]
    ledger = TokenLedger.of(kept)
    assert summary.llm_summaries == ledger.llm_summaries == sum(pack.account is not None for pack in kept)
    assert (summary.llm_tokens, summary.llm_tokens_full_text) == (ledger.llm, ledger.llm_full_text)
    assert summary.llm_tokens_two_hop == ledger.llm_two_hop


def test_the_card_and_the_report_show_tokens_of_one_node(narrated_run: Federated) -> None:
    node = narrated_run.summary.tokens_per_node
    assert node is not None
    assert node.chunks < node.full_text <= node.two_hop
    card = (narrated_run.directory.path / "README.md").read_text()
    assert f"| the selected chunks | {round(node.chunks):,} | generated |" in card
    assert f"take {100 * node.saving:.0f}% fewer tokens" in card
    report = (narrated_run.directory.path / "report.html").read_text()
    assert "LLM tokens a node" in report


def test_summaries_are_neither_in_the_run_directory_nor_asked_again(
    narrated_run: Federated, run_federation: Callable[..., Federated], tmp_path: Path
) -> None:
    told = [
        pack.summary
        for site in narrated_run.sites
        for pack in read_packs(round_file(site.evidence, narrated_run.directory.read_model_card()["round"]))
        if pack.summary
    ]
    shared = [path for path in narrated_run.directory.path.iterdir() if path.is_file()]
    assert {"report.html", "summary.json", "metrics.jsonl"} <= {path.name for path in shared}
    for path in shared:
        data = path.read_bytes()
        assert not any(summary.encode() in data for summary in told)
    cache = SummaryCache(narrated_run.sites[0].cache / SUMMARY_CACHE)
    before = len(cache)
    again = run_federation(tmp_path / "run", {**narrated_run.config.to_flat(), "out": str(tmp_path / "run")})
    assert len(cache) == before
    assert again.summary.llm_tokens == narrated_run.summary.llm_tokens


JOINED = {
    "method": "dance",
    "clients": 1,
    "rounds": 3,
    "ratio": 0.4,
    "dance.summaries": "feature",
    "dance.summary-share": 0.5,
    "dance.scoring": "evidence",
}


@pytest.fixture(scope="module")
def joined(
    run_federation: Callable[..., Federated],
    text_folder: Callable[..., Path],
    papers: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[..., Federated]:
    """Runs on 15 short real abstracts and an empty text; all share a cache."""
    home = tmp_path_factory.mktemp("joined")
    texts = [text[:240].rpartition(" ")[0] for text in read_folder(papers).graph.texts[:15]]
    folder = text_folder(home / "abstracts", [*texts, ""])

    def run(name: str, **changes: object) -> Federated:
        site = Site("abstracts", folder, home / name / "work", home / "cache", "cpu")
        return run_federation(home / name / "run", {**JOINED, **changes}, [site])

    return run


def test_summaries_join_the_text_view(
    joined: Callable[..., Federated], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In training and scoring; written once; predicting reads the same ones; their tokens are counted."""
    run = joined("feature")
    parameters = load_file(run.directory.path / "model.safetensors")
    session = run.sessions[0]
    cache = SummaryCache(run.sites[0].cache / SUMMARY_CACHE)
    assert len(cache) == run.summary.llm_summaries == 15

    monkeypatch.setattr(LanguageModel, "generate", lambda *_: pytest.fail("asked again"))
    again = load_file(joined("again").directory.path / "model.safetensors")
    assert all(again[name].equal(value) for name, value in parameters.items())
    audit = joined("audit", **{"dance.summaries": "audit"})
    other = load_file(audit.directory.path / "model.safetensors")
    assert any(not other[name].allclose(value, atol=1e-3) for name, value in parameters.items())
    assert (audit.summary.llm_tokens, audit.summary.llm_summaries) == (None, None)

    best = run.summary.best_round
    (row,) = (row for row in run.directory.read_clients() if row.round == best)
    made = predict(run.directory.path, run.sites[0].folder, run.sites[0].cache, "cpu", name="abstracts")
    kept = read_packs(round_file(run.sites[0].evidence, best))
    assert made.prediction.packs == kept
    confidence = made.prediction.logits.softmax(1).max(1).values.tolist()
    assert confidence == pytest.approx([pack.confidence for pack in kept], abs=1e-6)
    tested = session.data.graph.test_mask.numpy()
    right = made.classes[tested] == made.data.labels[tested]
    assert right.mean() == pytest.approx(row.test_accuracy, abs=1e-9)

    # These texts have at most four chunks each, so that the language model read all of each.
    ptr, data = session.data.bank.ptr.tolist(), session.data.text_graph
    assert max(session.data.bank.ptr.diff().tolist()) <= 4
    requests = [
        SummaryRequest(
            data.classes,
            tuple(
                data.texts[node][session.data.bank.start[row] : session.data.bank.end[row]]
                for row in range(*rows)
            ),
        )
        for node, rows in enumerate(pairwise(ptr))
    ]
    told = summarise(requests, language_model(session.data, context_of(session)), cache)
    assert sum(summary.cached for summary in told) == 15
    assert run.summary.llm_tokens == sum(summary.prompt_tokens + summary.answer_tokens for summary in told)
    assert run.summary.llm_tokens_full_text is not None
    assert run.summary.llm_tokens_two_hop is not None
    assert run.summary.llm_tokens <= run.summary.llm_tokens_full_text + 15
    assert run.summary.llm_tokens_full_text < run.summary.llm_tokens_two_hop
    for path in run.directory.path.iterdir():
        if path.is_file():
            assert not any(summary.text.encode() in path.read_bytes() for summary in told if summary.text)
