"""Where the worker of a site is found: a folder that only its user can enter, a socket in it, and locks."""

from __future__ import annotations

import hashlib
import os
import socket
import stat
import struct
import tempfile
from dataclasses import dataclass
from pathlib import Path

from fedtag.client.worker.errors import WorkerUnavailableError
from fedtag.common.secure.private_file import private_folder

FOLDER = "worker"
LONGEST_ADDRESS = 100
"""Bytes of a socket's path; the least that any system allows is 103."""
LARGEST_LOG = 4 * 2**20
CREDENTIALS = struct.Struct("3i")


@dataclass(frozen=True)
class Place:
    """The files of a site's worker.

    Args:
        folder: in the site's workspace; the log lies there.
        private: where the socket and the locks lie: the same, or a folder for temporary files if the path of a
            socket there would be too long.
    """

    folder: Path
    private: Path

    @property
    def socket(self) -> Path:
        """The worker's address."""
        return self.private / "socket"

    @property
    def alive(self) -> Path:
        """Locked by the worker for as long as it lives."""
        return self.private / "alive.lock"

    @property
    def starting(self) -> Path:
        """Locked by the one who starts a worker."""
        return self.private / "starting.lock"

    @property
    def log(self) -> Path:
        """What the worker has to say."""
        return self.folder / "log"

    def prepare(self) -> None:
        """Make the folders.

        Raises:
            WorkerUnavailableError: they cannot be made, or are somebody else's.
        """
        try:
            for folder in (self.folder, self.private):
                private_folder(folder)
                own_folder(folder)
        except OSError as error:
            raise WorkerUnavailableError(f"{self.private} cannot hold a worker: {error}") from error

    def open_log(self) -> int:
        """A descriptor that appends to the log, which starts anew when it has become large."""
        large = self.log.exists() and self.log.stat().st_size > LARGEST_LOG
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | (os.O_TRUNC if large else 0)
        return os.open(self.log, flags, 0o600)


def place_of(workspace: Path) -> Place:
    """The place of the worker of a site with this workspace, however the path is spelt."""
    folder = workspace.resolve() / FOLDER
    private = folder
    if len(os.fsencode(Place(folder, private).socket)) > LONGEST_ADDRESS:
        key = hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]
        private = Path(tempfile.gettempdir()) / f"fedtag-{os.getuid()}-{key}"
    return Place(folder, private)


def own_folder(folder: Path) -> None:
    """See that only this user can enter a folder; anybody may have made one of that name in a shared place.

    Raises:
        WorkerUnavailableError: it belongs to somebody else, or is a link.
    """
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
        raise WorkerUnavailableError(f"{folder} is not a folder of this user: remove it")
    if stat.S_IMODE(found.st_mode) & 0o077:
        folder.chmod(0o700)


def peer_of(connection: socket.socket) -> tuple[int, int]:
    """The process and the user at the other end of a local socket."""
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
    process, user, _ = CREDENTIALS.unpack(raw)
    return int(process), int(user)


def check_peer(connection: socket.socket, user: int) -> None:
    """Raise PermissionError unless the other end of a local socket belongs to the user."""
    process, found = peer_of(connection)
    if found != user:
        raise PermissionError(f"process {process} of user {found} is not of user {user}")
