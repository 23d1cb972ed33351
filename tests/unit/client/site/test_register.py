from __future__ import annotations

from pathlib import Path

import numpy as np

from fedtag.client.site.register import RUNS, Register
from fedtag.client.site.site import Site


def entered(place: Path, *runs: str) -> Register:
    register = Register(Site("site", place, place, place, "cpu"))
    for run in runs:
        register.enter(run, "d" * 64, ["a", "b"], np.array([True, False]))
    return register


def test_a_run_that_is_entered_again_stands_there_once(tmp_path: Path) -> None:
    register = entered(tmp_path, "one", "two", "one")
    path = register.folder / RUNS
    assert len(path.read_text().splitlines()) == 2
    assert path.stat().st_mode & 0o777 == 0o600
    assert [(part.run, part.trained) for part in register.runs_of("a")] == [("one", True), ("two", True)]


def test_a_torn_line_takes_no_other_with_it(tmp_path: Path) -> None:
    path = entered(tmp_path, "one", "two").folder / RUNS
    path.write_bytes(path.read_bytes()[:-9])
    assert [part.run for part in entered(tmp_path, "three").runs_of("b")] == ["one", "three"]
