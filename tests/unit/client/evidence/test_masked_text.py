from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fedtag.client.evidence.masked_text import without_spans

SPANS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)).map(lambda pair: tuple(sorted(pair))))


@given(st.text(max_size=40), SPANS)
def test_what_lies_in_no_span_stays(text: str, spans: list[tuple[int, int]]) -> None:
    kept = [
        character
        for place, character in enumerate(text)
        if not any(start <= place < end for start, end in spans)
    ]
    assert without_spans(text, spans) == "".join(kept)


def test_nothing_is_put_in_the_gap() -> None:
    assert without_spans("One two. Three. Four.", [(9, 15), (0, 3)]) == " two.  Four."
