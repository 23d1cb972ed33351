"""From a bibliography as a spreadsheet saves it to a report and an evidence page: the transcript of the docs."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
from click.testing import Result
from typer.testing import CliRunner

from fedtag.client.data.folder import read_folder
from fedtag.deploy.cli import app
from fedtag.deploy.terminal import import_view
from tests.audited import page_blocks
from tests.system.transcript import blocks

PAGE = "docs/own-data.md"
SUBJECTS = {
    "Geografie": ("Häfen", "Küsten", "Flüsse", "Inseln", "Täler"),
    "Optik": ("Linsen", "Spiegel", "Prismen", "Gläser", "Laser"),
}
ASPECTS = ("Über die Größe", "Zur Geschichte", "Neue Messungen", "Ein Überblick")
AUTHORS = {
    "Geografie": ("A. Möller", "B. Sánchez", "C. Weiß"),
    "Optik": ("D. Ångström", "E. Roux", "F. Jäger"),
}


def bibliography() -> str:
    """Forty titles with authors and fields: each has two of the three authors of its field, or one of the other."""
    lines = ["titel;autoren;fach"]
    for field, subjects in SUBJECTS.items():
        other = AUTHORS["Optik" if field == "Geografie" else "Geografie"]
        for place, subject in enumerate(subjects):
            for number, aspect in enumerate(ASPECTS):
                first = AUTHORS[field][(place + number) % 3]
                second = (
                    other[place % 3]
                    if (place, number) in {(1, 1), (3, 2)}
                    else AUTHORS[field][(place + number + 1) % 3]
                )
                lines.append(f'{aspect} der {subject};"{first}; {second}";{field}')
    return "\n".join(lines) + "\n"


def called(line: str) -> Result:
    return CliRunner().invoke(app, shlex.split(line)[1:])


def test_a_bibliography_becomes_a_report_and_an_evidence_page_in_three_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bibliography.csv").write_bytes(bibliography().encode("latin-1"))
    monkeypatch.chdir(tmp_path)
    first, shown, then = blocks(PAGE)[:3]
    commands = [line for block in (first, then) for line in block.text.splitlines()]
    assert len(commands) == 3
    answers = [called(command) for command in commands]
    assert [answer.exit_code for answer in answers] == [0, 0, 0], answers[-1].output
    assert answers[0].stdout.splitlines() == shown.text.splitlines()
    assert (tmp_path / "runs" / "papers" / "report.html").is_file()
    page = (tmp_path / "runs" / "papers" / "audit-client-00.html").read_text(encoding="utf-8")
    titles = {line.split(";")[0] for line in bibliography().splitlines()[1:]}
    texts = [text for _, parts in page_blocks(page)[1]["texts"] for _, text in parts]
    assert any(title in text for title in titles for text in texts)


def test_the_command_asks_only_a_person_at_a_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [f"k{row};Text number {row} of many words;{'ab'[row % 2]};{'xy'[row % 2]}" for row in range(20)]
    nodes, edges = tmp_path / "n.csv", tmp_path / "e.csv"
    nodes.write_text("\n".join(["key;text;topic;field", *rows]) + "\n")
    edges.write_text("from,to\nk1,k2\nk3,k4\n")
    command = ["import", str(nodes), str(edges), "--out", str(tmp_path / "out")]
    refused = CliRunner().invoke(app, command)
    assert refused.exit_code == 2
    assert "the label may be one of topic" in refused.stderr
    assert "name it with --label" in refused.stderr
    monkeypatch.setattr(import_view, "_is_terminal", lambda: True)
    answered = CliRunner().invoke(app, command, input="2\n")
    assert answered.exit_code == 0, answered.output
    assert read_folder(tmp_path / "out").graph.classes == ("x", "y")
    assert CliRunner().invoke(app, [*command, "--id", "kee"]).stderr.strip().endswith("did you mean 'key'?")


def test_the_command_asks_for_what_it_needs(tmp_path: Path) -> None:
    for options, said in (
        ([str(tmp_path / "none.csv"), "--out", "x"], "there is no such file"),
        ([str(PAGE), "--map", "a", "--out", "x"], "--map a renames nothing: write old=new"),
        ([str(PAGE)], "--out is missing"),
    ):
        result = CliRunner().invoke(app, ["import", *options])
        assert (result.exit_code, said in result.stderr) == (2, True), result.stderr
