from __future__ import annotations

import shutil
from importlib import metadata
from pathlib import Path

import pytest

from fedtag.client.worker.frames import Frame
from fedtag.client.worker.identity import Identity, code_digest, folders, settings_digest
from fedtag.common.errors import WireError

REPOSITORY = Path(__file__).resolve().parents[4]


PLACES = {f"fedtag.{name}": REPOSITORY / name for name in ("client", "common")}


def test_the_digest_is_of_the_code_that_runs() -> None:
    assert folders() == PLACES
    assert Identity.own() == Identity(metadata.version("fedtag"), code_digest(PLACES))


def test_any_change_of_the_code_changes_the_digest_and_nothing_else(tmp_path: Path) -> None:
    copies = {name: Path(shutil.copytree(folder, tmp_path / folder.name)) for name, folder in PLACES.items()}
    before = code_digest(copies)
    assert before == code_digest(PLACES)
    (tmp_path / "client" / "page.j2").write_text("no code")
    assert code_digest(copies) == before
    module = tmp_path / "common" / "graph.py"
    text = module.read_text()
    module.write_text(text + "\n")
    assert code_digest(copies) != before
    module.write_text(text)
    module.rename(module.with_name("graphs.py"))
    assert code_digest(copies) != before


def test_settings_differ_by_any_value_of_the_run_or_the_site() -> None:
    one = settings_digest({"a": 1, "b": 2}, {"data": "x"})
    assert one == settings_digest({"b": 2, "a": 1}, {"data": "x"})
    others = [({"a": 1, "b": 2.5}, {"data": "x"}), ({"a": 1, "b": 2}, {"data": "y"}), ({"a": 1, "b": 2}, {})]
    assert len({one, *(settings_digest(*other) for other in others)}) == 4


def test_a_frame_must_state_both_parts() -> None:
    assert Identity.told(Frame("hello", {"version": "1", "code": "c"})) == Identity("1", "c")
    with pytest.raises(WireError, match="'code'"):
        Identity.told(Frame("hello", {"version": "1"}))
