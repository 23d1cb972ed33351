"""Summaries: what is asked, what is remembered, and what counts as a citation."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from client.text.encoder import Encoder
from client.text.language_model import LanguageModel
from client.text.summaries import (
    MAX_PROMPT_TOKENS,
    SummaryCache,
    SummaryRequest,
    count_prompt_tokens,
    parsed_citations,
    prompt_of,
    summarise,
    supported,
)
from common.errors import ConfigError, RunError

REQUEST = SummaryRequest(
    ("Theory", "Biology"), ("Bees dance.", "They  find\nfood.", "Ants walk."), ("7", "7", "12")
)
OTHER = SummaryRequest(("Theory", "Biology"), ("Proofs are long.",), ("3",))
EMPTY = SummaryRequest(("Theory",), (), ())


def test_the_prompt_numbers_chunks_and_names_sources() -> None:
    prompt = prompt_of(REQUEST)
    assert "Use only what the passages say" in prompt.system
    assert "Possible topics: Theory, Biology" in prompt.user
    assert (
        "[1] (source 1) Bees dance.\n[2] (source 1) They find food.\n[3] (source 2) Ants walk." in prompt.user
    )


def test_a_second_call_asks_nothing(folder: Path, tmp_path: Path) -> None:
    cache = SummaryCache(tmp_path / "s.sqlite")
    first = summarise([REQUEST, EMPTY, OTHER, REQUEST], LanguageModel(str(folder)), cache)
    assert [summary.cached for summary in first] == [False] * 4
    assert first[0] == first[3]
    assert (first[1].text, first[1].citations, first[1].prompt_tokens) == ("", (), 0)
    assert first[0].prompt_tokens == count_prompt_tokens([REQUEST], LanguageModel(str(folder)))[0]
    assert len(cache) == 2

    model = LanguageModel(str(folder))
    second = summarise([OTHER, REQUEST], model, SummaryCache(cache.path))
    assert "_model" not in vars(model)
    assert [summary.cached for summary in second] == [True, True]
    for new, old in zip(second, (first[2], first[0]), strict=True):
        assert (new.text, new.citations) == (old.text, old.citations)
        assert (new.prompt_tokens, new.answer_tokens) == (old.prompt_tokens, old.answer_tokens)


def test_only_what_is_new_is_asked(folder: Path, tmp_path: Path) -> None:
    cache = SummaryCache(tmp_path / "s.sqlite")
    model = LanguageModel(str(folder))
    summarise([REQUEST], model, cache)
    seen: list[tuple[int, int]] = []
    both = summarise([REQUEST, OTHER], model, cache, lambda *pair: seen.append(pair))
    assert [summary.cached for summary in both] == [True, False]
    assert seen == [(1, 1)]
    assert not summarise([REQUEST], LanguageModel(str(folder), dtype="bfloat16"), cache)[0].cached


def test_chunks_beyond_the_bound_are_left_out(folder: Path, tmp_path: Path) -> None:
    model = LanguageModel(str(folder))
    long = SummaryRequest(("A",), ("short", "word " * MAX_PROMPT_TOKENS), ("1", "2"))
    alone = SummaryRequest(("A",), ("word " * MAX_PROMPT_TOKENS,), ("1",))
    summaries = summarise([long, alone], model, SummaryCache(tmp_path / "s.sqlite"))
    assert 0 < summaries[0].prompt_tokens <= MAX_PROMPT_TOKENS
    assert (summaries[1].text, summaries[1].prompt_tokens) == ("", 0)
    assert count_prompt_tokens([long], model)[0] > MAX_PROMPT_TOKENS


def test_a_foreign_cache_is_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "s.sqlite").write_bytes(b"x" * 5000)
    with pytest.raises(RunError, match=r"summary cache .* delete it"):
        summarise([REQUEST], LanguageModel(str(folder)), SummaryCache(tmp_path / "s.sqlite"))


@pytest.mark.parametrize(
    ("text", "cited"),
    [
        ("", ()),
        ("No citation at all.", ()),
        ("Bees dance [1]. Ants walk [3].", (1, 3)),
        ("Order [3] of appearance [1], once [3].", (3, 1)),
        ("Lists [1, 2;4] and ranges [2-4], [1–2].", (1, 2, 4, 3)),
        ("Joined [1][2].", (1, 2)),
        ("Outside [0] [9] [12345] [3-99].", (3, 4)),
        ("Not these: (1), [a], [-1], [1.5], 1].", ()),
        ("Backwards [4-2].", ()),
    ],
)
def test_citations(text: str, cited: tuple[int, ...]) -> None:
    assert parsed_citations(text, 4) == cited


@given(st.lists(st.integers(1, 30), unique=True), st.text(alphabet=st.characters(exclude_characters="[]")))
def test_every_bracketed_number_is_a_citation(numbers: list[int], between: str) -> None:
    text = between.join(["", *(f"[{number}]" for number in numbers), ""])
    assert parsed_citations(text, 30) == tuple(numbers)


@given(st.text(), st.integers(0, 20))
def test_citations_of_any_text_are_numbers_of_chunks(text: str, chunks: int) -> None:
    cited = parsed_citations(text, chunks)
    assert len(set(cited)) == len(cited)
    assert all(1 <= number <= chunks for number in cited)


def test_a_sentence_is_supported_by_a_close_chunk() -> None:
    encoder = Encoder(dtype="float32")
    chunks = encoder.encode(["Honey bees dance to show where food is.", "Ants follow trails."]).vectors
    sentences = encoder.encode(["Bees dance to point at food.", "The stock market fell on Monday."]).vectors
    assert supported(sentences, chunks).tolist() == [True, False]
    assert supported(sentences, chunks[:0]).tolist() == [False, False]
    assert supported(torch.zeros(0, 384), chunks).tolist() == []


def test_each_chunk_has_a_source() -> None:
    with pytest.raises(ConfigError, match="2 chunks have 1 sources"):
        SummaryRequest(("A",), ("a", "b"), ("1",))
