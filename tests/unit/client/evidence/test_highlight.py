from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fedtag.client.evidence.highlight import Piece, pieces

texts = st.text(max_size=60)
spans = st.lists(st.tuples(st.integers(-5, 70), st.integers(-5, 70)), max_size=4)


@given(texts, spans)
def test_a_short_text_is_shown_in_full_and_each_span_at_its_offsets(
    text: str, chosen: list[tuple[int, int]]
) -> None:
    found = pieces(text, chosen)
    assert "".join(piece.text for piece in found) == text
    position = 0
    for piece in found:
        for offset in range(len(piece.text)):
            cover = tuple(j for j, (start, end) in enumerate(chosen) if start <= position + offset < end)
            assert piece.spans == cover
        position += len(piece.text)
    for j, (start, end) in enumerate(chosen):
        begins = sum(j in piece.begins for piece in found)
        assert begins == bool(text[max(start, 0) : max(end, 0)])


@given(texts, spans, st.integers(0, 30), st.integers(1, 9))
def test_what_is_left_out_of_a_long_text_is_counted(
    text: str, chosen: list[tuple[int, int]], whole: int, margin: int
) -> None:
    position = 0
    found = pieces(text, chosen, whole, margin)
    for piece in found:
        assert bool(piece.text) != bool(piece.omitted)
        assert text[position : position + len(piece.text)] == piece.text
        position += len(piece.text) + piece.omitted
    assert position == len(text)
    for j, (start, end) in enumerate(chosen):
        low, high = max(start, 0), max(end, 0)
        if high - low <= 2 * whole:
            assert "".join(piece.text for piece in found if j in piece.spans) == text[low:high]


def test_overlapping_spans_are_cut_at_every_border() -> None:
    assert pieces("0123456789", [(2, 6), (4, 8)]) == [
        Piece("01"),
        Piece("23", (0,), (0,)),
        Piece("45", (0, 1), (1,)),
        Piece("67", (1,)),
        Piece("89"),
    ]


def test_a_long_text_keeps_a_window_around_each_span() -> None:
    text = "a" * 100 + "SPAN" + "b" * 200 + "OTHER" + "c" * 100
    found = pieces(text, [(100, 104), (304, 309)], whole=50, margin=10)
    assert [(piece.text, piece.omitted) for piece in found] == [
        ("", 90),
        ("a" * 10, 0),
        ("SPAN", 0),
        ("b" * 10, 0),
        ("", 180),
        ("b" * 10, 0),
        ("OTHER", 0),
        ("c" * 10, 0),
        ("", 90),
    ]


def test_a_span_that_is_itself_very_long_keeps_its_ends() -> None:
    found = pieces("x" * 1000, [(100, 900)], whole=50, margin=10)
    assert [(len(piece.text), piece.spans, piece.omitted) for piece in found] == [
        (0, (), 90),
        (10, (), 0),
        (50, (0,), 0),
        (0, (), 700),
        (50, (0,), 0),
        (10, (), 0),
        (0, (), 90),
    ]


def test_without_spans_the_beginning_of_a_long_text_is_shown() -> None:
    assert pieces("x" * 100, [], whole=50, margin=10) == [Piece("x" * 20), Piece("", omitted=80)]
