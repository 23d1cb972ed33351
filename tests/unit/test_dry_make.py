"""What make would run is told alike wherever the tests themselves were started from."""

from __future__ import annotations

import pytest

from tests.dry_make import last_words


@pytest.mark.parametrize("outer", [None, "w", "wk -j2 --jobserver-auth=3,4"])
def test_an_outer_make_changes_nothing(outer: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    if outer:
        monkeypatch.setenv("MAKEFLAGS", outer)
        monkeypatch.setenv("MAKELEVEL", "1")
    assert last_words("demo")[-2:] == [".venv/bin/fedtag", "demo"]


def test_what_no_target_has_is_told_in_makes_words() -> None:
    with pytest.raises(LookupError, match="no-such-target"):
        last_words("no-such-target")
