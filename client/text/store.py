"""A content-addressed store on disk: one SQLite file that several processes may use at once."""

from __future__ import annotations

import hashlib
import sqlite3
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from fedtag.common.errors import RunError

APPLICATION_ID = 0x46544147  # "FTAG"
SCHEMA_VERSION = 1
BUSY_SECONDS = 60.0
KEYS_PER_QUERY = 500


def content_key(*parts: str | int) -> bytes:
    """SHA-256 of the parts, each prefixed by its type and length; lone surrogates are legal."""
    digest = hashlib.sha256()
    for part in parts:
        encoded = str(part).encode("utf-8", "surrogatepass")
        digest.update(f"{type(part).__name__}:{len(encoded)}:".encode() + encoded)
    return digest.digest()


class ContentStore:
    """Bytes under a 32-byte key. An entry never changes: whoever writes a key writes the same value.

    Each call opens the file and closes it, so that the object may cross threads and forks. A write is
    one transaction under SQLite's rollback journal: a process killed in mid-write leaves the file as it
    was before. Each entry carries a CRC-32.

    Args:
        path: the file; it and its folder are made at the first write.
        kind: what the file holds; a file of another kind is refused.
    """

    def __init__(self, path: Path, kind: str) -> None:
        self.path = path
        self.kind = kind

    def get_many(self, keys: Sequence[bytes]) -> dict[bytes, bytes]:
        """The entries that exist among `keys`.

        Raises:
            RunError: the file is damaged or belongs to something else.
        """
        found: dict[bytes, bytes] = {}
        if not self.path.exists():
            return found
        with self._open() as connection:
            for start in range(0, len(keys), KEYS_PER_QUERY):
                some = keys[start : start + KEYS_PER_QUERY]
                marks = ",".join("?" * len(some))
                query = f"SELECT key, checksum, payload FROM entries WHERE key IN ({marks})"
                for key, checksum, payload in connection.execute(query, some):
                    if not isinstance(payload, bytes) or zlib.crc32(payload) != checksum:
                        raise self._unusable("is damaged")
                    found[key] = payload
        return found

    def put_many(self, entries: Mapping[bytes, bytes]) -> None:
        """Writes all entries in one transaction; keys that exist already stay as they are.

        Raises:
            RunError: the file cannot be written, is damaged, or belongs to something else.
        """
        if not entries:
            return
        rows = [(key, zlib.crc32(payload), payload) for key, payload in entries.items()]
        with self._open() as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany("INSERT OR IGNORE INTO entries VALUES (?, ?, ?)", rows)
            connection.execute("COMMIT")

    def __len__(self) -> int:
        if not self.path.exists():
            return 0
        with self._open() as connection:
            return int(connection.execute("SELECT count(*) FROM entries").fetchone()[0])

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with closing(
                sqlite3.connect(self.path, timeout=BUSY_SECONDS, isolation_level=None)
            ) as connection:
                self._prepare(connection)
                yield connection
        except sqlite3.OperationalError as error:
            raise RunError(
                f"the {self.kind} cache {self.path} cannot be used ({error}): "
                f"check that its folder is writable and has space"
            ) from error
        except sqlite3.DatabaseError as error:
            raise self._unusable("is damaged or no cache of fedtag") from error
        except OSError as error:
            raise RunError(
                f"the folder of the {self.kind} cache {self.path} cannot be made: choose another"
            ) from error

    def _prepare(self, connection: sqlite3.Connection) -> None:
        if self._is_ours(connection):
            return
        connection.execute("BEGIN IMMEDIATE")  # of several new processes, one makes the table
        if not self._is_ours(connection):
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {self._version}")
            connection.execute(
                "CREATE TABLE entries (key BLOB PRIMARY KEY, checksum INTEGER NOT NULL, payload BLOB NOT NULL)"
            )
        connection.execute("COMMIT")

    def _is_ours(self, connection: sqlite3.Connection) -> bool:
        """True for a ready file, False for a new one."""
        application = connection.execute("PRAGMA application_id").fetchone()[0]
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
        if (application, version) == (APPLICATION_ID, self._version) and tables:
            return True
        if application or version or tables:
            raise self._unusable("is of another kind or version")
        return False

    @property
    def _version(self) -> int:
        return (zlib.crc32(self.kind.encode()) & 0x3FFF_FF00) | SCHEMA_VERSION

    def _unusable(self, why: str) -> RunError:
        return RunError(f"the {self.kind} cache {self.path} {why}: delete it, and it is made anew")
