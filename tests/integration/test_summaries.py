"""Summaries by the on-device language model: where they are kept, what they cost, and that they are asked once."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from client.evidence.narration import TokenLedger
from client.evidence.packs import available_rounds, read_packs
from client.text.summaries import SummaryCache
from client.text.summary_vectors import SUMMARY_CACHE

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
            for node, counted in zip(session.data.node_ids, session.graph.test_mask.tolist(), strict=True)
            if counted
        ]
        assert released in available_rounds(site.evidence)
        for number in available_rounds(site.evidence):
            packs = read_packs(site.evidence / f"round-{number:04d}.jsonl")
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
        for pack in read_packs(site.evidence / f"round-{number:04d}.jsonl")
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
    assert f"| the selected chunks | {round(node.chunks):,} | yes |" in card
    assert f"take {100 * node.saving:.2f}% fewer tokens" in card
    report = (narrated_run.directory.path / "report.html").read_text()
    assert "LLM tokens a node" in report


def test_summaries_are_neither_in_the_run_directory_nor_asked_again(
    narrated_run: Federated, run_federation: Callable[..., Federated], tmp_path: Path
) -> None:
    told = [
        pack.summary
        for site in narrated_run.sites
        for pack in read_packs(
            site.evidence / f"round-{narrated_run.directory.read_model_card()['round']:04d}.jsonl"
        )
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
