"""The pages of a run and of a comparison in a real browser: on a desktop, on a phone and in the dark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest

import fedtag
from fedtag.server.comparison.page import render_comparison
from fedtag.server.report.page import write_report
from fedtag.server.tracking.run_directory import RunDirectory
from tests.browser import DESKTOP, PHONE, opened
from tests.unit.server.comparison.conftest import comparison_of
from tests.unit.server.report.conftest import write_run

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

MANY = tuple(f"institution-{number:02d}" for number in range(30))
HOSTILE = ("<img src=x onerror=alert(1)>", "</script><script>alert(2)</script>", "b", "c")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("seen")


@pytest.fixture(scope="module")
def compared(folder: Path, write_feature_folder: Callable[..., Path]) -> fedtag.ComparisonResult:
    graph = fedtag.Graph.from_folder(write_feature_folder(folder / "data"))
    settings = {"train.epochs": 1}
    methods = ["fedavg", "isolated"]
    return fedtag.compare(
        graph,
        methods,
        seeds=1,
        clients=2,
        rounds=3,
        out=folder / "compared",
        settings=settings,
        progress=False,
    )


@pytest.fixture(scope="module")
def made_up(folder: Path) -> tuple[RunDirectory, Path]:
    """A run of few clients whose names are hostile, and its page."""
    run = write_run(folder / "few", clients=HOSTILE, failing="<b>lost</b>")
    write_report([run.path], run.path / "report.html")
    return run, run.path / "report.html"


@pytest.mark.parametrize(("size", "scheme"), [(DESKTOP, "light"), (PHONE, "dark")])
def test_pages_hold_on_every_screen(
    browser: Browser,
    compared: fedtag.ComparisonResult,
    size: tuple[int, int],
    scheme: Literal["light", "dark"],
) -> None:
    run = compared.run("fedavg", 0)
    for page in (run.path / "report.html", compared.page):
        with opened(browser, page, size, scheme) as shown:
            assert not shown.errors
            assert not shown.overflows()
            assert not shown.grave()
            assert shown.page.locator("canvas").count() == shown.page.locator(".plot").count() > 3
            assert shown.elements() < 3000


def test_the_report_of_a_compared_run_stands_beside_its_references(compared: fedtag.ComparisonResult) -> None:
    page = (compared.run("fedavg", 0).path / "report.html").read_text(encoding="utf-8")
    assert "Beside references" in page
    assert "<bdi>isolated</bdi>" in page


def figure(page: Page, title: str) -> Locator:
    return page.locator("figure").filter(has=page.locator("figcaption", has_text=title)).first


def percent(value: float | None) -> str:
    return f"{100 * (value or 0):.2f}%"


def test_hovering_shows_the_values_of_a_round(browser: Browser, made_up: tuple[RunDirectory, Path]) -> None:
    run, path = made_up
    rows = run.read_rounds()
    with opened(browser, path) as shown:
        chart = figure(shown.page, "Accuracy")
        over = chart.locator(".u-over")
        box = over.bounding_box()
        assert box is not None
        for share, row in ((0.02, rows[0]), (0.98, rows[-1])):
            over.hover(position={"x": share * box["width"], "y": box["height"] / 2})
            told = chart.locator(".tip").inner_text()
            assert f"round {row.round}" in told
            assert percent(row.test_accuracy) in told
            assert percent(row.val_accuracy) in told
        shown.page.mouse.move(1, 1)
        assert chart.locator(".tip").is_hidden()
        assert not shown.errors


def test_charts_are_read_by_keyboard(browser: Browser, made_up: tuple[RunDirectory, Path]) -> None:
    run, path = made_up
    rows = run.read_rounds()
    with opened(browser, path) as shown:
        plot = figure(shown.page, "Accuracy").locator(".plot")
        plot.focus()
        for key, row in (
            ("End", rows[-1]),
            ("ArrowLeft", rows[-2]),
            ("Home", rows[0]),
            ("ArrowRight", rows[1]),
        ):
            shown.page.keyboard.press(key)
            said = plot.get_attribute("aria-valuetext") or ""
            assert said.startswith(f"round {row.round}: test {percent(row.test_accuracy)}")
        shown.page.keyboard.press("Enter")
        assert shown.page.locator("[data-round]").inner_text() == "2"
        shown.page.keyboard.press("Escape")
        assert figure(shown.page, "Accuracy").locator(".tip").is_hidden()


def test_a_client_and_a_round_are_picked(browser: Browser, made_up: tuple[RunDirectory, Path]) -> None:
    run, path = made_up
    with opened(browser, path) as shown:
        page = shown.page
        page.get_by_role("slider", name="Round", exact=True).fill("4")
        row = next(one for one in run.read_clients() if (one.client, one.round) == (HOSTILE[0], 5))
        line = page.locator("tr[data-client]").filter(has_text=HOSTILE[0])
        assert line.locator("[data-column=test_accuracy]").inner_text().strip() == percent(row.test_accuracy)
        page.get_by_role("slider", name="Round", exact=True).fill("2")
        assert "failed" in line.inner_text(), "the first client fails in round 3"
        page.get_by_role("combobox", name="Client", exact=True).select_option(label=HOSTILE[0])
        assert "picked" in (line.get_attribute("class") or "")
        assert page.locator("tr.picked").count() == 1
        assert not shown.errors
        assert not shown.grave()


def test_a_picked_client_of_many_has_a_line_of_its_own(browser: Browser, folder: Path) -> None:
    run = write_run(folder / "many", clients=MANY, rounds=12)
    write_report([run.path], run.path / "report.html")
    with opened(browser, run.path / "report.html") as shown:
        plot = figure(shown.page, "Test accuracy of each client").locator(".plot")
        before = plot.screenshot()
        shown.page.get_by_role("combobox", name="Client", exact=True).select_option(label=MANY[7])
        plot.focus()
        shown.page.keyboard.press("End")
        row = next(one for one in run.read_clients() if (one.client, one.round) == (MANY[7], 12))
        assert f"{MANY[7]} {percent(row.test_accuracy)}" in (plot.get_attribute("aria-valuetext") or "")
        shown.page.keyboard.press("Escape")
        assert plot.screenshot() != before


def test_series_are_switched_off_and_values_shown_as_a_table(
    browser: Browser, made_up: tuple[RunDirectory, Path]
) -> None:
    run, path = made_up
    with opened(browser, path) as shown:
        chart = figure(shown.page, "Accuracy")
        before = chart.locator("canvas").screenshot()
        button = chart.get_by_role("button", name="validation")
        button.press("Enter")
        assert button.get_attribute("aria-pressed") == "false"
        assert chart.locator("canvas").screenshot() != before
        button.press("Enter")
        chart.locator("summary").press("Enter")
        line = chart.locator("details tbody tr").nth(4)
        # The table is made once it is opened, a moment after the key.
        line.wait_for()
        row = run.read_rounds()[4]
        assert line.locator("td").all_inner_texts() == [percent(row.test_accuracy), percent(row.val_accuracy)]
        assert not shown.grave()


@pytest.mark.parametrize("by", ["click", "keyboard"])
def test_tables_are_sorted(browser: Browser, made_up: tuple[RunDirectory, Path], by: str) -> None:
    run, path = made_up
    summary = run.read_summary()
    assert summary is not None
    rows = [row for row in run.read_clients() if row.round == summary.best_round]
    with opened(browser, path) as shown:
        table = shown.page.locator("table:has(tr[data-client])")
        header = table.get_by_role("columnheader", name="Validation")
        names = lambda: table.locator("tbody th").all_inner_texts()  # noqa: E731
        expected = [row.client for row in sorted(rows, key=lambda row: row.val_accuracy or 0.0)]
        for direction, wanted in (("ascending", expected), ("descending", expected[::-1])):
            button = header.get_by_role("button")
            button.click() if by == "click" else button.press("Enter")
            assert names() == wanted
            assert header.get_attribute("aria-sort") == direction
        shown.page.locator(
            "table", has=shown.page.get_by_role("columnheader", name="Bytes")
        ).first.get_by_role("button", name="Bytes").click()
        sizes: list[Any] = shown.page.locator(
            "table:has(th:has-text('What it reveals')) tbody tr"
        ).all_inner_texts()
        order = [line.split()[0] for line in sizes[:3]]
        assert order == ["schema", "statistics", "update"], (
            "bytes are sorted by what they are worth, not as text"
        )


def test_names_stay_text_in_a_browser(browser: Browser, made_up: tuple[RunDirectory, Path]) -> None:
    with opened(browser, made_up[1]) as shown:
        dialogs: list[str] = []
        shown.page.on("dialog", lambda dialog: dialogs.append(dialog.message))
        shown.page.get_by_role("combobox", name="Client", exact=True).select_option(label=HOSTILE[1])
        for plot in shown.page.locator(".plot").all():
            plot.focus()
            shown.page.keyboard.press("End")
        for summary in shown.page.locator("figure summary").all():
            summary.press("Enter")
        assert not dialogs
        assert not shown.errors
        assert shown.page.locator("img").count() == 0
        assert shown.page.locator("script").count() == 5


@pytest.fixture(scope="module")
def wide(folder: Path) -> tuple[Path, Path]:
    """Pages with as many columns as there can be, of scores that reach 100%: of a comparison, and of a run."""
    scores = {"FedAvg": [0.70, 0.93, 0.80], "dance+neighbours": [0.9, 0.98, 1.0], "isolated": [0.5, 0.6, 0.7]}
    page = folder / "wide.html"
    page.write_text(render_comparison(comparison_of(scores, length=24)), encoding="utf-8")
    run = write_run(folder / "wide", clients=("client-00", "client-01", "client-02"), ceiling=0.98)
    write_report([run.path], run.path / "report.html")
    return page, run.path / "report.html"


@pytest.mark.parametrize("size", [DESKTOP, (500, 900), PHONE])
def test_notes_stand_outside_of_what_scrolls(
    browser: Browser, wide: tuple[Path, Path], size: tuple[int, int]
) -> None:
    for page, note in zip(wide, ("an interval needs at least three seeds", "Ways of scoring"), strict=True):
        with opened(browser, page, size) as shown:
            notes = shown.page.locator("p.note").filter(visible=True)
            assert notes.filter(has_text=note).count() == 1
            assert shown.page.locator(".scroll caption, .scroll p").count() == 0
            for one in notes.all():
                box = one.bounding_box()
                assert box is not None
                assert box["x"] >= 0
                assert box["x"] + box["width"] <= size[0]
            assert not shown.overflows()


def test_every_column_is_seen_on_a_desktop(browser: Browser, wide: tuple[Path, Path]) -> None:
    for page in wide:
        with opened(browser, page) as shown:
            hidden = shown.page.locator(".scroll").evaluate_all(
                "all => all.filter(one => one.scrollWidth > one.clientWidth).map(one => one.innerText)"
            )
            assert hidden == []


def test_names_and_numbers_of_nodes_stand_on_one_line(browser: Browser, wide: tuple[Path, Path]) -> None:
    for size in (DESKTOP, PHONE):
        with opened(browser, wide[1], size) as shown:
            table = shown.page.locator("table:has(tr[data-client])")
            lines = table.get_by_role("columnheader", name="Train / val / test").bounding_box()
            assert lines is not None
            assert lines["width"] > 100, "the heading is on one line"
            for row in table.locator("tbody tr").all():
                assert row.evaluate("one => one.getBoundingClientRect().height") < 45


def test_no_tick_of_a_share_is_above_100_percent(browser: Browser, folder: Path) -> None:
    page = folder / "near.html"
    scores = {"FedAvg": [0.9, 1.0, 1.0], "dance": [0.91, 1.0, 1.0]}
    page.write_text(render_comparison(comparison_of(scores)), encoding="utf-8")
    with opened(browser, page) as shown:
        labels: list[str] = shown.page.evaluate(
            "drawn.flatMap(one => one.u.axes.flatMap(axis => axis._values))"
        )
        shares = [float(label.rstrip("%")) for label in labels if label and label.endswith("%")]
        assert len(shares) > 20
        assert max(shares) == 100
        assert min(shares) >= 0


def test_cards_are_as_high_as_what_they_hold_and_leave_no_cell_empty(
    browser: Browser, wide: tuple[Path, Path]
) -> None:
    for page in wide:
        with opened(browser, page) as shown:
            for charts in shown.page.locator(".charts").all():
                within = charts.bounding_box()
                figures = charts.locator("figure")
                spare = figures.evaluate_all(
                    "all => all.map(one => one.getBoundingClientRect().bottom"
                    " - one.lastElementChild.getBoundingClientRect().bottom)"
                )
                assert max(spare, default=0) < 20
                last = figures.last.bounding_box() if spare else None
                if within and last and len(spare) % 2:
                    assert last["width"] == pytest.approx(within["width"], abs=1)
