"""Narration: what the language model is asked about a pack, what is kept, and what it would cost otherwise."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from fedtag.client.evidence.narration import TokenLedger, narrate
from fedtag.client.evidence.packs import EvidencePack, SelectedChunk, SelectedNeighbour, text_digest
from fedtag.client.text.encoder import Encoder
from fedtag.client.text.language_model import LanguageModel
from fedtag.client.text.summaries import SummaryRequest, prompt_of
from tests.unit.client.text.conftest import save_tiny_model

TEXTS: dict[str | int, str] = {
    "a": "Bees dance. They show where food is.",
    "b": "Ants follow trails. Their nests are large, and so is this text of theirs.",
    "c": "Wasps are neither.",
}
CLASSES = ("Biology", "Theory")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> LanguageModel:
    return LanguageModel(str(save_tiny_model(tmp_path_factory.mktemp("tiny"))))


def pack(node: str, spans: list[tuple[str, int, int]]) -> EvidencePack:
    return EvidencePack(
        node=node,
        kind="scored",
        round=1,
        model="m",
        prediction="Biology",
        confidence=0.9,
        neighbours=(SelectedNeighbour(node, 0, 1.0), SelectedNeighbour("b", 1, 1.0)),
        chunks=tuple(SelectedChunk(of, *span, 0.5, text_digest(TEXTS[of])) for of, *span in spans),
    )


def test_accounts_and_their_ledger(model: LanguageModel, tmp_path: Path) -> None:
    packs = [pack("a", [("b", 0, 19), ("a", 0, 11)]), pack("c", [])]
    told = narrate(
        packs, TEXTS, [["a", "b", "c"], ["c", "b"]], CLASSES, model, Encoder(dtype="float32"), tmp_path
    )
    assert [dataclasses.replace(item, account=None) for item in told] == packs
    account = told[0].account
    assert account is not None
    assert told[1].account is None

    def tokens(*texts: str) -> int:
        return model.count_prompt_tokens([prompt_of(SummaryRequest(CLASSES, texts))])[0]

    assert account.prompt_tokens == tokens("Ants follow trails.", "Bees dance.")
    assert account.full_text_prompt_tokens == tokens(TEXTS["a"], TEXTS["b"])
    assert account.two_hop_prompt_tokens == tokens(TEXTS["a"], TEXTS["b"], TEXTS["c"])
    assert account.prompt_tokens < account.full_text_prompt_tokens < account.two_hop_prompt_tokens
    assert told[0].summary is not None
    assert told[0].summary.startswith("The passages are about")
    ledger = TokenLedger.of(told)
    assert ledger == TokenLedger(
        llm=account.prompt_tokens + account.answer_tokens,
        llm_full_text=account.full_text_prompt_tokens + account.answer_tokens,
        llm_two_hop=account.two_hop_prompt_tokens + account.answer_tokens,
        llm_summaries=1,
    )


def test_a_cached_summary_counts_as_it_did(model: LanguageModel, tmp_path: Path) -> None:
    packs = [pack("a", [("a", 0, 11)])]
    encoder = Encoder(dtype="float32")
    first = narrate(packs, TEXTS, [["a", "b"]], CLASSES, model, encoder, tmp_path)
    other = LanguageModel(model.name)
    assert narrate(packs, TEXTS, [["a", "b"]], CLASSES, other, encoder, tmp_path) == first
    assert "_model" not in vars(other)
    assert TokenLedger.of([*first, *first]).llm == 2 * TokenLedger.of(first).llm
