"""Pages of runs in a real browser: Chromium from the system, driven by Playwright."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, sync_playwright

PHONE = (360, 740)
DESKTOP = (1280, 900)
GRAVE = frozenset({"serious", "critical"})


@contextmanager
def chromium() -> Iterator[Browser]:
    """The system's Chromium; where there is none a test is skipped, and fails where CI should have installed it."""
    path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if path is None:
        said = "no Chromium is installed here (Debian: apt-get install chromium)"
        pytest.fail(said) if os.environ.get("CI") else pytest.skip(said)
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        browser = playwright.chromium.launch(executable_path=path, args=arguments)
        yield browser
        browser.close()


class Opened:
    """A page as a person sees it, and what went wrong while it was shown.

    Attributes:
        page: of Playwright, for clicks and keys.
        errors: of the page's scripts, and what it asked of a network.
    """

    def __init__(self, page: Page) -> None:
        self.page, self.errors = page, list[str]()
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("console", lambda said: self.errors.append(said.text) if said.type == "error" else None)
        page.on("request", lambda asked: self._asked(asked.url))

    def _asked(self, address: str) -> None:
        if not address.startswith(("file:", "data:", "blob:", "http://127.0.0.1")):
            self.errors.append(f"asked for {address}")

    def elements(self) -> int:
        return int(self.page.evaluate("document.getElementsByTagName('*').length"))

    def overflows(self) -> bool:
        """Whether the page is wider than its window."""
        wide: bool = self.page.evaluate("document.documentElement.scrollWidth > window.innerWidth")
        return wide

    def grave(self) -> list[str]:
        """What axe finds serious or worse, with where."""
        found: list[dict[str, Any]] = Axe().run(self.page).response["violations"]
        return [
            f"{one['id']}: {node['target']} {node['failureSummary']}"
            for one in found
            if one["impact"] in GRAVE
            for node in one["nodes"]
        ]


@contextmanager
def opened(
    browser: Browser,
    address: str | Path,
    size: tuple[int, int] = DESKTOP,
    scheme: Literal["light", "dark"] = "light",
) -> Iterator[Opened]:
    """A page of a file or an address, in a window of `size` (width, height in CSS pixels)."""
    page = browser.new_page(viewport={"width": size[0], "height": size[1]}, color_scheme=scheme)
    shown = Opened(page)
    page.goto(address.absolute().as_uri() if isinstance(address, Path) else address)
    yield shown
    page.close()
