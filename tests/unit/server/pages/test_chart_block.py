"""The data that a page's charts are drawn from: the values that they were given, few enough, and no markup."""

from __future__ import annotations

import json
from html.parser import HTMLParser

import numpy as np
import pytest

from fedtag.server.pages.chart import (
    ROUNDS,
    Axis,
    Chart,
    Panel,
    Rule,
    Series,
    bounded,
    line_chart,
    lone_points,
)
from fedtag.server.pages.chart_block import FEWEST_POINTS, MOST_POINTS, ChartBlock, chart_object, short, thin

HOSTILE = ("</script><script>alert(1)</script>", "<!--", "a\u202eb", "\u2028", '"&\\', "]]>")


class Scripts(HTMLParser):
    """The elements of a page, and what stands in its scripts."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def read(chart: Chart) -> list[tuple[list[float], list[float | None]]]:
    """Places and values of each series of the first panel, as the script finds them."""
    panel = json.loads(json.dumps(chart_object(chart)))["panels"][0]
    return [(panel["places"][one["x"]], one["y"]) for one in panel["series"]]


def chart(*series: Series) -> Chart:
    made = line_chart("T", "", "", series)
    assert made is not None
    return made


def test_series_hold_their_values_and_share_their_places() -> None:
    generator = np.random.default_rng(0)
    rounds = list(range(1, 31))
    values = generator.normal(size=(3, 30))
    made = chart(*(Series(f"s{row}", rounds, list(map(float, own)), row) for row, own in enumerate(values)))
    for (places, found), own in zip(read(made), values, strict=True):
        assert places == rounds
        assert np.allclose(np.array(found, float), own, rtol=1e-4)
    assert len(chart_object(made)["panels"][0]["places"]) == 1


def test_gaps_and_what_is_no_number_are_null() -> None:
    ((places, found),) = read(chart(Series("a", [1, 2, 3, 4], [0.1, None, float("nan"), float("inf")], 0)))
    assert (places, found) == ([1, 2, 3, 4], [0.1, None, None, None])
    assert [short(value) for value in (3.0, 0.123456789, 1e-9, None)] == [3, 0.12346, 1e-09, None]


def test_a_chart_of_nothing_is_none() -> None:
    assert line_chart("T", "", "", [Series("a", [1, 2], [None, None], 0)]) is None
    assert line_chart("T", "", "", []) is None


def ends(*series: Series, x: Axis = ROUNDS, y: Axis = Axis(), rules: tuple[Rule, ...] = ()) -> list[float]:  # noqa: B008
    """The lowest and highest place, the lowest and highest value of a panel."""
    panel = bounded(Panel(x, y, series, rules))
    found = [panel.x.low, panel.x.high, panel.y.low, panel.y.high]
    assert None not in found
    return [float(end) for end in found if end is not None]


def test_everything_lies_within_the_ends_of_the_axes() -> None:
    band = Series("b", [2, 9], [0.5, 0.5], 0, low=[0.1, 0.2], high=[0.9, 1.3])
    marks = Series("m", [5.0], [0.4], 1, drawn="marks", left=[-3.0], right=[14.0])
    bars = Series("s", [1, 2], [4.0, 1.0], 2, drawn="bars", low=[0.0, 0.0], high=[4.0, 1.0], width=0.8)
    left, right, low, high = ends(band, marks, bars, rules=(Rule("r", x=(20, 20)),))
    assert left < -3.0
    assert right > 20
    assert low < 0.0
    assert high > 4.0
    left, right, low, high = ends(Series("a", [3], [0.5], 0))
    assert left < 3 < right
    assert low < 0.5 < high
    *_, low, high = ends(Series("a", [1, 2], [0.0, 0.0], 0), y=Axis(low=0.0))
    assert low == 0.0 < high
    assert ends(marks, x=Axis(), y=Axis(names=("a", "b", "c")))[2:] == [-0.6, 2.6]


def test_shares_end_at_0_and_100_percent() -> None:
    share = Axis(kind="percent")
    wide = Series("a", [0.01, 0.99], [0.02, 1.0], 0, low=[0.0, 0.9], high=[0.1, 1.0])
    assert ends(wide, x=share, y=share)[1:] == [1.0, 0.0, 1.0]
    narrow = Series("b", [1, 2], [0.97, 1.0], 0)
    *_, low, high = ends(narrow, y=share)
    assert 0.9 < low < 0.97
    assert high == 1.0
    assert ends(Series("c", [1, 2], [0.97, 1.0], 0))[3] > 1.0, "numbers that are no shares have room"


def test_the_legend_has_an_entry_for_each_key_and_none_for_one_alone() -> None:
    one, other = (
        [Series(f"{name}, {part}", [1], [1.0], 0, legend=name) for part in ("up", "down")] for name in "ab"
    )
    assert [series.key for series in chart(*one, *other).legend] == ["a", "b"]
    assert chart(*one).legend == ()
    assert chart(*one, Series("c", [1], [1.0], 0, drawn="marks", faint=True)).legend == ()


@pytest.mark.parametrize("length", [MOST_POINTS, MOST_POINTS + 1, 10_000])
def test_long_series_are_thinned_and_said_to_be(length: int) -> None:
    generator = np.random.default_rng(length)
    rounds = list(range(1, length + 1))
    values = [list(map(float, generator.random(length))) for _ in range(3)]
    made = chart(*(Series(f"s{row}", rounds, own, row) for row, own in enumerate(values)))
    panel, every = thin(made.panels[0], MOST_POINTS)
    assert (every > 1) == (length > MOST_POINTS) == ("thinned" in chart_object(made))
    assert len(panel.series[0].x) <= MOST_POINTS + 8
    for series, own in zip(panel.series, values, strict=True):
        kept = np.array(series.y, float)
        assert list(series.x) == list(panel.series[0].x)
        assert [own[int(x) - 1] for x in series.x] == list(series.y)
        assert (series.x[0], series.x[-1]) == (1, length)
        assert (kept.min(), kept.max()) == (min(own), max(own))


def test_intervals_are_thinned_with_their_points() -> None:
    rounds = list(range(1000))
    series = Series(
        "a", rounds, [float(x % 7) for x in rounds], 0, low=[x - 1.0 for x in rounds], high=rounds
    )
    panel, _ = thin(Panel(ROUNDS, Axis(), (series,)), 100)
    (kept,) = panel.series
    assert [x - 1.0 for x in kept.x] == list(kept.low)
    assert list(kept.x) == list(kept.high)


def test_a_page_of_many_charts_has_fewer_points_in_each() -> None:
    rounds = list(range(2000))
    block = ChartBlock()
    for number in range(100):
        block.place(chart(*(Series(f"{row}", rounds, [float(number)] * 2000, row) for row in range(8))))
    text = str(block.json())
    assert len(text) < 1_000_000
    places = json.loads(text)["charts"][0]["panels"][0]["places"][0]
    assert FEWEST_POINTS <= len(places) <= 2 * FEWEST_POINTS


def test_no_text_ends_the_block_and_what_cannot_be_seen_is_shown() -> None:
    block = ChartBlock([{"clients": list(HOSTILE)}])
    series = tuple(Series(name, [1.0], [0.0], 0, drawn="marks") for name in HOSTILE)
    block.place(Chart("T", "", "", (bounded(Panel(Axis(HOSTILE[0]), Axis(names=HOSTILE), series)),)))
    text = str(block.json())
    page = Scripts(f'<script type="application/json">{text}</script><b></b>')
    assert page.tags == ["script", "b"]
    assert json.loads("".join(page.texts)) == json.loads(text)
    names = json.loads(text)["charts"][0]["panels"][0]["y"]["names"]
    assert names[0] == HOSTILE[0]
    assert "\u202e" not in "".join(names)


def test_a_point_between_gaps_stands_alone() -> None:
    assert lone_points([0.1, None, 0.3, None, None, 0.4, 0.5, None, 0.6]) == [0, 2, 8]
    assert lone_points([]) == []
