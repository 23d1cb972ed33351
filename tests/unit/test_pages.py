"""README and pages: short enough, their numbers from result files, their links good."""

from __future__ import annotations

import csv
import re
import sys
from pathlib import Path

import pandas as pd
import pytest

from tools.pages import page

REPOSITORY = Path(__file__).resolve().parents[2]
README = (REPOSITORY / "README.md").read_text(encoding="utf-8")
PAGES = ["README.md", "CONTRIBUTING.md", "deploy/README.md"]
# What commands wrote below results/ is as they wrote it.
WRITTEN = [*(REPOSITORY / "docs").glob("*.md"), *(REPOSITORY / "docs").glob("methods/*.md")]
PAGES += [*sorted(path.relative_to(REPOSITORY).as_posix() for path in WRITTEN), "docs/results/README.md"]
LINK = re.compile(r"\]\(([^)\s]+)\)")


def anchors(text: str) -> set[str]:
    """Anchors of a page's headings."""
    titles = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def broken(name: str) -> list[str]:
    """Links of a page to files or headings that are not there."""
    place = REPOSITORY / name
    found = []
    for link in LINK.findall(place.read_text(encoding="utf-8")):
        target, _, anchor = link.partition("#")
        if link.startswith(("http://", "https://", "mailto:")):
            continue
        file = (place.parent / target).resolve() if target else place
        if not file.exists() or (anchor and anchor not in anchors(file.read_text(encoding="utf-8"))):
            found.append(link)
    return found


def test_the_readme_has_at_most_900_words() -> None:
    assert len(README.split()) <= 900


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere(name: str) -> None:
    assert broken(name) == []


def test_a_broken_link_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "page.md").write_text("# A title\n[a](#a-title) [b](page.md#none) [c](gone.md)\n")
    monkeypatch.setattr(sys.modules[__name__], "REPOSITORY", tmp_path)
    assert broken("page.md") == ["page.md#none", "gone.md"]


@pytest.mark.parametrize(
    ("page", "result"),
    [
        ("README.md", "ratios-cora"),
        ("docs/getting-started.md", "demo"),
        ("docs/methods/backbones.md", "fedavg-backbones"),
    ],
)
def test_tables_have_the_numbers_of_the_result_file(page: str, result: str) -> None:
    shown = (REPOSITORY / page).read_text(encoding="utf-8").split("\n")
    with (REPOSITORY / f"docs/results/{result}/comparison.csv").open(encoding="utf-8") as file:
        accuracies: dict[str, list[float]] = {}
        for row in csv.DictReader(file):
            accuracies.setdefault(row["row"], []).append(100 * float(row["test"]))
    for name, values in accuracies.items():
        (line,) = [line for line in shown if line.replace("*", "").startswith(f"| {name} |")]
        series = pd.Series(values)
        assert f"{series.mean():.2f} ± {series.std():.2f}" in line


def test_the_page_of_settings_is_what_the_settings_say() -> None:
    assert (REPOSITORY / "docs/settings.md").read_text(encoding="utf-8") == page()


def test_the_walk_through_shows_the_example_as_it_is() -> None:
    walk = (REPOSITORY / "docs/extending.md").read_text(encoding="utf-8")
    shown = re.findall(r"```(?:python|toml)\n# (\S+)\n(.*?)```", walk, re.DOTALL)
    assert len(shown) >= 5
    for name, excerpt in shown:
        assert excerpt in (REPOSITORY / "examples/plugin" / name).read_text(encoding="utf-8"), name
