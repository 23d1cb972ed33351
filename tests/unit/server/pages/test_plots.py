"""The plots hold the values that they were given."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

import numpy as np

from fedtag.server.pages.plots import Band, Line, line_plot, lone_points, stacked_plot


def path_of(svg: str, colour: str) -> list[tuple[float, float]]:
    found = re.search(rf'<path d="([^"]*)"[^>]*style="fill: none;[^"]*stroke: var\(--{colour}\)', svg)
    assert found
    return [(float(x), float(y)) for x, y in re.findall(r"[ML] ([-\d.]+) ([-\d.]+)", found[1])]


def test_a_line_is_an_affine_image_of_its_values() -> None:
    rounds, values = [1, 2, 3, 5, 8], [0.1, 0.7, 0.3, 0.9, 0.2]
    points = np.array(path_of(line_plot([Line(rounds, values, 0)], "", "p"), "series-0"))
    for column, expected in ((0, rounds), (1, values)):
        slope, offset = np.polyfit(expected, points[:, column], 1)
        assert np.allclose(slope * np.array(expected) + offset, points[:, column], atol=1e-4)
        assert slope > 0 if column == 0 else slope < 0


def test_gaps_stay_gaps() -> None:
    svg = line_plot([Line([1, 2, 3, 4, 5], [0.1, 0.2, None, 0.4, 0.5], 3)], "", "p")
    assert len(path_of(svg, "series-3")) == 4
    assert re.search(r'd="M[^M"]*M', svg)


def test_bands_reach_one_deviation_up_and_down() -> None:
    values, deviations = [0.2, 0.6, 0.4], [0.1, 0.05, 0.2]
    svg = line_plot([Line([1, 2, 3], values, 0, deviations=deviations)], "", "p")
    line = np.array(path_of(svg, "series-0"))
    slope, offset = np.polyfit(values, line[:, 1], 1)
    band = re.search(r'<g id="p-Fill.*? d="([^"]*)".*?<use [^>]*y="([-\d.]+)"', svg, re.DOTALL)
    assert band
    corners = [float(band[2]) + float(y) for y in re.findall(r"[ML] [-\d.]+ ([-\d.]+)", band[1])]
    found = {round((y - offset) / slope, 3) for y in corners}
    assert found == {
        round(v + sign * d, 3) for v, d in zip(values, deviations, strict=True) for sign in (-1, 1)
    }
    assert 'id="p-Fill' not in line_plot([Line([1, 2, 3], values, 0)], "", "p")


def test_a_point_between_gaps_has_a_mark() -> None:
    values = [0.1, None, 0.3, None, None, 0.4, 0.5, None, 0.6]
    assert lone_points(values) == [0, 2, 8]
    assert lone_points([]) == []
    rounds = list(range(20))
    gaps = [0.5 if number != 3 else None for number in rounds]
    assert marks(line_plot([Line(rounds, gaps, 0)], "", "p")) == 0
    gaps[5] = None
    assert marks(line_plot([Line(rounds, gaps, 0)], "", "p")) == 1
    assert marks(line_plot([Line(rounds[:4], gaps[:4], 0)], "", "p")) == 3


def test_bands_lie_between_their_values() -> None:
    low, high = [0.1, 0.2, 0.3], [0.4, 0.6, 0.5]
    top = [0.5, 0.7, 0.9]
    svg = line_plot([Line([1, 2, 3], top, 1)], "", "p", bands=[Band([1, 2, 3], low, high, 0)])
    slope, offset = np.polyfit(top, np.array(path_of(svg, "series-1"))[:, 1], 1)
    band = re.search(r'<g id="p-Fill.*? d="([^"]*)".*?<use [^>]*y="([-\d.]+)"', svg, re.DOTALL)
    assert band
    corners = [float(band[2]) + float(y) for y in re.findall(r"[ML] [-\d.]+ ([-\d.]+)", band[1])]
    assert {round((y - offset) / slope, 3) for y in corners} == {*low, *high}


def test_whole_numbers_have_whole_ticks() -> None:
    def ticks(whole: bool) -> list[str]:
        svg = line_plot([Line([1, 2], [1.0, 3.0], 0)], "", "p", from_zero=True, whole=whole)
        return re.findall(r">([\d.]+)</text>", svg)

    assert any("." in tick for tick in ticks(False))
    assert not any("." in tick for tick in ticks(True))


def marks(svg: str) -> int:
    """How many marks a plot has in its first colour."""
    return len(re.findall(r'<use [^>]*style="fill: var\(--series-0\)', svg))


def test_colours_wrap_around_and_no_stand_in_is_left() -> None:
    lines = [Line([1, 2], [0.0, float(index)], index, index) for index in range(20)]
    svg = line_plot(lines, "loss", "p", percent=True)
    assert {f"var(--series-{index})" for index in range(8)} <= set(re.findall(r"var\(--series-\d\)", svg))
    assert "#0102" not in svg
    assert "%" in svg


def test_stacks_have_the_heights_of_their_layers() -> None:
    svg = stacked_plot([1, 2], [[1.0, 2.0], [3.0, 1.0]], "seconds", "p")
    bars = re.findall(
        r'<path d="M ([-\d.]+) ([-\d.]+) \nL [-\d.]+ [-\d.]+ \nL [-\d.]+ ([-\d.]+)[^"]*"[^>]*series-', svg
    )
    heights = np.array([float(low) - float(high) for _, low, high in bars])
    assert np.allclose(heights / heights[0], [1.0, 2.0, 3.0, 1.0], atol=1e-3)


def test_svg_is_well_formed_and_its_ids_carry_the_prefix() -> None:
    for svg in (
        line_plot([Line([4], [0.5], 0)], "", "one"),
        stacked_plot(list(range(99)), [[1.0] * 99], "s", "one"),
    ):
        root = ElementTree.fromstring(svg)
        ids = [element.attrib["id"] for element in root.iter() if "id" in element.attrib]
        assert ids
        assert all(name.startswith("one-") for name in ids)
        assert "width" not in root.attrib
        assert "viewBox" in root.attrib
