from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from fedtag.client.site.whole_file import write_whole


def test_a_write_that_fails_keeps_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "folder"
    target.mkdir()
    with pytest.raises(OSError, match="irectory"):
        write_whole(target, b"a folder cannot be replaced by a file")
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("mode", [0o644, 0o640])
def test_a_file_gets_mode_and_owner_of_another(tmp_path: Path, mode: int) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    old.touch()
    old.chmod(mode)
    if os.geteuid() == 0:
        os.chown(old, 4711, 4712)
    write_whole(new, b"content", like=old)
    found, wanted = new.stat(), old.stat()
    assert (found.st_mode, found.st_uid, found.st_gid) == (wanted.st_mode, wanted.st_uid, wanted.st_gid)
    write_whole(new, b"content")
    assert stat.S_IMODE(new.stat().st_mode) == 0o600


def test_a_group_that_cannot_be_kept_gives_its_rights_to_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*arguments: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    old, new = tmp_path / "old", tmp_path / "new"
    old.touch()
    old.chmod(0o664)
    monkeypatch.setattr(os, "fchown", refused)
    write_whole(new, b"content", like=old)
    assert stat.S_IMODE(new.stat().st_mode) == 0o604
