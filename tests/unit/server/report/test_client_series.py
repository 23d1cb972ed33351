"""Numbers of clients over rounds: a line each where they are few, the spread where they are many."""

from __future__ import annotations

import numpy as np
import pytest

from fedtag.server.report.client_series import (
    LINES_SHOWN,
    ClientSeries,
    client_series,
    quartiles,
    series_chart,
)
from fedtag.server.tracking.rows import ClientRow


def row(number: int, client: str, weight: float | None) -> ClientRow:
    return ClientRow(number, client, 5, 3, None, None, None, {}, weight=weight)


def spread(clients: int, rounds: int = 4) -> ClientSeries:
    """Client k has k + round."""
    return ClientSeries(
        {f"c{k:02d}": {number: float(k + number) for number in range(1, rounds + 1)} for k in range(clients)}
    )


def test_rows_become_a_series_by_client() -> None:
    rows = [row(2, "b", 0.5), row(1, "b", 0.25), row(1, "a", 0.75), row(2, "a", None), row(1, "b", 0.125)]
    series = client_series(rows, lambda one: one.weight)
    assert series.values == {"a": {1: 0.75, 2: None}, "b": {1: 0.125, 2: 0.5}}
    assert list(series.values["b"]) == [1, 2]
    assert series.by_round == {1: {"a": 0.75, "b": 0.125}, 2: {"b": 0.5}}


def test_what_differs_and_what_is_constant() -> None:
    same = ClientSeries({"a": {1: 3.0, 2: 3.0}, "b": {1: 3.0, 2: None}})
    assert (same.constant, same.differs) == (3.0, False)
    moving = ClientSeries({"a": {1: 3.0, 2: 4.0}, "b": {1: 3.0}})
    assert (moving.constant, moving.differs) == (None, False)
    apart = ClientSeries({"a": {1: 3.0}, "b": {1: 4.0}})
    assert (apart.constant, apart.differs) == (None, True)
    empty = ClientSeries({"a": {1: None}})
    assert (empty.constant, empty.is_empty) == (None, True)
    assert series_chart("t", "", empty, "weight") is None


def test_few_clients_have_a_line_each() -> None:
    series = ClientSeries({**spread(3).values, "silent": {1: None}})
    chart = series_chart("weight", "Note.", series, "weight", 2, "whole")
    assert chart is not None
    assert (chart.title, chart.column, chart.run) == ("Weight of each client", "weight", 2)
    lines = chart.panels[0].series
    assert [line.name for line in lines] == ["c00", "c01", "c02"]
    assert len({(line.colour, line.dash) for line in lines}) == 3
    assert [list(line.y) for line in lines] == [[k + n for n in range(1, 5)] for k in range(3)]
    assert (
        chart.alt
        == "c00: 1 in round 1, 4 in round 4; c01: 2 in round 1, 5 in round 4; c02: 3 in round 1, 6 in round 4."
    )
    assert chart.note == "Note."


def test_lines_that_hide_each_other_are_told() -> None:
    same = ClientSeries({"a": {1: 0.5, 2: 0.5}, "b": {1: 0.5, 2: 0.5}})
    chart = series_chart("weight", "", same, "weight")
    assert chart is not None
    assert chart.note == "All clients have the same, so their lines lie on each other."
    alone = series_chart("Weight", "", ClientSeries({"a": {2: 1.0}}), "weight")
    assert alone is not None
    assert (alone.note, alone.alt) == ("", "a: 1.000 in round 2.")


def test_many_clients_are_shown_as_a_spread() -> None:
    clients = 50
    chart = series_chart("weight", "", spread(clients), "weight")
    assert chart is not None
    assert [entry.key for entry in chart.legend] == [
        "middle half",
        "median of the clients",
        "largest",
        "smallest",
    ]
    half, median, largest, smallest = chart.panels[0].series
    values = np.arange(clients) + np.arange(1, 5)[:, None]
    assert list(median.y) == list(np.median(values, axis=1))
    assert list(largest.y) == list(values.max(1))
    assert list(smallest.y) == list(values.min(1))
    assert list(half.low) == list(np.quantile(values, 0.25, axis=1))
    assert list(half.high) == list(np.quantile(values, 0.75, axis=1))
    assert chart.note == (
        "Over 50 clients; in round 4 the largest is that of c49 (53.000), the smallest that of c00 (4.000)."
    )
    assert chart.alt.endswith("Median 25.500 in round 1, 28.500 in round 4.")


def test_the_number_of_clients_decides() -> None:
    for clients, keys in ((LINES_SHOWN, LINES_SHOWN), (LINES_SHOWN + 1, 4)):
        chart = series_chart("weight", "", spread(clients), "weight")
        assert chart is not None
        assert len(chart.legend) == keys


def test_many_clients_that_agree_name_no_extremes() -> None:
    chart = series_chart(
        "steps", "", ClientSeries({f"c{k}": {1: 3.0} for k in range(20)}), "steps", 0, "whole"
    )
    assert chart is not None
    assert chart.note == "Over 20 clients; in round 1 all have 3."


@pytest.mark.parametrize(
    "column", [[2.0], [1.0, 2.0], [0.0, 1.0, 5.0, 9.0, 10.0], list(map(float, range(9)))]
)
def test_quartiles_are_those_of_numpy(column: list[float]) -> None:
    assert quartiles(column) == pytest.approx(tuple(np.quantile(column, [0.25, 0.5, 0.75])))
