"""What is several in one text is read in one way, wherever it is asked for; an empty item is refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import Result
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from fedtag.common.config import RunConfig
from fedtag.common.errors import ConfigError
from fedtag.common.settings.lists import listed
from fedtag.deploy.cli import app

SIMULATE = ("simulate", "--method", "fedavg", "--rounds", "1", "--clients", "2")
COMMANDS: dict[str, tuple[tuple[str, ...], str]] = {
    "parts": ((*SIMULATE, "--parts", ",,"), "parts = ',,'"),
    "parts, the last one": (
        (*SIMULATE, "--parts", "neighbour-generator,"),
        "parts = 'neighbour-generator,'",
    ),
    "trackers": ((*SIMULATE, "--set", "tracking.trackers=,,"), "tracking.trackers = ',,'"),
    "packages": ((*SIMULATE, "--data", "pydocs-brief:,,"), "pydocs-brief: = ',,'"),
    "sources": ((*SIMULATE, "--set", "data.source=a;;b"), "data.source = 'a;;b'"),
    "methods": (("compare", "--methods", "fedavg,,isolated", "--out", "x"), "methods = 'fedavg,,isolated'"),
    "ratios": (("compare", "--ratio", ".1,,", "--out", "x"), "ratio = '.1,,'"),
    "columns": (
        ("import", "nodes.csv", "--text", "title,,abstract", "--out", "x"),
        "text = 'title,,abstract'",
    ),
}


@given(st.lists(st.text("ab-", min_size=1), max_size=4), st.sampled_from(["", " "]))
def test_items_are_read_without_spaces_around_them(items: list[str], space: str) -> None:
    assert listed(f"{space},{space}".join(items), "parts") == tuple(items)


@pytest.mark.parametrize("text", [",", ",,", "a,", ",a", "a,,b", "a, ,b"])
def test_an_empty_item_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="lists something empty: write one ',' between any two") as caught:
        listed(text, "parts")
    assert f"parts = {text!r}" in str(caught.value)


def told(result: Result) -> str:
    return " ".join(result.stderr.split())


@pytest.mark.parametrize("case", COMMANDS)
def test_commands_refuse_it_alike(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nodes.csv").write_text("id,title,abstract\n1,a,b\n")
    words, said = COMMANDS[case]
    result = CliRunner().invoke(app, list(words))
    assert result.exit_code != 0
    assert said in told(result)
    assert "lists something empty" in told(result)
    assert {path.name for path in tmp_path.iterdir()} == {"nodes.csv"}


def test_all_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(ConfigError) as caught:
        RunConfig.from_flat({"method": "fedavg", "parts": "a,,b", "rounds": 0})
    assert "parts = 'a,,b' lists something empty" in str(caught.value)
    assert "rounds = 0" in str(caught.value)
