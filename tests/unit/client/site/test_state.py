from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedtag.client.site.state import KEPT_RUNS, Remembered, StateStore, newest_kept
from fedtag.common.errors import RunError


def save(store: StateStore, round_number: int, step: int) -> None:
    store.save(round_number, step, {"w": torch.tensor([float(step)])}, {"step": step})


def step_before(store: StateStore, step: int) -> int | None:
    found = store.load_before(step)
    return None if found is None else found.values["step"]


def test_a_snapshot_comes_back_unchanged(tmp_path: Path) -> None:
    tensors = {
        "w/a": torch.randn(3, 2),
        "n": torch.tensor([True]),
        "empty": torch.zeros(0, 4),
        "t": torch.ones(2, 3).T,
    }
    StateStore(tmp_path, "run").save(1, 1, tensors, {"text": "ß", "list": [1, None]})
    found = StateStore(tmp_path, "run").load_before(2)
    assert found is not None
    assert found.values == {"text": "ß", "list": [1, None]}
    assert all(torch.equal(found.tensors[name], value) for name, value in tensors.items())
    assert not list(tmp_path.rglob("*.tmp"))


def test_the_newest_before_a_step_counts(tmp_path: Path) -> None:
    store = StateStore(tmp_path, "run")
    assert store.load_before(5) is None
    for step in (1, 3, 4):
        save(store, step, step)
    assert [step_before(store, step) for step in (1, 2, 3, 4, 5, 99)] == [None, 1, 1, 3, 4, 4]


def test_a_repeated_step_replaces_itself_and_forgets_later_ones(tmp_path: Path) -> None:
    """A server that resumes at step 3 does not want what an aborted attempt saved at steps 3 and 4."""
    store = StateStore(tmp_path, "run")
    for step in (1, 2, 3, 4):
        save(store, step, step)
    assert step_before(store, 3) == 2
    store.save(3, 3, {}, {"step": 30})
    assert step_before(store, 99) == 30


@settings(max_examples=40)
@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 2)), min_size=1, max_size=8), st.integers(0, 2))
def test_pruning_keeps_what_a_resumption_two_rounds_back_needs(
    tmp_path_factory: pytest.TempPathFactory, gaps: list[tuple[int, int]], back: int
) -> None:
    """Against a store that never forgets, with gaps in rounds (sampling) and several exchanges a round."""
    store, all_saved = StateStore(tmp_path_factory.mktemp("state"), "run"), []
    round_number = step = 0
    for gap, exchanges in gaps:
        round_number += gap
        for _ in range(exchanges):
            step = max(step + 1, 2 * round_number)
            save(store, round_number, step)
            all_saved.append((round_number, step))
    first_repeated = 2 * (round_number - back)
    expected = max((saved for _, saved in all_saved if saved < first_repeated), default=None)
    assert step_before(store, first_repeated) == expected


def test_the_folder_does_not_grow_with_the_run(tmp_path: Path) -> None:
    store = StateStore(tmp_path, "run")
    for step in range(1, 30):
        save(store, step, step)
    assert len(list((tmp_path / "run").iterdir())) <= 4


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    store = StateStore(tmp_path, "run")
    save(store, 1, 1)
    (path,) = (tmp_path / "run").iterdir()
    whole = path.read_bytes()
    for content in (b"", whole[:-2], whole[:20], b"x" * len(whole), whole.replace(b"values", b"valuex")):
        path.write_bytes(content)
        with pytest.raises(RunError, match=r"is damaged .*; delete it and start the run again"):
            store.load_before(2)


def test_two_runs_never_meet(tmp_path: Path) -> None:
    one, other = StateStore(tmp_path, "run-a"), StateStore(tmp_path, "run-b")
    save(one, 1, 1)
    assert other.load_before(9) is None
    save(other, 1, 2)
    assert (step_before(one, 9), step_before(other, 9)) == (1, 2)


def test_parts_of_a_run_never_meet(tmp_path: Path) -> None:
    """Each is pruned by its own steps, however seldom it saves."""
    own, part, other = StateStore(tmp_path, "run"), StateStore(tmp_path, "run", "core"), "other core"
    save(part, 1, 1)
    assert own.load_before(99) is None
    for step in range(1, 9):
        save(own, step, step)
    save(StateStore(tmp_path, "run", other), 3, 3)
    assert [step_before(store, 99) for store in (own, part, StateStore(tmp_path, "run", other))] == [8, 1, 3]
    save(part, 7, 7)
    assert [step_before(part, step) for step in (1, 2, 7, 8)] == [None, 1, 1, 7]
    assert step_before(own, 7) == 6


def test_old_runs_are_forgotten(tmp_path: Path) -> None:
    for number in range(KEPT_RUNS + 2):
        save(StateStore(tmp_path, f"run-{number}"), 1, 1)
        os.utime(tmp_path / f"run-{number}", (number, number))
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"run-{n}" for n in range(2, KEPT_RUNS + 2)]


@pytest.mark.parametrize("run", ["", ".", "..", "../x", "a/b", "/etc", "a b", "x" * 65, "a\n"])
def test_a_server_cannot_name_another_folder(tmp_path: Path, run: str) -> None:
    with pytest.raises(RunError, match="is no identifier"):
        StateStore(tmp_path, run)


def test_only_finite_values_are_saved(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="JSON compliant"):
        StateStore(tmp_path, "run").save(1, 1, {}, {"x": float("nan")})
    assert StateStore(tmp_path, "run").load_before(9) is None


def test_what_holds_for_a_whole_run_is_no_snapshot(tmp_path: Path) -> None:
    store = StateStore(tmp_path, "run")
    assert store.find("condensed") is None
    store.keep("condensed", Remembered({"x": torch.eye(2), "none": torch.zeros(0, 3)}, {"share": 0.5}))
    assert store.load_before(10**6) is None
    for step in range(1, 9):
        save(store, step, step)
    found = StateStore(tmp_path, "run").find("condensed")
    assert found is not None
    assert torch.equal(found.tensors["x"], torch.eye(2))
    assert found.tensors["none"].shape == (0, 3)
    assert found.values == {"share": 0.5}
    assert StateStore(tmp_path, "other").find("condensed") is None
    (tmp_path / "run" / "condensed.safetensors").write_bytes(b"no safetensors")
    with pytest.raises(RunError, match=r"condensed\.safetensors is damaged"):
        store.find("condensed")


def test_a_snapshot_that_does_not_fit_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = StateStore(tmp_path, "run")
    save(store, 1, 1)

    def full(path: Path, data: bytes) -> int:
        path.touch()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="No space left"):
        save(store, 2, 2)
    assert step_before(store, 3) == 1
    assert [path.name for path in store.folder.iterdir()] == ["round-00001-step-000001.safetensors"]


def test_the_newest_run_that_kept_something_counts(tmp_path: Path) -> None:
    assert newest_kept(tmp_path / "nowhere", "it") is None
    for age, run in enumerate(("b", "c", "a")):
        store = StateStore(tmp_path, run)
        store.keep("other" if run == "a" else "it", Remembered({"x": torch.tensor(age)}, {"run": run}))
        os.utime(next((tmp_path / run).iterdir()), (age, age))
    found = newest_kept(tmp_path, "it")
    assert found is not None
    assert (found.values, found.tensors["x"].item()) == ({"run": "c"}, 1)
    assert newest_kept(tmp_path, "nothing") is None


def test_a_document_lies_beside_the_snapshots_and_is_none(tmp_path: Path) -> None:
    store = StateStore(tmp_path, "run")
    store.document("found.json", "1")
    save(store, 1, 1)
    store.document("found.json", "ß")
    assert (tmp_path / "run" / "found.json").read_text(encoding="utf-8") == "ß"
    assert step_before(store, 2) == 1
    assert step_before(store, 1) is None
    assert sorted(path.suffix for path in (tmp_path / "run").iterdir()) == [".json", ".safetensors"]
