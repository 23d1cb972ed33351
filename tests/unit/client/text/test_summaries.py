"""Summaries: what is asked, what is remembered, and what is kept of an answer."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from fedtag.client.text.language_model import Answer, LanguageModel
from fedtag.client.text.summaries import (
    MAX_NEW_TOKENS,
    MAX_PROMPT_TOKENS,
    OPENING,
    SummaryCache,
    SummaryRequest,
    count_group_prompt_tokens,
    count_prompt_tokens,
    prompt_bound,
    prompt_of,
    shortened,
    summarise,
)
from fedtag.common.errors import RunError
from fedtag.common.numerics.ragged import Ragged

REQUEST = SummaryRequest(("Theory", "Biology"), ("Bees dance.", "They  find\nfood.", "Ants walk."))
OTHER = SummaryRequest(("Theory", "Biology"), ("Proofs are long.",))
EMPTY = SummaryRequest(("Theory",), ())


def test_the_prompt_numbers_chunks_and_names_the_candidates() -> None:
    prompt = prompt_of(REQUEST)
    assert prompt.system == "Use only the numbered passages."
    assert prompt.user.startswith("[1] Bees dance.\n[2] They find food.\n[3] Ants walk.\n")
    assert "Topics: Theory, Biology\n" in prompt.user
    assert "citing passages by number" in prompt.user
    assert prompt.opening == OPENING


def test_a_second_call_asks_nothing(folder: Path, tmp_path: Path) -> None:
    cache = SummaryCache(tmp_path / "s.sqlite")
    first = summarise([REQUEST, EMPTY, OTHER, REQUEST], LanguageModel(str(folder)), cache)
    assert [summary.cached for summary in first] == [False] * 4
    assert first[0] == first[3]
    assert (first[1].text, first[1].prompt_tokens) == ("", 0)
    assert first[0].prompt_tokens == count_prompt_tokens([REQUEST], LanguageModel(str(folder)))[0]
    assert len(cache) == 2

    model = LanguageModel(str(folder))
    second = summarise([OTHER, REQUEST], model, SummaryCache(cache.path))
    assert "_model" not in vars(model)
    assert [summary.cached for summary in second] == [True, True]
    for new, old in zip(second, (first[2], first[0]), strict=True):
        assert (new.text, new.dropped) == (old.text, old.dropped)
        assert (new.prompt_tokens, new.answer_tokens) == (old.prompt_tokens, old.answer_tokens)


def test_only_what_is_new_is_asked(folder: Path, tmp_path: Path) -> None:
    cache = SummaryCache(tmp_path / "s.sqlite")
    model = LanguageModel(str(folder))
    summarise([REQUEST], model, cache)
    seen: list[tuple[int, int]] = []
    both = summarise([REQUEST, OTHER], model, cache, lambda *pair: seen.append(pair))
    assert [summary.cached for summary in both] == [True, False]
    assert seen == [(0, 1), (1, 1)]
    assert not summarise([REQUEST], LanguageModel(str(folder), dtype="bfloat16"), cache)[0].cached


def test_chunks_beyond_the_bound_are_left_out_whole_and_counted(folder: Path, tmp_path: Path) -> None:
    model = LanguageModel(str(folder))
    endless = "word " * MAX_PROMPT_TOKENS
    long = SummaryRequest(("A",), ("short", "small", endless, "tiny"))
    alone = SummaryRequest(("A",), (endless,))
    kept = SummaryRequest(("A",), ("short", "small"))
    summaries = summarise([long, alone, kept], model, SummaryCache(tmp_path / "s.sqlite"))
    assert [summary.dropped for summary in summaries] == [2, 1, 0]
    assert summaries[0].prompt_tokens == summaries[2].prompt_tokens == count_prompt_tokens([kept], model)[0]
    assert summaries[0].text == summaries[2].text
    assert (summaries[1].text, summaries[1].prompt_tokens) == ("", 0)
    again = summarise([long], model, SummaryCache(tmp_path / "s.sqlite"))
    assert (again[0].dropped, again[0].cached) == (2, True)


def test_the_prompt_leaves_room_for_the_answer(folder: Path) -> None:
    model = LanguageModel(str(folder))
    assert model.context == 2048
    assert prompt_bound(model) == 2048 - MAX_NEW_TOKENS


@pytest.mark.parametrize("name", ["folder", "plain_folder", None])
def test_prompts_of_groups_are_counted_text_by_text(request: pytest.FixtureRequest, name: str | None) -> None:
    model = LanguageModel() if name is None else LanguageModel(str(request.getfixturevalue(name)))
    texts = ["Bees dance.", "They  find\nfood (12 kg)!", "", "Ça va? 蜜蜂跳舞 – ", "walk"] * 3
    groups = [[1], [], [0, 1, 2, 3], list(range(15)), [4, 13]]
    ragged = Ragged(
        torch.tensor([0, *(len(group) for group in groups)]).cumsum(0),
        torch.tensor([text for group in groups for text in group]),
    )
    expected = count_prompt_tokens(
        [SummaryRequest(("A", "B"), tuple(texts[text] for text in group)) for group in groups], model
    )
    found = count_group_prompt_tokens(texts, ragged, ("A", "B"), model).tolist()
    # Where a text or all are empty, the tokenizer joins what stands around them.
    assert found == pytest.approx(expected, rel=0.02)
    assert (found[0], found[4]) == (expected[0], expected[4])


@pytest.mark.parametrize(
    ("text", "cut", "kept"),
    [
        ("One. Two.", False, "One. Two."),
        ("One. Two. Three.", False, "One. Two."),
        ("One.\n\n One. Two.", False, "One. Two."),
        ("It goes on and", True, "It goes on and …"),
        ("It ended.", True, "It ended."),
        ("One. Two. Three and", True, "One. Two."),
        ("No end", False, "No end"),
        ("", True, ""),
    ],
)
def test_an_answer_is_shortened_to_two_different_sentences(text: str, cut: bool, kept: str) -> None:
    assert shortened(Answer(text, 1, 1, cut)) == kept


def test_a_foreign_cache_is_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "s.sqlite").write_bytes(b"x" * 5000)
    with pytest.raises(RunError, match=r"summary cache .* delete it"):
        summarise([REQUEST], LanguageModel(str(folder)), SummaryCache(tmp_path / "s.sqlite"))
