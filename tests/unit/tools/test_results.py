"""The figures of docs/results are those of today's drawing, from the tables beside them, and pages show each."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from fedtag.server.comparison.charts import score_chart
from tools.results import RESULTS, compared, drawn, read_comparison

SHOWN = re.compile(r"\]\(([^)]+\.png)\)")


def test_every_figure_is_there_and_shown() -> None:
    shown = {
        (page.parent / name).resolve()
        for page in RESULTS.parent.rglob("*.md")
        for name in SHOWN.findall(page.read_text(encoding="utf-8"))
    }
    assert shown == {path.resolve() for path in RESULTS.rglob("*.png")}


@pytest.mark.parametrize("folder", compared(), ids=lambda folder: folder.name)
def test_a_comparison_is_read_as_its_page_says(folder: Path) -> None:
    comparison = read_comparison(folder)
    page = (folder / "comparison.md").read_text(encoding="utf-8")
    assert comparison.baseline in {row.name for row in comparison.rows}
    for data in comparison.data:
        chart = score_chart(comparison, data)
        for row in comparison.rows:
            tested = [summary.test_accuracy for _, summary in comparison.of(row.name, data)]
            found = [one for one in tested if one is not None]
            if len(found) > 1:
                assert f"| {100 * np.mean(found):.2f} ± {100 * np.std(found, ddof=1):.2f} |" in page
            marks = [one for one in chart.panels[0].series if one.name == row.name]
            assert [list(one.x) for one in marks] == ([[np.mean(found)]] if found else [])


def test_a_figure_is_drawn_of_its_table() -> None:
    """Its bytes are those of one machine's fonts, and are not compared with the committed ones."""
    first, second = (RESULTS / name for name in ("ratios-cora", "ratios-citeseer"))
    assert drawn(first) == drawn(first)
    assert drawn(first) != drawn(second)
    assert drawn(first).startswith(b"\x89PNG")
