from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from client.evidence.measured import MeasuredSite, NodeFaithfulness, read_measured, write_measured
from common.errors import RunError


def test_what_is_written_is_read(tmp_path: Path, measured_summary: dict[str, Any]) -> None:
    path = tmp_path / "faithfulness.json"
    assert read_measured(path) is None
    nodes = {7: NodeFaithfulness(0.9, 0.8, 0.7, 0.6, 0.5), "7": NodeFaithfulness(0.1, 0.2, 0.3, 0.4, 0.5)}
    measured = MeasuredSite("9f2c", measured_summary, nodes)
    write_measured(path, measured)
    assert read_measured(path) == measured


@pytest.mark.parametrize(
    "content", ["{", '{"schema": 9, "nodes": []}', "[]", '{"schema": 1, "nodes": [{"node": 1}]}']
)
def test_a_damaged_file_is_named(tmp_path: Path, content: str) -> None:
    path = tmp_path / "faithfulness.json"
    path.write_text(content)
    with pytest.raises(
        RunError, match=r"faithfulness.json holds no measurement of schema 1 .* measure again"
    ):
        read_measured(path)
