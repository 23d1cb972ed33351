from __future__ import annotations

from pathlib import Path

import pytest

from fedtag.client.site.whole_file import write_whole


def test_a_write_that_fails_keeps_the_old_file(tmp_path: Path) -> None:
    target = tmp_path / "folder"
    target.mkdir()
    with pytest.raises(OSError, match="irectory"):
        write_whole(target, b"a folder cannot be replaced by a file")
    assert list(tmp_path.iterdir()) == [target]
