from __future__ import annotations

from pathlib import Path

import pytest

from fedtag.client.evidence.verdicts import FILE, keep_verdicts, read_verdicts, without_verdicts_of
from fedtag.common.errors import RunError

SAID = {"verdict": "not", "note": "says \ud800 nothing", "at": "2026-01-31T12:00:00Z"}


def test_verdicts_on_other_evidence_stay(tmp_path: Path) -> None:
    assert read_verdicts(tmp_path) == {}
    keep_verdicts(tmp_path, "one", {"a": SAID})
    keep_verdicts(tmp_path, "two", {"a": SAID})
    # As another window says it, which knows nothing of the first.
    keep_verdicts(tmp_path, "one", {"b": SAID})
    assert read_verdicts(tmp_path) == {"one": {"a": SAID, "b": SAID}, "two": {"a": SAID}}
    without_verdicts_of(tmp_path, {"a"})
    assert read_verdicts(tmp_path) == {"one": {"b": SAID}, "two": {}}


def test_nodes_whose_names_look_alike_have_verdicts_of_their_own(tmp_path: Path) -> None:
    other = {**SAID, "verdict": "convinces"}
    keep_verdicts(tmp_path, "one", {"a\u200b": SAID, "a\u200c": other})
    without_verdicts_of(tmp_path, {"a\u200b"})
    assert read_verdicts(tmp_path) == {"one": {"a\u200c": other}}


@pytest.mark.parametrize(
    "said",
    [
        {"a": 3},
        {"a": {"verdict": "not"}},
        {"a": {**SAID, "more": 1}},
        {"a": {**SAID, "verdict": "never"}},
        {"a": {**SAID, "verdict": [["not"]]}},
        {"a": {**SAID, "note": None}},
        {"a": {**SAID, "note": "x" * 10_001}},
        {"a": {**SAID, "at": "yesterday"}},
        {"a": {**SAID, "at": float("nan")}},
    ],
)
def test_another_form_is_not_kept(tmp_path: Path, said: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="has the fields verdict, note and at"):
        keep_verdicts(tmp_path, "one", said)
    assert not (tmp_path / FILE).exists()


@pytest.mark.parametrize(
    "content",
    [
        b"[]",
        b"{",
        b"\xff",
        b'{"a": {"b": 1}}',
        b"[" * 100_000,
        b'{"a": {"b": {"verdict": NaN, "note": "", "at": null}}}',
        b'{"a": {"b": {"verdict": "not", "note": "", "at": 1e999}}}',
    ],
)
def test_a_damaged_file_is_named_and_forgotten_whole(tmp_path: Path, content: bytes) -> None:
    (tmp_path / FILE).write_bytes(content)
    with pytest.raises(RunError, match=f"{FILE} holds no verdicts .*: restore it, or move it away"):
        read_verdicts(tmp_path)
    with pytest.raises(RunError):
        keep_verdicts(tmp_path, "one", {})
    assert (tmp_path / FILE).read_bytes() == content
    without_verdicts_of(tmp_path, {"a"})
    assert not (tmp_path / FILE).exists()
