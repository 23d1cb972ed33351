"""Reliability diagrams hold the bins that they were given."""

from __future__ import annotations

import json
from collections.abc import Callable

import numpy as np
import pytest

from fedtag.common.errors import RunError
from fedtag.common.numerics.scores import CALIBRATION_BINS, ReliabilityBin
from fedtag.server.pages.reliability import Curve, panels, reliability_chart
from fedtag.server.report.page import render_report
from fedtag.server.report.run_view import view_run
from fedtag.server.tracking.reliability import read_bins
from fedtag.server.tracking.run_directory import RunDirectory

Make = Callable[..., RunDirectory]


def bins(counts: dict[int, int], accuracy: float = 0.5) -> tuple[ReliabilityBin, ...]:
    """So many nodes by bin; all at the middle of their bin."""
    return tuple(
        ReliabilityBin(counts[place], (place + 0.5) / CALIBRATION_BINS, accuracy * place / CALIBRATION_BINS)
        if place in counts
        else ReliabilityBin(0, None, None)
        for place in range(CALIBRATION_BINS)
    )


def test_marks_lie_at_confidence_and_accuracy_beside_the_diagonal() -> None:
    own = bins({3: 10, 9: 30, 14: 60})
    above, _ = panels([Curve("a", own, 0.1, 0)])
    (marks,), (diagonal,) = above.series, above.rules
    filled = [one for one in own if one.nodes]
    assert list(marks.x) == [one.confidence for one in filled]
    assert list(marks.y) == [one.accuracy for one in filled]
    assert list(marks.sizes) == [0.1, 0.3, 0.6]
    assert diagonal.x == diagonal.y == (0.0, 1.0)


def test_bars_are_as_high_as_bins_have_nodes() -> None:
    counts = {3: 10, 9: 30, 14: 60}
    _, below = panels([Curve("a", bins(counts), 0.1, 0)])
    (bars,) = below.series
    assert list(bars.high) == [counts.get(place, 0) for place in range(CALIBRATION_BINS)]
    assert list(bars.x) == pytest.approx(np.linspace(0, 1, CALIBRATION_BINS + 1)[1:] - 0.5 / CALIBRATION_BINS)


def test_several_models_are_told_apart_and_shown_as_shares() -> None:
    small, large = bins({5: 10, 9: 30}), bins({5: 100, 9: 300})
    curves = [Curve("a<b", small, 0.125, 0), Curve("c", large, None, 9, 1)]
    chart = reliability_chart(curves, "More.")
    assert chart is not None
    one, other = chart.panels[1].series
    # Ten times the nodes have the same shares.
    assert list(one.y) == list(other.y) == [{5: 0.25, 9: 0.75}.get(place, 0) for place in range(15)]
    assert [(entry.key, entry.colour) for entry in chart.legend] == [("a<b (12.50%)", 0), ("c (–)", 9)]
    assert (
        chart.note == "In brackets: expected calibration error on test nodes. Larger marks: more nodes. More."
    )
    assert "a<b: Mean confidence" in chart.alt
    assert "over 400 nodes" in chart.alt


def test_one_model_is_told_in_words() -> None:
    chart = reliability_chart([Curve("a", bins({3: 10, 14: 30}, accuracy=0.75), 0.2, 0)])
    assert chart is not None
    assert chart.note == "Expected calibration error on test nodes: 20.00%. Larger marks: more nodes."
    confidence = (10 * 3.5 + 30 * 14.5) / 15 / 40
    accuracy = 0.75 * (10 * 3 + 30 * 14) / 15 / 40
    assert chart.alt.startswith(f"Mean confidence {100 * confidence:.2f}%, accuracy {100 * accuracy:.2f}%")
    assert "23.33% confident, 15.00% right, 10 nodes; 96.67% confident, 70.00% right, 30 nodes." in chart.alt
    assert reliability_chart([]) is None


def test_the_report_shows_the_bins_of_a_summary(make_run: Make) -> None:
    page = render_report([view_run(make_run("a").path, "a")])
    assert page.count("Reliability: accuracy against confidence <span") == 1
    assert "Expected calibration error on test nodes: 4.30%." in page
    assert "9.33% confident, 6.25% right, 3 nodes;" in page
    several = [view_run(make_run(name).path, name) for name in ("b", "c")]
    old = view_run(make_run("old", bins=False).path, "old")
    page = render_report([old, *several])
    assert page.count("Reliability: accuracy against confidence <span") == 1
    assert "<bdi>b (4.30%)</bdi>" in page
    assert "<bdi>old (" not in page


@pytest.mark.parametrize("options", [{"bins": False}, {"finish": False}])
def test_runs_without_bins_still_open(make_run: Make, options: dict[str, bool]) -> None:
    run = make_run(**options)
    path = run.path / "summary.json"
    if path.exists():
        record = json.loads(path.read_text())
        path.write_text(json.dumps({key: value for key, value in record.items() if "reliability" not in key}))
    assert "Reliability" not in render_report([view_run(run.path, "run")])


def test_bins_without_any_node_are_no_diagram() -> None:
    none = {"nodes": 0, "confidence": None, "accuracy": None}
    assert read_bins([none] * CALIBRATION_BINS, "x") == ()
    assert read_bins(None, "x") == ()


@pytest.mark.parametrize(
    "changed",
    [
        {"nodes": -1},
        {"accuracy": 1.5},
        {"confidence": None},
        {"nodes": "many"},
        {"nodes": 0},
    ],
)
def test_damaged_bins_are_named(changed: dict[str, object]) -> None:
    good = {"nodes": 2, "confidence": 0.5, "accuracy": 0.5}
    assert len(read_bins([good] * CALIBRATION_BINS, "x")) == CALIBRATION_BINS
    with pytest.raises(RunError, match="summary holds no 15 bins of nodes, confidence and accuracy"):
        read_bins([good] * 14 + [{**good, **changed}], "summary")  # type: ignore[list-item]
    with pytest.raises(RunError, match=r"\(14 bins\): restore the file"):
        read_bins([good] * 14, "summary")
    with pytest.raises(RunError, match="'nodes'"):
        read_bins([{}] * 15, "summary")
