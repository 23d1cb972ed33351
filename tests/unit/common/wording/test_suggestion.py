"""What a name that means nothing was likely meant to be, against difflib's own search."""

from __future__ import annotations

from difflib import get_close_matches

from hypothesis import given
from hypothesis import strategies as st

from fedtag.common.wording.suggestion import CLOSE, MOST, did_you_mean, nearest

NAMES = st.text("abcdeé", min_size=1, max_size=6)


@given(name=NAMES, known=st.lists(NAMES, max_size=8, unique=True))
def test_the_nearest_are_among_those_that_difflib_finds_and_begin_with_its_first(name, known):
    near = nearest(name, known)
    every = get_close_matches(name, known, n=len(known) or 1, cutoff=CLOSE)
    assert bool(near) == bool(every)
    assert set(near) <= set(every)
    assert len(near) <= MOST
    first = get_close_matches(name, near, n=1, cutoff=CLOSE)
    assert first == get_close_matches(name, [*first, *every], n=1, cutoff=CLOSE)


def test_initials_of_the_words_are_near():
    known = ["train.epochs", "train.learning-rate", "model.lr", "train.loss"]
    assert nearest("train.lr", known)[0] == "train.learning-rate"
    assert nearest("other.lr", known)[:1] != ["train.learning-rate"]
    assert nearest("BS", ["epochs", "batch_size"]) == ["batch_size"]


def test_the_remedy_names_what_is_about_as_near_or_all():
    assert did_you_mean("ABSRACT", ["abstract", "title"]) == "did you mean 'abstract'?"
    assert did_you_mean("title2", ["title1", "title3", "text"]) == "did you mean 'title1' or 'title3'?"
    assert did_you_mean("x", ["abstract", "title"]) == "use one of abstract, title"
    assert did_you_mean("x", []) == "use one of none"
    assert did_you_mean("x", ["abstract"], "leave it out") == "leave it out"
