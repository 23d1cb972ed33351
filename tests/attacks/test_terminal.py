"""Whoever writes the names, texts and files of a data folder, or of a released model, would steer who reads them.

What others wrote may hold escape sequences, marks that reorder a line, and Markdown. Each test has a control that shows
that the attack arrives where the cleaning is taken out.
"""

from __future__ import annotations

import csv
import json
import logging
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from typer.testing import CliRunner

from fedtag.common.logs import LOGGER
from fedtag.common.wording import visible as wording
from fedtag.common.wording.visible import visible, visible_line
from fedtag.deploy.cli import app
from fedtag.server.tracking.markdown import cell, item

ESCAPE = "\x1b"
HOSTILE = f"{ESCAPE}]0;title{ESCAPE}\\{ESCAPE}[2J\x9b2J\u202egnp\u2066\u200b|`](http://evil.example)"
"""Sets the title of the window, clears the screen, reorders the line, and forges a link in a card."""
STEERING = set("\x1b\x9b\x07\x08\r\u202e\u2066\u200b\u2028")


def fedtag(*arguments: object) -> str:
    """What a command prints on both streams."""
    return CliRunner().invoke(app, [str(argument) for argument in arguments]).output


def steers(text: str) -> bool:
    return bool(STEERING & set(text))


@pytest.fixture
def uncleaned(monkeypatch: pytest.MonkeyPatch) -> None:
    """The defence off: nothing is replaced any more, whoever asks."""

    class Nothing:
        def sub(self, replacement: str, text: str) -> str:
            return text

    monkeypatch.setattr(wording, "_HIDDEN", Nothing())


@pytest.fixture
def folder(tmp_path: Path, write_feature_folder: Callable[..., Path]) -> Path:
    """A data folder with hostile names of a class, of itself and of a node."""
    path = write_feature_folder(tmp_path / "site")
    with (path / "nodes.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.reader(file))
    rows = [[HOSTILE if entry == "a" else entry for entry in row] for row in rows]
    with (path / "nodes.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(rows)
    (path / "meta.json").write_text(json.dumps({"name": "site", "classes": [HOSTILE, "b", "c"]}))
    return path


def outputs(folder: Path, home: Path) -> dict[str, str]:
    """Whatever is shown of the folder and of a run on it."""
    out, predictions = home / "run", home / "predictions.parquet"
    options = ("--method", "fedavg", "--clients", 1, "--rounds", 1)
    made = {"validate": fedtag("validate", folder)}
    made["simulate"] = fedtag("simulate", "--data", folder, "--out", out, *options)
    made["predict"] = fedtag("predict", out, folder, "--out", predictions)
    made["status"] = fedtag("status", out)
    made["card"] = (out / "README.md").read_text(encoding="utf-8")
    made["report"] = (out / "report.html").read_text(encoding="utf-8")
    # What is data stays as it is.
    assert json.loads((out / "model.json").read_text(encoding="utf-8"))["classes"][0] == HOSTILE
    return made


def test_nothing_that_is_shown_of_a_hostile_folder_steers(folder: Path, tmp_path: Path) -> None:
    shown = outputs(folder, tmp_path)
    assert not [name for name, text in shown.items() if steers(text)]
    assert all("\ufffd" in shown[name] for name in ("validate", "predict", "card"))


def test_uncleaned_it_would(folder: Path, tmp_path: Path, uncleaned: None) -> None:
    """The control."""
    shown = outputs(folder, tmp_path)
    assert {name for name, text in shown.items() if steers(text)} >= {"validate", "predict", "card"}


ERRORS: dict[str, Callable[[Path], list[object]]] = {
    "a file's name": lambda base: ["validate", base / f"no{HOSTILE.replace('/', '')}"],
    "a name in meta.json": lambda base: ["validate", hostile_meta(base)],
    "a setting": lambda base: ["settings", "--set", f"train.{HOSTILE}=1"],
    "a setting's value": lambda base: ["simulate", "--set", f"train.optimizer={HOSTILE}"],
    "an option": lambda base: ["simulate", "--rounds", HOSTILE],
    "a command": lambda base: [HOSTILE],
    "an unknown option": lambda base: ["simulate", f"--{HOSTILE}"],
    "a key of a file of settings": lambda base: ["simulate", "--config", hostile_settings(base)],
}


def hostile_meta(base: Path) -> Path:
    (base / "meta.json").write_text(json.dumps({"name": HOSTILE, "classes": [HOSTILE, 7]}))
    return base


def hostile_settings(base: Path) -> Path:
    file = base / "settings.toml"
    file.write_text('"\\u001b[2J" = 1\n', encoding="utf-8")
    return file


@pytest.mark.parametrize("what", ERRORS)
def test_no_error_steers(what: str, tmp_path: Path) -> None:
    said = fedtag(*ERRORS[what](tmp_path))
    assert said.strip()
    assert not steers(said)


def logged(text: str) -> list[str]:
    """The lines that a plain handler makes of a warning with an error in it."""
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(logging.Formatter("%(levelname)s %(message)s").format(record))  # type: ignore[method-assign]
    LOGGER.addHandler(handler)
    try:
        try:
            raise ValueError(text)
        except ValueError:
            LOGGER.warning("round 3, %s is left out", text, exc_info=True)
    finally:
        LOGGER.removeHandler(handler)
    return lines


def test_no_line_of_a_log_steers_or_is_forged() -> None:
    (line,) = logged(f"{HOSTILE}\nERROR round 4, honest is left out")
    assert not steers(line)
    first, second = line.splitlines()[:2]
    assert first.startswith("WARNING round 3, ")
    assert second.startswith(" "), "a line that looks like a record of its own"


def test_a_log_would_be_steered(uncleaned: None) -> None:
    """The control."""
    assert all(map(steers, logged(HOSTILE)))


FORGERIES = [
    "a | b",
    "a](http://evil.example)",
    "[a](http://evil.example)",
    "![a](http://evil.example/pixel)",
    "<http://evil.example>",
    "<img src=x onerror=alert(1)>",
    "&lt;b&gt; &#91;",
    "http://evil.example",
    "www.evil.example",
    "someone@evil.example",
    "`code`",
    "**bold** __bold__ ~~struck~~ $x$",
    "# a heading",
    "a\n\n# a heading\n| x |",
    "- an item",
    "+ an item",
    "1. an item",
    "12) an item",
    "---",
    "===",
    "a\\",
    "\\|",
    "    code",
    "a\u2028b",
]
READERS = {"cell": lambda text: f"| {cell(text)} | x |", "item": lambda text: f"0. {item(text)}"}


def kinds(source: str) -> tuple[list[str], str]:
    """The kinds of tokens of a Markdown text, and the text that a reader sees."""
    reader = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    tokens = reader.parse(source)
    inner = [child for token in tokens for child in token.children or ()]
    return [token.type for token in [*tokens, *inner]], "".join(child.content for child in inner)


@pytest.mark.parametrize("text", FORGERIES)
def test_names_in_a_card_are_text_and_nothing_else(text: str) -> None:
    table = "| a | b |\n| --- | --- |\n"
    for source, plain in (
        (table + READERS["cell"](text), table + "| a | x |"),
        (READERS["item"](text), "0. a"),
    ):
        found, seen = kinds(source)
        assert set(found) <= set(kinds(plain)[0]) | {"text_special"}, source
        assert found.count("td_open") == kinds(plain)[0].count("td_open")
        assert visible_line(text) in seen


@pytest.mark.parametrize("text", ["http://evil.example", "www.evil.example", "a@evil.example"])
def test_addresses_have_a_mark_that_keeps_readers_from_linking_them(text: str) -> None:
    """CommonMark links none of these, GitHub's Markdown does: not if a backslash stands in them."""
    assert any(mark in cell(text) for mark in ("\\://", "www\\.", "\\@"))


def test_as_it_is_a_name_would_forge() -> None:
    """The control: of the forgeries most are something else than text where they are not escaped."""
    plain = set(kinds("0. a")[0])
    forged = [text for text in FORGERIES if set(kinds(f"0. {text}")[0]) - plain]
    assert len(forged) >= len(FORGERIES) // 2


def test_what_is_hidden_by_unicode_is_replaced() -> None:
    """All controls, and all of format that reorder or have no width; letters, marks and signs stay."""
    categories = {code: unicodedata.category(chr(code)) for code in range(0x110000)}
    steering = {code for code, kind in categories.items() if kind in ("Cc", "Zl", "Zp", "Cs")} - {9, 10}
    steering |= {code for code in categories if unicodedata.bidirectional(chr(code)) in BIDIRECTIONAL}
    assert all(visible(chr(code)) == "\ufffd" for code in steering)
    harmless = {code for code, kind in categories.items() if kind[0] in "LNPSM"}
    kept = {code for code in harmless if visible(chr(code)) == chr(code)}
    # Blank letters, and what selects a variant of the sign before it.
    assert len(harmless - kept) < 300


BIDIRECTIONAL = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


@given(st.text(max_size=40))
def test_cleaning_is_idempotent_and_keeps_length(text: str) -> None:
    once = visible(text)
    assert visible(once) == once
    assert len(once) == len(text.replace("\r\n", "\n"))
    assert "\n" not in visible_line(text)
