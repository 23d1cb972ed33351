"""Writing, reading, resuming and refusing run directories."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedtag.common.errors import RunError
from fedtag.server.tracking import durable_files
from fedtag.server.tracking.disclosures import Crossing, Disclosure
from fedtag.server.tracking.rows import ClientRow, RoundRow, Summary
from fedtag.server.tracking.run_directory import CLIENTS, DISCLOSURES, METRICS, SUMMARY, RunDirectory


def round_row(number: int) -> RoundRow:
    return RoundRow(number, 0.5, 0.8, None, None, 1.5, {"train": 1.0}, 10, 20, 2, 0)


def client_row(number: int, name: str) -> ClientRow:
    return ClientRow(number, name, 5, 3, 0.5, None, None, {"train": 1.0}, scores={"graph": None})


def disclosure(number: int) -> Disclosure:
    return Disclosure.of(number, "train", "update", [Crossing("a", "server", 1, 9)], "the update", "none")


def summary() -> Summary:
    scores = (1, 0.8, None, None, None)
    return Summary(
        "fedavg", "cora", 2, 3, None, 0, *scores, 1, 2, None, None, None, 3.0, 1.0, 99.5, {"torch": "2"}
    )


@pytest.fixture
def run(tmp_path: Path) -> RunDirectory:
    run = RunDirectory(tmp_path / "deep" / "run")
    run.write_config({"run": {"method": "fedavg"}})
    for number in (1, 2, 3):
        run.append_round(round_row(number))
        run.append_clients([client_row(number, "a"), client_row(number, 'b"\n\u2028<é')])
        run.append_disclosures([disclosure(number)])
    return run


def test_rows_are_read_back(run: RunDirectory) -> None:
    run.write_summary(summary())
    opened = RunDirectory.open(run.path)
    assert opened.read_rounds() == [round_row(number) for number in (1, 2, 3)]
    assert opened.read_clients()[:2] == [client_row(1, "a"), client_row(1, 'b"\n\u2028<é')]
    assert opened.read_disclosures() == [disclosure(number) for number in (1, 2, 3)]
    assert opened.read_summary() == summary()
    assert opened.finished


def test_each_line_is_strict_json(run: RunDirectory) -> None:
    for name in (METRICS, CLIENTS, DISCLOSURES):
        text = (run.path / name).read_text(encoding="utf-8")
        assert text.endswith("\n")
        assert all(isinstance(json.loads(line), dict) for line in text[:-1].split("\n"))


@given(st.text(st.characters(), max_size=12))
def test_any_client_name_is_kept(name: str) -> None:
    record = {"client": name}
    line = durable_files.encoded(durable_files.json_text(record, "row"))
    assert b"\n" not in line
    assert json.loads(line.decode("utf-8")) == record


def test_config_keeps_tables_and_leaves_none_out(run: RunDirectory) -> None:
    class Codec(Enum):
        FP16 = "fp16"

    run.write_config(
        {"wire": {"codec": Codec.FP16, "top": None}, "out": Path("a/b"), "b": (1, 2), "s": {"y", "x"}}
    )
    read = tomllib.loads((run.path / "config.toml").read_text(encoding="utf-8"))
    assert read == {"wire": {"codec": "fp16"}, "out": "a/b", "b": [1, 2], "s": ["x", "y"]}
    assert run.read_config() == read
    with pytest.raises(RunError, match=r"setting a\.b is a complex, which TOML lacks"):
        run.write_config({"a": {"b": 1j}})
    assert run.read_config() == read


def test_unfinished_last_line_is_left_out_and_repaired_on_resume(run: RunDirectory) -> None:
    for name in (METRICS, CLIENTS, DISCLOSURES):
        with (run.path / name).open("ab") as file:
            file.write('{"round": 4, "client": "é'.encode()[:-1])
    before = (run.path / METRICS).read_bytes()
    assert len(RunDirectory.open(run.path).read_rounds()) == 3
    assert (run.path / METRICS).read_bytes() == before
    resumed = RunDirectory(run.path, resume=True)
    resumed.append_round(round_row(4))
    assert [row.round for row in resumed.read_rounds()] == [1, 2, 3, 4]
    assert len(resumed.read_clients()) == 6


def test_damage_in_the_middle_is_named(run: RunDirectory) -> None:
    lines = (run.path / METRICS).read_text(encoding="utf-8").split("\n")
    lines[1] = lines[1][:10]
    (run.path / METRICS).write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(RunError, match=r"metrics\.jsonl, line 2 is not JSON"):
        run.read_rounds()
    (run.path / METRICS).write_text("7\n", encoding="utf-8")
    with pytest.raises(RunError, match=r"line 1 is not a JSON object"):
        run.read_rounds()


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


DAMAGES: dict[str, Callable[[Path], object]] = {
    "missing": Path.unlink,
    "empty": lambda path: path.write_bytes(b""),
    "cut": cut,
}


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("name", ["config.toml", METRICS, CLIENTS, DISCLOSURES, SUMMARY])
def test_a_damaged_finished_run_is_refused_by_the_name_of_the_file(
    run: RunDirectory, name: str, damage: str
) -> None:
    run.write_summary(summary())
    run.check()
    DAMAGES[damage](run.path / name)
    if (name, damage) == (SUMMARY, "missing"):
        # What the run writes last is what says that it has finished.
        assert not run.finished
        run.check()
        return
    with pytest.raises(RunError, match=rf"{name}.*(restore the file)"):
        run.check()


def test_a_finished_run_has_a_row_for_each_round(run: RunDirectory) -> None:
    run.write_summary(summary())
    lines = (run.path / METRICS).read_bytes().splitlines(keepends=True)
    (run.path / METRICS).write_bytes(b"".join(lines[:2]))
    with pytest.raises(RunError, match=r"metrics\.jsonl does not hold rounds 1 to 3, one row each; restore"):
        run.read_rounds()
    record = json.loads((run.path / SUMMARY).read_text(encoding="utf-8"))
    del record["rounds"]
    (run.path / SUMMARY).write_text(json.dumps(record), encoding="utf-8")
    with pytest.raises(RunError, match=r"summary\.json: an object is no Summary.*restore"):
        run.read_summary()


def test_resume_forgets_later_results_but_no_disclosure(run: RunDirectory) -> None:
    expected = {n: (run.path / n).read_bytes().split(b"\n") for n in (METRICS, CLIENTS, DISCLOSURES)}
    run.write_summary(summary())
    resumed = RunDirectory(run.path, resume=True)
    resumed.truncate_after(1)
    assert not resumed.finished
    assert {row.round for row in resumed.read_rounds()} == {1}
    for name, count in ((METRICS, 1), (CLIENTS, 2), (DISCLOSURES, len(expected[DISCLOSURES]) - 1)):
        assert (run.path / name).read_bytes().split(b"\n") == [*expected[name][:count], b""]


@pytest.mark.parametrize("name", ["truncate", "summary", "config", "model"])
def test_a_failed_rename_leaves_the_old_file(
    run: RunDirectory, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    run.write_summary(summary())
    run.write_model({"w": torch.ones(2)}, {})
    before = {path: path.read_bytes() for path in run.path.iterdir() if path.name != SUMMARY}

    def fail(*_: object) -> None:
        raise OSError("disk full")

    actions: dict[str, Any] = {
        "truncate": lambda: run.truncate_after(0),
        "summary": lambda: run.write_summary(summary()),
        "config": lambda: run.write_config({"x": 1}),
        "model": lambda: run.write_model({"w": torch.zeros(2)}, {}),
    }
    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        actions[name]()
    after = {path: path.read_bytes() for path in run.path.iterdir() if path.name != SUMMARY}
    assert after == before


def test_what_may_not_be_overwritten(run: RunDirectory, tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"holds an unfinished run; choose another out=, or resume it"):
        RunDirectory(run.path)
    run.write_summary(summary())
    with pytest.raises(RunError, match="holds a finished run; choose another out="):
        RunDirectory(run.path)
    other = tmp_path / "thesis"
    other.mkdir()
    RunDirectory(other)
    (other / "chapter.tex").write_text("x", encoding="utf-8")
    with pytest.raises(RunError, match="is not empty and is no run directory"):
        RunDirectory(other)
    with pytest.raises(RunError, match="is a file, not a folder"):
        RunDirectory(other / "chapter.tex")
    for call in (RunDirectory.open, lambda path: RunDirectory(path, resume=True)):
        with pytest.raises(RunError, match="is no run directory"):
            call(other)
        with pytest.raises(RunError, match="is not a folder"):
            call(tmp_path / "nowhere")
    assert (other / "chapter.tex").read_text(encoding="utf-8") == "x"


def test_model_comes_back_and_its_hash_is_checked(run: RunDirectory) -> None:
    with pytest.raises(RunError, match="has not released a model yet"):
        run.read_model()
    base = torch.arange(6.0).reshape(2, 3)
    tensors = {
        "w": base.t(),
        "shared": base,
        "bias": torch.zeros(0),
        "half": torch.ones(2, dtype=torch.bfloat16),
    }
    run.write_model(tensors, {"classes": ["a", "b"]})
    read = run.read_model()
    assert set(read) == set(tensors)
    assert all(torch.equal(read[name], tensors[name]) for name in tensors)
    card = run.read_model_card()
    content = (run.path / "model.safetensors").read_bytes()
    assert card["sha256"] == hashlib.sha256(content).hexdigest()
    assert card["tensors"]["w"] == [3, 2]
    assert card["classes"] == ["a", "b"]
    (run.path / "model.safetensors").write_bytes(content[:-1] + b"\x01")
    with pytest.raises(RunError, match="is not the file whose SHA-256"):
        run.read_model()


@pytest.mark.parametrize(
    "name", [SUMMARY, "model.json", "places.json", METRICS, CLIENTS, DISCLOSURES, "config.toml"]
)
def test_endless_nesting_is_named_like_other_damage(run: RunDirectory, name: str) -> None:
    (run.path / name).write_text(
        f"{'x = ' if name.endswith('toml') else ''}{'[' * 50_000}\n", encoding="utf-8"
    )
    with pytest.raises(RunError, match=rf"{name}.* is not (JSON|TOML) \(.*recursion.*restore the file"):
        read_all(run)


def read_all(run: RunDirectory) -> None:
    """Every file of the contract that is JSON or TOML."""
    run.read_summary()
    run.read_model_card()
    run.read_places()
    run.check()


def test_nan_in_the_card_is_refused(run: RunDirectory) -> None:
    with pytest.raises(RunError, match=r"model\.json cannot be written as JSON"):
        run.write_model({}, {"score": float("nan")})
    assert not (run.path / "model.safetensors").exists()


def test_an_empty_run_reads_as_nothing(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "new")
    assert run.read_rounds() == run.read_clients() == run.read_disclosures() == []
    assert run.read_summary() is None
    assert run.read_config() == run.read_model_card() == {}
