from __future__ import annotations

from pathlib import Path

import pytest

from fedtag.client.evidence.store import available_rounds, latest, write_packs
from fedtag.client.site.evidence_folder import evidence_of_run
from fedtag.common.errors import RunError


def test_the_evidence_of_each_run_stays(tmp_path: Path) -> None:
    folder = tmp_path / "evidence"
    write_packs(evidence_of_run(folder, "aaaa"), 7, [])
    (folder / "core").mkdir()
    (folder / "core" / "round-0007.parquet").write_bytes(b"old\n")
    assert evidence_of_run(folder, "aaaa") == folder
    assert available_rounds(folder) == (7,)
    write_packs(evidence_of_run(folder, "bbbb"), 3, [])
    (folder / "core" / "round-0007.parquet").write_bytes(b"new\n")
    # A later round of an earlier run is not taken for the newest evidence.
    assert latest(folder).name == "round-0003.parquet"
    assert available_rounds(folder / "earlier" / "aaaa") == (7,)
    assert (folder / "earlier" / "aaaa" / "core" / "round-0007.parquet").read_bytes() == b"old\n"
    write_packs(evidence_of_run(folder, "cccc"), 3, [])
    found = {path.relative_to(folder).as_posix() for path in (folder / "earlier").rglob("*.parquet")}
    assert found == {
        "earlier/aaaa/round-0007.parquet",
        "earlier/aaaa/core/round-0007.parquet",
        "earlier/bbbb/round-0003.parquet",
        "earlier/bbbb/core/round-0007.parquet",
    }


def test_evidence_of_a_run_that_left_no_name_stays_too(tmp_path: Path) -> None:
    folder = tmp_path / "evidence"
    write_packs(folder, 1, [])
    evidence_of_run(folder, "aaaa")
    assert available_rounds(folder) == ()
    assert available_rounds(folder / "earlier" / "unknown") == (1,)


def test_who_was_stopped_while_putting_aside_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "evidence"
    for number in (1, 2, 3):
        write_packs(evidence_of_run(folder, "aaaa"), number, [])
    moves = iter([True, False])
    replace = Path.replace

    def stopped(path: Path, target: Path) -> Path:
        if not next(moves):
            raise KeyboardInterrupt
        return replace(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", stopped)
        with pytest.raises(KeyboardInterrupt):
            evidence_of_run(folder, "bbbb")
    evidence_of_run(folder, "bbbb")
    assert available_rounds(folder / "earlier" / "aaaa") == (1, 2, 3)
    assert available_rounds(folder) == ()


def test_runs_that_take_turns_find_what_they_had(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "evidence"
    written: dict[str, list[int]] = {"aaaa": [], "bbbb": []}
    for number in range(1, 7):
        run = ("aaaa", "bbbb")[number % 2]
        write_packs(evidence_of_run(folder, run), number, [])
        written[run].append(number)
        assert list(available_rounds(folder)) == written[run]
    evidence_of_run(folder, "aaaa")
    replace = Path.replace

    def stopped(path: Path, target: Path) -> Path:
        if path.name == "round-0003.parquet" and target.parent == folder:
            raise KeyboardInterrupt
        return replace(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", stopped)
        with pytest.raises(KeyboardInterrupt):
            evidence_of_run(folder, "bbbb")
    assert list(available_rounds(evidence_of_run(folder, "bbbb"))) == written["bbbb"]
    assert [path.name for path in (folder / "earlier").iterdir()] == ["aaaa"]


@pytest.mark.parametrize("run", ["", "..", "a/b", "x" * 65])
def test_a_run_is_called_as_a_folder_may_be(run: str, tmp_path: Path) -> None:
    with pytest.raises(RunError, match="is no identifier"):
        evidence_of_run(tmp_path, run)


def test_a_changed_name_leads_nowhere_else(tmp_path: Path) -> None:
    folder = tmp_path / "evidence"
    write_packs(evidence_of_run(folder, "aaaa"), 1, [])
    (folder / "run.txt").write_bytes(b"../../\xff")
    evidence_of_run(folder, "bbbb")
    assert available_rounds(folder / "earlier" / "unknown") == (1,)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["evidence"]
