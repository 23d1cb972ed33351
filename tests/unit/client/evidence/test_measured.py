from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fedtag.client.evidence.measured import (
    MeasuredSite,
    NodeFaithfulness,
    read_measured,
    shown,
    write_measured,
)
from fedtag.common.errors import RunError

WORDS = (
    '{"schema": 1, "model": "m", "nodes": [{"node": 1, "full": "1", "without_strongest": 0, "without_evidence": 0, '
    '"without_random": 0, "evidence_only": 0}]}'
)
"""A measurement with a word in place of a number."""


def test_what_is_written_is_read(tmp_path: Path, measured_summary: dict[str, Any]) -> None:
    path = tmp_path / "faithfulness.json"
    assert read_measured(path) is None
    nodes = {7: NodeFaithfulness(0.9, 0.8, 0.7, 0.6, 0.5), "7": NodeFaithfulness(0.1, 0.2, 0.3, 0.4, 0.5)}
    measured = MeasuredSite("9f2c", measured_summary, nodes)
    write_measured(path, measured)
    assert read_measured(path) == measured


@pytest.mark.parametrize(
    ("before", "after", "words", "fell"),
    [
        (0.9954, 0.9946, "did not change (99.5%)", False),
        (0.9866, 0.9874, "did not change (98.7%)", False),
        (0.875, 0.4021, "fell by 47.3 points, from 87.5% to 40.2%", True),
        (0.9, 0.901, "rose by 0.1 points, from 90.0% to 90.1%", False),
    ],
)
def test_a_change_is_told_at_the_precision_that_is_shown(
    before: float, after: float, words: str, fell: bool
) -> None:
    one = NodeFaithfulness(before, after, 0.1, 0.2, 0.3)
    assert (one.change, one.fell) == (words, fell)
    assert (shown(before) == shown(after)) == ("did not change" in words)


@pytest.mark.parametrize(
    "content",
    [
        "{",
        '{"schema": 9, "nodes": []}',
        "[]",
        '{"schema": 1, "nodes": [{"node": 1}]}',
        '{"schema": 1, "model": "m", "nodes": [], "targets": NaN}',
        '{"schema": 1, "model": "m", "nodes": [], "targets": 1e999}',
        WORDS,
        "[" * 50_000,
    ],
    ids=range(8),
)
def test_a_damaged_file_is_named(tmp_path: Path, content: str) -> None:
    path = tmp_path / "faithfulness.json"
    path.write_text(content)
    with pytest.raises(
        RunError, match=r"faithfulness.json holds no measurement of schema 1 .* measure again"
    ):
        read_measured(path)
