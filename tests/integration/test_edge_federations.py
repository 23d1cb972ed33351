"""DANCE on texts as institutions have them: none at all, very long, right to left, everything in one place."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch

from fedtag.client.evidence.packs import EvidencePack
from fedtag.client.evidence.store import available_rounds, read_packs, round_file
from fedtag.client.evidence.verification import verify
from fedtag.common.methods.dance.settings import DanceConfig

if TYPE_CHECKING:
    from tests.integration.conftest import Federated

HEBREW = "הגרף מחבר בין מאמרים. כל קשת היא ציטוט. הטקסט נשאר במוסד."
ARABIC = "يربط البيان بين الأوراق؟ كل حافة اقتباس. يبقى النص في المؤسسة."
CHINESE = "图把论文连接起来。每条边都是一次引用。文本留在机构里。"
LONG = " ".join(
    f"Sentence number {i} speaks of topic {i % 7} and nothing else, at some length." for i in range(40)
)
PLAIN = [f"Paper {i} studies {'even' if i % 2 == 0 else 'odd'} numbers by method {i}." for i in range(10)]

Folders = Callable[..., Path]
Federate = Callable[..., "Federated"]


def settings(*folders: Path, **more: object) -> dict[str, object]:
    base: dict[str, object] = {
        "method": "dance",
        "data.source": ";".join(map(str, folders)),
        "clients": len(folders),
        "rounds": 3,
        "ratio": 0.4,
    }
    return base | more


def released_packs(run: Federated) -> dict[str, tuple[EvidencePack, ...]]:
    number = run.directory.read_model_card()["round"]
    return {site.name: read_packs(round_file(site.evidence, number)) for site in run.sites}


def assert_sound(run: Federated) -> None:
    """Finite everywhere, every client in every round, all evidence literal and within budgets."""
    rows = run.directory.read_rounds()
    assert [row.round for row in rows] == list(range(1, run.config.rounds + 1))
    assert all(row.clients_ok == len(run.sites) and row.clients_failed == 0 for row in rows)
    for line in (run.directory.path / "metrics.jsonl").read_text().splitlines():
        for value in json.loads(line).values():
            assert not isinstance(value, float) or math.isfinite(value)
    assert all(bool(torch.isfinite(value).all()) for value in run.directory.read_model().values())
    dance = run.config.own(DanceConfig)
    budgets = (1, dance.one_hop_budget, dance.two_hop_budget)
    for site, session in zip(run.sites, run.sessions, strict=True):
        for folder in (site.evidence, site.evidence / "core"):
            for number in available_rounds(folder):
                packs = read_packs(round_file(folder, number))
                data = session.data.text_graph
                assert verify(packs, data.node_ids, data.texts, budgets, dance.chunk_budget).violations == ()
        assert [pack.node for pack in released_packs(run)[site.name]] == list(
            session.data.text_graph.node_ids
        )


def test_empty_long_and_right_to_left_texts(
    text_folder: Folders, run_federation: Federate, tmp_path: Path
) -> None:
    plain = text_folder(tmp_path / "plain", PLAIN)
    mixed = text_folder(
        tmp_path / "mixed", [LONG, "", HEBREW, ARABIC, "  ", CHINESE, "x", "🙂🙂 🙂", "A\r\nB\r\n\r\nC.", ""]
    )
    run = run_federation(tmp_path / "run", settings(plain, mixed))
    assert_sound(run)
    session = run.sessions[1]
    assert int(session.data.bank.ptr[1]) >= 10
    packs = released_packs(run)["mixed"]
    texts = dict(zip(session.data.text_graph.node_ids, session.data.text_graph.texts, strict=True))
    quoted = [
        (chunk.node, texts[chunk.node][chunk.start : chunk.end]) for pack in packs for chunk in pack.chunks
    ]
    # Offsets count characters in every script: chunks rejoin to the words of the text, and quotes are chunks.
    for row in range(session.data.bank.num_nodes):
        text, node = session.data.text_graph.texts[row], session.data.text_graph.node_ids[row]
        places = range(int(session.data.bank.ptr[row]), int(session.data.bank.ptr[row + 1]))
        chunks = [text[int(session.data.bank.start[r]) : int(session.data.bank.end[r])] for r in places]
        assert "".join("".join(chunks).split()) == "".join(text.split())
        assert {quote for owner, quote in quoted if owner == node} <= set(chunks)
    assert not any(chunk.node in ("mixed-1", "mixed-4", "mixed-9") for pack in packs for chunk in pack.chunks)
    assert all(len(pack.chunks) <= run.config.own(DanceConfig).chunk_budget for pack in packs)
    assert packs[0].chunks


def test_a_client_with_empty_texts_only(
    text_folder: Folders, run_federation: Federate, tmp_path: Path
) -> None:
    plain, silent = text_folder(tmp_path / "plain", PLAIN), text_folder(tmp_path / "silent", [""] * 10)
    run = run_federation(tmp_path / "run", settings(plain, silent))
    assert_sound(run)
    packs = released_packs(run)["silent"]
    assert all(pack.chunks == () for pack in packs)
    assert all(math.isfinite(pack.confidence) for pack in packs)
    rows = [row for row in run.directory.read_clients() if row.client == "silent"]
    assert len(rows) == 3
    assert all(row.weight == pytest.approx(0.5) for row in rows)


def test_empty_texts_everywhere(text_folder: Folders, run_federation: Federate, tmp_path: Path) -> None:
    folders = [text_folder(tmp_path / name, [""] * 8) for name in ("a", "b")]
    assert_sound(run_federation(tmp_path / "run", settings(*folders, rounds=2)))


def test_clients_without_training_nodes_or_edges(
    text_folder: Folders, run_federation: Federate, tmp_path: Path
) -> None:
    folders = [
        text_folder(tmp_path / "plain", PLAIN),
        text_folder(tmp_path / "guest", PLAIN[:8], train=False),
        text_folder(tmp_path / "hermit", ["A single node without any edge."]),
    ]
    run = run_federation(tmp_path / "run", settings(*folders))
    assert_sound(run)
    weights = {row.client: row.weight for row in run.directory.read_clients() if row.round == 2}
    assert weights["guest"] in (0, None)
    assert weights["plain"] > 0.5


@pytest.mark.parametrize(
    "more",
    [
        {"dance.one-hop-budget": 0, "dance.two-hop-budget": 0, "dance.chunk-budget": 1},
        {"dance.core-policy": "top", "dance.core-refresh": 0, "dance.text-refresh": 2},
        {"dance.topology": "induced", "dance.text-condensation": False, "train.inductive": True},
        {"dance.propagated": 0, "ratio": 1.0},
    ],
    ids=lambda more: ",".join(more),
)
def test_other_settings_on_difficult_texts(
    text_folder: Folders, run_federation: Federate, tmp_path: Path, more: dict[str, object]
) -> None:
    plain = text_folder(tmp_path / "plain", PLAIN)
    mixed = text_folder(tmp_path / "mixed", [LONG, "", HEBREW, ARABIC, "", CHINESE, "x", "y", "z", ""])
    assert_sound(run_federation(tmp_path / "run", settings(plain, mixed, **more)))
