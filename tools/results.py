"""Draw docs/results anew: `python -m tools.results`; the marks of each comparison.png from the CSV beside it.

Scores over rounds and what attacks found are not in that CSV: convergence.png and privacy.png stay as they are.
"""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from fedtag.server.comparison.charts import of_all_data, score_chart
from fedtag.server.comparison.results import Comparison, Result, Row
from fedtag.server.pages.figures import PAGE, figure_bytes, figure_of
from fedtag.server.tracking.durable_files import write_atomically
from fedtag.server.tracking.rows import Summary

RESULTS = Path(__file__).resolve().parents[1] / "docs" / "results"
FIGURE = "comparison.png"
TABLES = ("comparison.csv", "comparison.md")


def main(folders: Sequence[Path]) -> None:
    """Draw the comparisons of these folders."""
    for folder in folders:
        write_atomically(folder / FIGURE, drawn(folder))
        sys.stdout.write(f"{folder.name}/{FIGURE}\n")


def compared() -> list[Path]:
    """All folders of results that hold a comparison."""
    return sorted(path.parent for path in RESULTS.glob(f"*/{TABLES[0]}"))


def drawn(folder: Path) -> bytes:
    """The figure of a comparison's scores, as `fedtag compare --figures` draws it without an axis."""
    return figure_bytes(figure_of(of_all_data(score_chart, read_comparison(folder)), PAGE), "png")


def read_comparison(folder: Path) -> Comparison:
    """What a comparison's tables say of its runs."""
    table, page = (folder / name for name in TABLES)
    with table.open(encoding="utf-8", newline="") as file:
        records = list(csv.DictReader(file))
    text = page.read_text(encoding="utf-8")
    baseline = re.search(r"^Difference: of test [\w ]+? to (.+?), in percentage points", text, re.MULTILINE)
    names, data, seeds = (dict.fromkeys(one[key] for one in records) for key in ("row", "data", "seed"))
    results = {(one["row"], one["data"], int(one["seed"])): result_of(one) for one in records}
    return Comparison(
        title=text.partition("\n")[0].removeprefix("# "),
        source="",
        settings={},
        rows=tuple(Row(name) for name in names),
        data=tuple(data),
        seeds=tuple(map(int, seeds)),
        baseline=baseline[1].replace("\\", "") if baseline else "",
        axis="",
        results=results,
    )


def result_of(record: Mapping[str, str]) -> Result:
    """A line of the CSV; what it does not hold is not known of the run."""
    row, data, seed = record["row"], record["data"], int(record["seed"])
    known = {name: float(record[name]) if record[name] else None for name in ("val", "test")}
    summary = Summary(
        method=row, data=data, clients=0, rounds=0, ratio=None, seed=seed, best_round=None,
        val_accuracy=known["val"], test_accuracy=known["test"], test_macro_f1=None, last_test_accuracy=None,
        bytes_up=0, bytes_down=0, encoder_tokens=None, llm_tokens=None, llm_tokens_full_text=None,
        seconds=0.0, seconds_per_round=None, peak_rss_mb=None, versions={},
    )  # fmt: skip
    return Result(row, data, seed, record["run"], summary if known["test"] is not None else None)


if __name__ == "__main__":
    main(compared())
