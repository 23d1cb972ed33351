from __future__ import annotations

import errno
from pathlib import Path

import pytest

from fedtag.client.site.site import Site
from fedtag.client.site.storage import free_bytes, full_disk_explained
from fedtag.common.errors import RunError


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site("site-a", tmp_path, tmp_path / "workspace", tmp_path / "cache")


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_write_without_room_names_the_site_and_its_workspace(site: Site, number: int) -> None:
    with (
        pytest.raises(
            RunError, match=rf"site site-a: no space is left at {site.workspace} \(.* MiB are free\)"
        ) as caught,
        full_disk_explained(site),
    ):
        raise OSError(number, "full")
    assert isinstance(caught.value.__cause__, OSError)


def test_a_file_that_the_system_names_is_the_place(site: Site, tmp_path: Path) -> None:
    with pytest.raises(RunError, match=f"no space is left at {tmp_path / 'x'} "), full_disk_explained(site):
        raise OSError(errno.ENOSPC, "full", str(tmp_path / "x"))


def test_the_fuller_disk_is_named(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    free = {site.workspace: 10 << 30, site.cache: 5 << 20}
    monkeypatch.setattr("fedtag.client.site.storage.free_bytes", free.__getitem__)
    with pytest.raises(RunError, match=f"no space is left at {site.cache} "), full_disk_explained(site):
        raise OSError(errno.ENOSPC, "full")


def test_other_errors_pass(site: Site) -> None:
    with pytest.raises(PermissionError), full_disk_explained(site):
        raise PermissionError(errno.EACCES, "no")


def test_a_full_device_is_told_as_such(site: Site) -> None:
    with (
        pytest.raises(RunError, match="no space is left"),
        full_disk_explained(site),
        Path("/dev/full").open("w") as file,
    ):
        file.write("x" * 2**20)


def test_free_space_of_what_is_not_there_yet(tmp_path: Path) -> None:
    assert free_bytes(tmp_path / "a" / "b") == pytest.approx(free_bytes(tmp_path), rel=0.5)
