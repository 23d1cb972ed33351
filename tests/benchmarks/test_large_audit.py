"""Audit pages of a million nodes: seconds to the first view, memory of the server, seconds and bytes of its answers."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import urlencode

import psutil
import pytest

from tests.browser import opened
from tests.drawn_evidence import write_site

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.benchmark

NODES, LETTERS = 1_000_000, 1000
LONGEST = 0.5
"""Seconds of one answer, and of what a person sees after a click; the server searches texts for half of it."""
MOST_BYTES = 100_000
MOST_MEMORY = 4e9
"""Of the server once it has read all; its texts alone are 1 GB."""
ASKED = (
    ("", {}),
    ("overview", {}),
    ("nodes", {}),
    ("nodes", {"only": "wrong", "order": "sure"}),
    ("nodes", {"label": 3, "prediction": 2, "from": 2000}),
    ("nodes", {"only": "sample"}),
    ("nodes", {"words": "tin sea"}),
    ("node", {"row": 0}),
    ("node", {"row": NODES - 1, "only": "wrong", "order": "sure"}),
    ("judged", {}),
    ("verdicts", {}),
)


@dataclass
class Served:
    """A server that runs: its process, its address, and seconds until that was printed."""

    process: psutil.Process
    address: str
    seconds: float

    def ask(self, what: str, query: dict[str, object]) -> tuple[bytes, float]:
        """An answer, and its seconds."""
        start = time.perf_counter()
        address = self.address.replace("/?", f"/{what}?")
        with urllib.request.urlopen(f"{address}&{urlencode(query)}") as answer:
            found = bytes(answer.read())
        return found, time.perf_counter() - start


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = write_site(tmp_path_factory.mktemp("large") / "site", NODES, LETTERS)
    start = time.perf_counter()
    command = [sys.executable, "-m", "fedtag.deploy.cli", "audit", str(folder), "--serve"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        lines = (re.search(r"http://\S+", line) for line in process.stdout)
        address = next(found[0] for found in lines if found)
        yield Served(psutil.Process(process.pid), address, time.perf_counter() - start)
        process.terminate()


def test_answers_of_a_million_nodes(served: Served) -> None:
    memory = served.process.memory_info().rss
    lines = [f"{NODES:,} nodes: served after {served.seconds:.1f} s, {memory / 1e9:.2f} GB"]
    slow, large = [], []
    for what, query in ASKED:
        # The second is what a person waits for who comes back to it.
        answers = [served.ask(what, query) for _ in range(2)]
        size, seconds = len(answers[0][0]), [took for _, took in answers]
        said = f"{what or 'page'} {urlencode(query)}"
        lines.append(f"{said:<60} {size / 1e3:>8.1f} kB {seconds[0]:>7.3f} s, again {seconds[1]:.3f} s")
        slow += [said] if max(seconds) > LONGEST else []
        large += [said] if size > MOST_BYTES else []
    start, answers = time.perf_counter(), 0
    found = {"searched": 0.0, "count": 0}
    while found["searched"] < 1:
        found, answers = json.loads(served.ask("nodes", {"words": "sea nowhere"})[0]), answers + 1
    lines.append(f"all texts searched in {time.perf_counter() - start:.1f} s and {answers} answers")
    lines.append(f"memory afterwards {served.process.memory_info().rss / 1e9:.2f} GB")
    sys.stdout.write("\n" + "\n".join(lines) + "\n")
    assert not slow
    assert not large
    assert served.process.memory_info().rss <= MOST_MEMORY


def test_a_person_turns_the_pages_of_a_million_nodes(served: Served, browser: Browser) -> None:
    start = time.perf_counter()
    with opened(browser, served.address) as shown:
        shown.page.locator("main h2", has_text="Overview").wait_for()
        took = {"first view": time.perf_counter() - start}
        for where, heading in (
            ("#nodes", "Nodes"),
            ("#nodes?only=wrong&order=sure", "Nodes"),
            ("#sample", "Sample"),
            ("#row=500000", "Node paper-500000"),
            ("#nodes?words=tin+sea", "Nodes"),
        ):
            took[where] = seconds_to(shown.page, where, heading)
        shown.page.get_by_text(re.compile(r"of 1000000 nodes, 1 to 50 shown$")).wait_for(timeout=60_000)
        took["all texts searched"] = time.perf_counter() - start - sum(took.values())
        elements = shown.elements()
        assert not shown.errors
    lines = [f"{name:<60} {seconds:>6.2f} s" for name, seconds in took.items()]
    sys.stdout.write("\n" + "\n".join([*lines, f"elements {elements}"]) + "\n")
    assert elements <= 3000


def seconds_to(page: Page, where: str, heading: str) -> float:
    """From a change of the address until what it names is shown."""
    page.evaluate("document.querySelector('main h2').remove()")
    start = time.perf_counter()
    page.evaluate("where => { location.hash = where; }", where)
    page.locator("main h2", has_text=heading).wait_for()
    return time.perf_counter() - start
