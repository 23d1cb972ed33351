"""The pages of docs/ as they are built: strictly, with links that lead somewhere, and a figure that phones can show."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import unquote, urlsplit

import pytest

from tests.browser import PHONE, opened
from tests.dry_make import last_words

if TYPE_CHECKING:
    from playwright.sync_api import Browser

REPOSITORY = Path(__file__).resolve().parents[2]
FIGURE = "how-it-works.svg"
LEAST_SIZE = 9.0  # CSS pixels
MEASURED = """
() => {
  const size = text => parseFloat(getComputedStyle(text).fontSize) * text.getScreenCTM().a;
  const box = element => element.getBoundingClientRect();
  const lines = [...document.querySelectorAll("svg text")].flatMap(text =>
    text.children.length ? [...text.children] : [text]);
  const within = (inner, outer) => inner.left >= outer.left && inner.right <= outer.right
    && inner.top >= outer.top && inner.bottom <= outer.bottom;
  const meet = (one, other) => one.left < other.right && other.left < one.right
    && one.top < other.bottom && other.top < one.bottom;
  // Letters are lower than their lines, which may touch.
  const low = one => ({left: one.left, right: one.right, top: one.top + one.height / 5, bottom: one.bottom});
  return {
    smallest: Math.min(...lines.map(size)),
    outside: lines.filter(line => !within(box(line), box(line.closest("g").querySelector("rect"))))
      .map(line => line.textContent),
    meeting: lines.flatMap((one, place) => lines.slice(place + 1).filter(other => meet(low(box(one)), low(box(other))))
      .map(other => one.textContent + " | " + other.textContent)),
    ink: [...new Set(lines.map(line => getComputedStyle(line).fill))],
  };
}
"""


def build(folder: Path, site: Path) -> subprocess.CompletedProcess[str]:
    """What `make docs` does, into another folder."""
    words = last_words("docs")
    start = next(place for place, word in enumerate(words) if word.endswith("mkdocs"))
    command = ["env", *words[:start], sys.executable, "-m", "mkdocs", *words[start + 1 :]]
    return subprocess.run(
        [*command, "--site-dir", str(site)], cwd=folder, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site."""
    folder = tmp_path_factory.mktemp("built") / "site"
    done = build(REPOSITORY, folder)
    assert done.returncode == 0, done.stderr
    return folder


class Page(HTMLParser):
    """Where a page can be entered, and where it leads."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors, self.links = set[str](), list[str]()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("id", "name") and value:
                self.anchors.add(value)
            elif name in ("href", "src") and value is not None:
                self.links.append(value)


def dead(site: Path) -> Iterator[str]:
    """Links within a site that lead to no file, or to no anchor of a page."""
    pages = {path: Page(path) for path in sorted(site.resolve().rglob("*.html"))}
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            # The page of errors is served for any address, and has links from the root.
            near = site.resolve() if parts.path.startswith("/") else path.parent
            target = (near / unquote(parts.path).lstrip("/")).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            anchors = pages[target].anchors if target in pages else ()
            known = target not in pages or unquote(parts.fragment) in anchors
            if not target.is_file() or (parts.fragment and not known):
                yield f"{path.relative_to(site.resolve())}: {link}"


def test_every_link_of_the_built_pages_leads_somewhere(site: Path) -> None:
    assert len(list(site.rglob("*.html"))) > 20
    assert list(dead(site)) == []


def test_a_dead_link_of_a_built_page_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<p id="x"><a href="b.html#y">b</a> <img src="c.png"> <a href="#x">x</a>'
    )
    (tmp_path / "b.html").write_text(
        '<a href="../gone.html">g</a> <a href="a.html#x">a</a> <a href="https://e">e</a>'
    )
    assert list(dead(tmp_path)) == ["a.html: b.html#y", "a.html: c.png", "b.html: ../gone.html"]


def test_a_dead_link_breaks_the_build(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    shutil.copytree(REPOSITORY / "tools", tmp_path / "tools")
    shutil.copytree(REPOSITORY / "deploy", tmp_path / "deploy", ignore=shutil.ignore_patterns("[!R]*.*"))
    settings = (REPOSITORY / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[0]
    (tmp_path / "mkdocs.yml").write_text(settings, encoding="utf-8")
    (tmp_path / "docs" / "index.md").write_text("# Title\n\n[gone](gone.md)\n", encoding="utf-8")
    done = build(tmp_path, tmp_path / "site")
    assert done.returncode == 1
    assert "gone.md" in done.stderr


def test_the_runbook_is_a_page(site: Path) -> None:
    text = (site / "runbook.html").read_text(encoding="utf-8")
    assert "Running a federation between machines" in text
    assert 'href="threat-model.html"' in text
    assert 'href="../tests' not in text
    assert 'href="runbook.html"' in (site / "deployment.html").read_text(encoding="utf-8")


def test_the_pages_ask_nobody(site: Path) -> None:
    text = (site / "python.html").read_text(encoding="utf-8")
    assert "The ends of edges are" in text
    assert "from_networkx" in text
    for path in site.rglob("*.html"):
        asked = re.findall(
            r"<(?:script|link|img)[^>]+(?:src|href)=\"(https?://[^\"]+)", path.read_text(encoding="utf-8")
        )
        assert asked == [], path


def measured(
    browser: Browser, folder: Path, source: str, width: float, scheme: Literal["light", "dark"]
) -> dict[str, Any]:
    """How a figure looks where it is so wide: sizes in CSS pixels."""
    page = folder / f"{scheme}.html"
    page.write_text(f'<body style="margin:0"><div style="width:{width}px">{source}</div>', encoding="utf-8")
    with opened(browser, page, PHONE, scheme) as shown:
        shown.page.add_style_tag(content="svg { width: 100%; height: auto; display: block; }")
        found: dict[str, Any] = shown.page.evaluate(MEASURED)
        return {**found, "overflows": shown.overflows()}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_figure_can_be_read_on_a_phone(
    browser: Browser, site: Path, tmp_path: Path, scheme: Literal["light", "dark"]
) -> None:
    with opened(browser, site / "index.html", PHONE, scheme) as page:
        assert not page.overflows()
        image = page.page.locator(f"img[src$='{FIGURE}']").bounding_box()
        assert page.errors == []
    assert image is not None
    assert image["x"] >= 0
    assert image["x"] + image["width"] <= PHONE[0]
    found = measured(browser, tmp_path, (site / FIGURE).read_text(encoding="utf-8"), image["width"], scheme)
    assert found["smallest"] >= LEAST_SIZE
    assert found["outside"] == []
    assert found["meeting"] == []
    assert not found["overflows"]
    # In the dark, ink is light.
    shades = [sum(map(int, re.findall(r"\d+", one)[:3])) / 3 for one in found["ink"]]
    assert all(shade > 128 if scheme == "dark" else shade < 128 for shade in shades), found["ink"]


def test_a_figure_that_phones_cannot_show_is_found(browser: Browser, tmp_path: Path) -> None:
    source = (
        '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 800 100"><g><rect x="0" y="0" width="60" height="40"/>'
        '<text x="4" y="20" font-size="16">wider than its box</text><text x="8" y="24" font-size="16">over it</text>'
        "</g></svg>"
    )
    found = measured(browser, tmp_path, source, 360, "light")
    assert found["smallest"] == pytest.approx(16 * 360 / 800)
    assert found["outside"] == ["wider than its box"]
    assert found["meeting"] == ["wider than its box | over it"]
