"""What audits found, in the tables and plots of a comparison."""

from __future__ import annotations

import csv
import io
import statistics
from collections.abc import Callable
from dataclasses import replace

import pytest

from fedtag.server.comparison.attacked import Attacked
from fedtag.server.comparison.audit_tables import audit_csv, audit_headings
from fedtag.server.comparison.audits import audit_lines, kinds
from fedtag.server.comparison.charts import audit_chart
from fedtag.server.comparison.page import render_comparison
from fedtag.server.comparison.results import Comparison, Row
from fedtag.server.comparison.tables import markdown
from tests.unit.server.comparison.test_page import Texts
from tests.unit.server.comparison.test_tables import table

Compared = Callable[..., Comparison]
TESTS = {"FedAvg": [0.80, 0.82], "gamma 1": [0.7, 0.76], "gamma 2": [0.6, 0.68], "gamma 3": [0.55, None]}
AREAS = {
    ("FedAvg", 0): {"released": 0.7},
    ("gamma 1", 0): {"self-trained": 0.75, "condensed": 0.61},
    ("gamma 1", 1): {"self-trained": 0.77, "condensed": 0.64},
    ("gamma 2", 0): {"self-trained": 0.74, "condensed": 0.56},
    ("gamma 3", 0): {"self-trained": 0.72, "condensed": 0.53},
}
ROWS = [
    Row("FedAvg", {"method": "fedavg"}),
    *(Row(f"gamma {n}", {"fedgc.compression": n}) for n in (1, 2, 3)),
]


def audited(comparison: Comparison, data: str = "cora") -> Comparison:
    results = dict(comparison.results)
    for (row, seed), areas in AREAS.items():
        attacks = tuple(
            Attacked(kind, "entropy", area, area - 0.03, area + 0.02, 0.5) for kind, area in areas.items()
        )
        results[row, data, seed] = replace(results[row, data, seed], attacks=attacks)
    return replace(comparison, results=results)


@pytest.fixture
def comparison(compared: Compared) -> Comparison:
    return audited(compared(TESTS, rows=ROWS))


def test_areas_stand_beside_the_accuracy_of_the_audited_runs(comparison: Comparison) -> None:
    assert kinds(comparison) == ("released", "self-trained", "condensed")
    section = markdown(comparison).split("### Membership inference\n\n")[1]
    rows = table(f"## x\n\n{section}", "x")
    assert rows["row"] == [
        "audited",
        "test",
        "AUC, released model",
        "AUC, self-trained model",
        "AUC, condensed graph, raw features",
    ]
    assert rows["gamma 1"] == [
        "2",
        f"73.00 ± {100 * statistics.stdev([0.7, 0.76]):.2f}",
        "–",
        f"0.760 ± {statistics.stdev([0.75, 0.77]):.3f}",
        f"0.625 ± {statistics.stdev([0.61, 0.64]):.3f}",
    ]
    # The seed that was not audited is in no column.
    assert rows["gamma 2"] == ["1 of 2", "60.00", "–", "0.740", "0.560"]
    assert rows["gamma 3"] == ["1", "55.00", "–", "0.720", "0.530"]
    assert rows["FedAvg"] == ["1 of 2", "80.00", "0.700", "–", "–"]


def test_csv_has_a_line_a_run_and_target(comparison: Comparison) -> None:
    found = list(csv.DictReader(io.StringIO(audit_csv(comparison))))
    assert len(found) == sum(map(len, AREAS.values()))
    line = next(one for one in found if (one["row"], one["seed"]) == ("gamma 1", "1"))
    assert (line["target"], line["attack"], line["test"]) == ("self-trained model", "entropy", "0.76")
    assert [float(line[key]) for key in ("low", "auc", "high", "attacked_test")] == pytest.approx(
        [0.74, 0.77, 0.79, 0.5]
    )


def test_lines_of_the_dial_join_areas_and_accuracies(comparison: Comparison) -> None:
    chart = audit_chart(comparison, "cora")
    assert chart is not None
    dials = [one for one in chart.panels[0].series if one.drawn == "line"]
    assert [list(one.x) for one in dials] == [
        pytest.approx([0.76, 0.74, 0.72]),
        pytest.approx([0.625, 0.56, 0.53]),
    ], "one for each of the two targets"
    assert all(list(one.y) == pytest.approx([0.73, 0.6, 0.55]) for one in dials)
    named = {entry.key for entry in chart.legend}
    assert {"gamma 1, self-trained model", "FedAvg, released model"} <= named
    assert "AUC 0.760" in chart.alt


def test_page_shows_the_areas_of_the_data_sets_that_have_some(compared: Compared) -> None:
    page = render_comparison(audited(compared(TESTS, rows=ROWS, data=["cora", "other"])))
    read = Texts(page)
    assert read.open == []
    assert read.texts.count("Membership inference") == 1
    assert "0.760 ± 0.014" in read.texts
    assert "bound no other one" in page
    assert "Test accuracy against the strongest attack" in page


def test_without_audits_nothing_is_said_of_them(compared: Compared) -> None:
    comparison = compared(TESTS, rows=ROWS)
    assert kinds(comparison) == ()
    assert audit_lines(comparison, "cora") == ()
    assert audit_headings(comparison) == ["audited", "test"]
    assert "Membership" not in markdown(comparison)
    assert "Membership" not in render_comparison(comparison)
