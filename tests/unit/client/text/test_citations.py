"""Citations: what counts as one, what is taken out, and which sentences the passages bear."""

from __future__ import annotations

import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedtag.client.text.citations import (
    DOUBTFUL,
    UNSUPPORTED,
    CitedSentence,
    cited_sentences,
    judged,
    parsed_citations,
    rendered,
    without_invalid,
)
from fedtag.client.text.encoder import Encoder

PASSAGES = ("Honey bees dance to show where food is.", "Ants follow trails of scent to their nest.")


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


@pytest.mark.parametrize(
    ("text", "clean", "removed"),
    [
        ("Bees dance [1]. Ants [2, 4]  walk.", "Bees dance [1]. Ants [2, 4]  walk.", 0),
        ("Bees dance [7].", "Bees dance.", 1),
        ("Bees [0] dance [2].", "Bees dance [2].", 1),
        ("Ranges [3-9] and lists [1, 8].", "Ranges [3, 4] and lists [1].", 2),
        ("Backwards [4-2] [1].", "Backwards [1].", 1),
        ("[99]", "", 1),
        ("In 1972 [a] they [1.5] knew.", "In 1972 [a] they [1.5] knew.", 0),
    ],
)
def test_citations_of_nothing_are_taken_out(text: str, clean: str, removed: int) -> None:
    assert without_invalid(text, 4) == (clean, removed)


@given(st.text(alphabet=st.sampled_from("ab [],-0123459."), max_size=40), st.integers(0, 6))
def test_what_is_left_cites_what_exists(text: str, passages: int) -> None:
    clean, removed = without_invalid(text, passages)
    assert parsed_citations(clean, passages) == parsed_citations(text, passages)
    assert without_invalid(clean, passages) == (clean, 0)
    assert (removed == 0) == (clean == text)


@given(st.lists(st.integers(1, 30), unique=True), st.text(alphabet=st.characters(exclude_characters="[]")))
def test_every_bracketed_number_is_a_citation(numbers: list[int], between: str) -> None:
    text = between.join(["", *(f"[{number}]" for number in numbers), ""])
    assert parsed_citations(text, 30) == tuple(numbers)


@given(st.text(), st.integers(0, 20))
def test_citations_of_any_text_are_numbers_of_passages(text: str, passages: int) -> None:
    cited = parsed_citations(text, passages)
    assert len(set(cited)) == len(cited)
    assert all(1 <= number <= passages for number in cited)


def test_each_kind_of_support() -> None:
    cosine = torch.tensor([[0.9, 0.1], [0.2, 0.8], [0.9, 0.1], [0.2, 0.3], [0.3, 0.7]])
    sentences = ["Bees dance [1].", "Ants walk!", "Ants walk [2].", "Stocks fell.", "Both [1][2] move [5]."]
    assert judged(sentences, cosine, 0.5) == (
        CitedSentence("Bees dance [1].", (1,), "cited"),
        CitedSentence("Ants walk [2]!", (2,), "added"),
        CitedSentence("Ants walk [2].", (2,), "doubtful"),
        CitedSentence("Stocks fell.", (), "none"),
        CitedSentence("Both [1][2] move.", (1, 2), "cited", removed=1),
    )
    assert judged(["Bees dance."], torch.tensor([[0.5, 0.5]]), 0.5)[0].citations == (1,)
    assert judged(["Bees dance."], torch.zeros(1, 0))[0].support == "none"


def test_a_summary_is_rendered_with_remarks() -> None:
    sentences = (
        CitedSentence("Bees dance [1].", (1,), "added"),
        CitedSentence("Ants walk [2].", (2,), "doubtful"),
        CitedSentence("Stocks fell.", (), "none"),
    )
    assert rendered(sentences) == f"Bees dance [1]. Ants walk [2]. {DOUBTFUL} Stocks fell. {UNSUPPORTED}"
    assert rendered(()) == ""


def test_real_sentences_are_held_against_the_passages() -> None:
    encoder = Encoder(dtype="float32")
    text = "Bees dance to point at food. Ants follow scent trails [2]. Bees dance [2]. The stock market fell."
    found = cited_sentences(text, PASSAGES, encoder)
    assert [sentence.support for sentence in found] == ["added", "cited", "doubtful", "none"]
    assert [sentence.citations for sentence in found] == [(1,), (2,), (2,), ()]
    assert cited_sentences("  [1] .", PASSAGES, encoder) == ()
    assert [sentence.support for sentence in cited_sentences("Bees dance.", (), encoder)] == ["none"]


@given(st.text(max_size=30), st.integers(1, 3))
def test_an_added_citation_changes_nothing_else(text: str, best: int) -> None:
    cosine = torch.zeros(1, 3)
    cosine[0, best - 1] = 1.0
    (found,) = judged([text], cosine)
    if found.support == "added" and not found.removed:
        assert found.citations == (best,)
        assert re.sub(rf" \[{best}\]", "", found.text, count=1) == text
