"""The page on privacy: no line without a test, and a policy that does what the page says of it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from fedtag.client.policy.checks import broken_by_run
from fedtag.client.policy.leaving import leaving
from fedtag.client.policy.rules import read_policy
from fedtag.common.config import RunConfig

REPOSITORY = Path(__file__).resolve().parents[2]
PAGE = (REPOSITORY / "docs" / "privacy.md").read_text(encoding="utf-8")
TEST = re.compile(r"`((?:\w+/)+test_\w+\.py)`")
# Sentences that lead on and claim nothing.
LEADS = ("Write it into a", "`fedtag methods NAME`")


def statements(page: str) -> Iterator[str]:
    """Rows, bullets and paragraphs below the first heading of the second level, without code."""
    text = re.sub(r"^```.*?^```$", "", page[page.index("\n## ") :], flags=re.MULTILINE | re.DOTALL)
    for block in re.split(r"\n\n", text):
        parts = re.split(r"\n(?=[-|] ?)", block.strip())
        for part in parts:
            one = " ".join(part.split())
            if (
                one
                and not one.startswith("#")
                and not re.fullmatch(r"[| :-]+", one)
                and "tried by |" not in one
            ):
                yield one


def untried(page: str) -> list[str]:
    return [one for one in statements(page) if not TEST.search(one) and not one.startswith(LEADS)]


def test_every_line_names_a_test_that_is_there() -> None:
    assert untried(PAGE) == []
    named = set(TEST.findall(PAGE))
    assert len(named) > 10
    for name in named:
        tree = ast.parse((REPOSITORY / "tests" / name).read_text(encoding="utf-8"))
        assert any(
            isinstance(node, ast.FunctionDef) and node.name.startswith("test_") for node in tree.body
        ), name


def test_a_line_without_a_test_is_found() -> None:
    page = "# T\n\nintro\n\n## A\n\n- safe (`attacks/test_x.py`)\n- safer\n\n| a | tried by |\n| --- | --- |\n| b | |\n"
    assert untried(page) == ["- safer", "| b | |"]


@pytest.mark.parametrize(
    ("changed", "rules"),
    [
        ({}, []),
        ({"method": "fedc4"}, ["methods", "records", "records"]),
        ({"privacy.roster": False}, ["settings.privacy.roster"]),
        ({"clients": 2}, ["participants"]),
    ],
)
def test_the_policy_of_the_page_lets_its_run_through_and_no_other(
    changed: dict[str, object], rules: list[str], tmp_path: Path
) -> None:
    (text,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    path = tmp_path / "policy.toml"
    path.write_text(text.replace("/var/lib/fedtag-policy/hospital-a", str(tmp_path)), encoding="utf-8")
    demanded = dict.fromkeys(re.findall(r'^"(privacy\.[a-z-]+)"', text, re.MULTILINE), True)
    asked = {"method": "fedavg", "rounds": 20, "clients": 5, "aggregation.weights": "uniform", **demanded}
    config = RunConfig.from_flat({**asked, **changed})
    assert [one.rule for one in broken_by_run(read_policy(path), config, leaving(config))] == rules
