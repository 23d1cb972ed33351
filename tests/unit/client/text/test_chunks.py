"""Chunks against the promises of their docstring, on arbitrary Unicode."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from fedtag.client.text.chunks import chunk_texts, sentence_spans, without_surrogates
from fedtag.client.text.encoder import Encoder
from fedtag.common.errors import ConfigError

BUNDLED_TOKENIZER = Encoder().tokenizer

WORDS = st.sampled_from(
    [
        "graph",
        "Neural networks.",
        "e.g.",
        "3.14",
        "\n\n",
        "\n- item",
        "学习。",
        "שלום",
        "مرحبا!",
        "👩‍👩‍👧",
        "é",
        "x" * 130,
    ]
)
TEXT = st.one_of(
    st.text(max_size=200), st.lists(WORDS, max_size=80).map(" ".join), st.lists(WORDS).map("".join)
)


def byte_tokenizer() -> Tokenizer:
    """A byte-level BPE, which counts a word with a space before it unlike the word alone."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    tokenizer.train_from_iterator(["the graph of the text, a graph. the text of a graph!"] * 10, trainer)
    return tokenizer


BYTE_TOKENIZER = byte_tokenizer()


def assert_promises(text: str, tokenizer: Tokenizer, max_tokens: int) -> None:
    (chunks,) = chunk_texts([text], tokenizer, max_tokens)
    covered = [0] * len(text)
    previous = 0
    for chunk in chunks:
        assert previous <= chunk.start < chunk.end <= len(text)
        part = text[chunk.start : chunk.end]
        assert part == part.strip()
        count = len(tokenizer.encode(without_surrogates(part), add_special_tokens=False))
        assert chunk.tokens == count
        assert count <= max_tokens or len(part) == 1
        for index in range(chunk.start, chunk.end):
            covered[index] += 1
        previous = chunk.end
    assert all(
        count == 1 or (count == 0 and char.isspace()) for count, char in zip(covered, text, strict=True)
    )


@settings(max_examples=150, deadline=None)
@given(TEXT, st.integers(8, 70))
def test_chunks_of_any_text_keep_every_promise(text: str, max_tokens: int) -> None:
    assert_promises(text, BUNDLED_TOKENIZER, max_tokens)
    assert_promises(text, BYTE_TOKENIZER, max_tokens)


@settings(max_examples=50, deadline=None)
@given(st.text(alphabet=st.characters(exclude_categories=[]), max_size=60))
def test_lone_surrogates_are_ordinary_characters(text: str) -> None:
    assert_promises(text, BUNDLED_TOKENIZER, 8)


@settings(max_examples=30, deadline=None)
@given(st.lists(TEXT, max_size=6))
def test_a_text_is_cut_alike_alone_and_among_others(texts: list[str]) -> None:
    together = chunk_texts(texts, BUNDLED_TOKENIZER, 16)
    assert together == [chunk_texts([text], BUNDLED_TOKENIZER, 16)[0] for text in texts]


def test_sentences_are_packed_whole_up_to_the_limit() -> None:
    sentence = "one two three four five six seven."  # 8 tokens with the full stop
    text = "  ".join([sentence] * 5)
    (chunks,) = chunk_texts([text], BUNDLED_TOKENIZER, 20)
    two = f"{sentence}  {sentence}"
    assert [text[c.start : c.end] for c in chunks] == [two, two, sentence]
    assert [c.tokens for c in chunks] == [16, 16, 8]


def test_a_long_sentence_is_cut_between_words() -> None:
    text = "unbelievable " * 40
    (chunks,) = chunk_texts([text], BUNDLED_TOKENIZER, 10)
    assert len(chunks) > 1
    assert all(set(text[c.start : c.end].split()) == {"unbelievable"} for c in chunks)


def test_a_word_that_the_tokenizer_gives_up_on_is_cut() -> None:
    (chunks,) = chunk_texts(["ab" * 500], BUNDLED_TOKENIZER, 64)
    assert all(c.end - c.start <= 100 for c in chunks)


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("", []),
        (" \n\t ", []),
        ("A b. C d? E!", ["A b.", "C d?", "E!"]),
        ("Pi is 3.14 now", ["Pi is 3.14 now"]),
        ('He said "no." Then', ['He said "no."', "Then"]),
        ("学习。图！", ["学习。", "图！"]),
        ("wrapped\nline", ["wrapped\nline"]),
        ("Title\n\nBody", ["Title", "Body"]),
        ("List:\n- one\n- two\n1. three", ["List:", "- one", "- two", "1.", "three"]),
        ("هل هذا؟ نعم", ["هل هذا؟", "نعم"]),
    ],
)
def test_sentence_ends(text: str, sentences: list[str]) -> None:
    assert [text[a:b] for a, b in sentence_spans(text)] == sentences


def test_blank_texts_give_no_chunk() -> None:
    assert chunk_texts(["", " \n "], BUNDLED_TOKENIZER) == [[], []]


def test_a_limit_too_small_is_refused() -> None:
    with pytest.raises(ConfigError, match="limit of 7 tokens is too small: use at least 8"):
        chunk_texts(["a"], BUNDLED_TOKENIZER, 7)


@pytest.mark.parametrize(
    "unit", ["a", "学", ".", " \n", "\u200b", ".'", "e\u0301", "Some words here. ", "\n", "- "]
)
def test_sentence_search_is_linear(unit: str) -> None:
    text = unit * (1_000_000 // len(unit)) + "x"
    began = time.perf_counter()
    spans = sentence_spans(text)
    assert time.perf_counter() - began < 5.0
    assert spans[-1][1] == len(text)


def test_windows_of_a_long_sentence_join_up() -> None:
    spaced = "word " * 8_000
    solid = "学" * 20_000
    assert_promises(spaced, BUNDLED_TOKENIZER, 64)
    assert_promises(solid, BUNDLED_TOKENIZER, 64)
