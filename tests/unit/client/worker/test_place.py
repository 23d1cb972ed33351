from __future__ import annotations

import os
import socket
import stat
import tempfile
from pathlib import Path

import pytest

from fedtag.client.worker.errors import WorkerUnavailableError
from fedtag.client.worker.place import LONGEST_ADDRESS, check_peer, own_folder, peer_of, place_of


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_socket_lies_in_the_workspace_where_its_path_is_short() -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as short:
        place = place_of(Path(short))
        place.prepare()
        assert place.socket == Path(short).resolve() / "worker" / "socket"
        assert mode_of(place.private) == 0o700


def test_a_long_path_gets_a_private_folder_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as short:
        monkeypatch.setattr(tempfile, "tempdir", short)
        places = [place_of(tmp_path / (letter * 120)) for letter in "ab"]
        assert len({place.socket for place in places}) == 2
        for place in places:
            assert place.private.parent == Path(short)
            assert len(os.fsencode(place.socket)) <= LONGEST_ADDRESS
            place.prepare()
            assert mode_of(place.private) == 0o700
            assert place.log.parent == place.folder


def test_all_spellings_of_a_workspace_meet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "link").symlink_to("site")
    monkeypatch.chdir(tmp_path)
    assert place_of(Path("site")) == place_of(tmp_path / "link") == place_of(tmp_path / "x" / ".." / "site")


def test_a_folder_that_others_could_enter_is_closed_or_refused(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    mine.chmod(0o777)
    own_folder(mine)
    assert mode_of(mine) == 0o700
    (tmp_path / "link").symlink_to(mine)
    with pytest.raises(WorkerUnavailableError, match="not a folder of this user"):
        own_folder(tmp_path / "link")
    if os.getuid() == 0:
        os.chown(mine, 65534, -1)
        with pytest.raises(WorkerUnavailableError, match="not a folder of this user"):
            own_folder(mine)


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "worker").write_text("")
    with pytest.raises(WorkerUnavailableError):
        place_of(tmp_path).prepare()


def test_the_log_is_private_and_starts_anew_when_it_is_large(tmp_path: Path) -> None:
    place = place_of(tmp_path)
    place.prepare()
    for content, kept in ((b"a" * 100, 101), (b"a" * (5 * 2**20), 1)):
        place.log.write_bytes(content)
        place.log.chmod(0o600)
        descriptor = place.open_log()
        os.write(descriptor, b"b")
        os.close(descriptor)
        assert place.log.stat().st_size == kept
    place.log.unlink()
    os.close(place.open_log())
    assert mode_of(place.log) == 0o600


def test_the_other_end_is_known_and_must_be_of_the_same_user() -> None:
    one, other = socket.socketpair()
    with one, other:
        assert peer_of(one) == (os.getpid(), os.getuid())
        check_peer(one, os.getuid())
        with pytest.raises(PermissionError, match=f"of user {os.getuid()} is not of user 4711"):
            check_peer(one, 4711)
