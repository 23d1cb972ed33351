"""Summaries by the on-device language model: where they are kept, what they cost, and that they are asked once."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from client.evidence.narration import CACHE_FILE
from client.evidence.packs import available_rounds, read_packs
from client.text.summaries import SummaryCache

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
                assert len(pack.summary.split()) >= 3
                cited = [int(number) for number in re.findall(r"\[(\d+)\]", pack.summary)]
                assert cited == [] or min(cited) >= 1


def test_chunks_cost_fewer_tokens_than_full_texts(narrated_run: Federated) -> None:
    summary = narrated_run.summary
    assert summary.llm_tokens is not None
    assert summary.llm_tokens_full_text is not None
    assert summary.llm_tokens_two_hop is not None
    assert 0 < summary.llm_tokens < summary.llm_tokens_full_text <= summary.llm_tokens_two_hop


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
    cache = SummaryCache(narrated_run.sites[0].cache / CACHE_FILE)
    before = len(cache)
    again = run_federation(tmp_path / "run", {**narrated_run.config.to_flat(), "out": str(tmp_path / "run")})
    assert len(cache) == before
    assert again.summary.llm_tokens == narrated_run.summary.llm_tokens
