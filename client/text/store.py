"""A content-addressed store on disk: one SQLite file that several processes may use at once."""

from __future__ import annotations

import hashlib
import sqlite3
import time
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from fedtag.common.errors import RunError
from fedtag.common.homes import moved_by

APPLICATION_ID = 0x46544147  # "FTAG"
SCHEMA_VERSION = 1
BUSY_SECONDS = 60.0
KEYS_PER_QUERY = 500
DAY_SECONDS = 86400
ORIGINS = (
    "CREATE TABLE IF NOT EXISTS origins (source BLOB, key BLOB, day INTEGER NOT NULL, PRIMARY KEY (source, key)) "
    "WITHOUT ROWID"
)
"""What entries were made from, and when; a file of an earlier release has none."""


def content_key(*parts: str | int) -> bytes:
    """SHA-256 of the parts, each prefixed by its type and length; lone surrogates are legal."""
    digest = hashlib.sha256()
    for part in parts:
        encoded = str(part).encode("utf-8", "surrogatepass")
        digest.update(f"{type(part).__name__}:{len(encoded)}:".encode() + encoded)
    return digest.digest()


NONE: Mapping[bytes, Sequence[Any]] = {}


def source_key(text: str) -> bytes:
    """The digest of a text that entries are made from."""
    return content_key("source", text)


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

    def check(self) -> None:
        """Make sure that entries can be written.

        Raises:
            RunError: the file cannot be made, is damaged, or belongs to something else.
        """
        with self._open() as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("ROLLBACK")

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

    def put_many(self, entries: Mapping[bytes, bytes], sources: Mapping[bytes, Sequence[str]] = NONE) -> None:
        """Writes all entries in one transaction; keys that exist already stay as they are.

        Args:
            entries: by key.
            sources: of each key, the texts that its entry was made from, of which digests are kept, by which it can be
                forgotten; an entry without any goes with whatever is forgotten.

        Raises:
            RunError: the file cannot be written, is damaged, or belongs to something else.
        """
        if not entries:
            return
        rows = [(key, zlib.crc32(payload), payload) for key, payload in entries.items()]
        with self._open() as connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany("INSERT OR IGNORE INTO entries VALUES (?, ?, ?)", rows)
            today = int(time.time() // DAY_SECONDS)
            origins = [(source_key(text), key, today) for key in entries for text in sources.get(key, ())]
            connection.executemany("INSERT OR IGNORE INTO origins VALUES (?, ?, ?)", origins)
            connection.execute("COMMIT")

    def forget(self, texts: Sequence[str]) -> int:
        """Remove what was made from some texts, and what does not say what it was made from; overwritten on disk.

        Args:
            texts: as they were given when entries were put.

        Returns:
            How many entries were removed.
        """
        return self._remove(_made_from(texts), list(map(source_key, texts)))

    def count(self, texts: Sequence[str]) -> int:
        """How many entries `forget` would remove."""
        if not self.path.exists():
            return 0
        with self._open() as connection:
            query = f"SELECT count(*) FROM entries {_where(_made_from(texts))}"
            return int(connection.execute(query, list(map(source_key, texts))).fetchone()[0])

    def expire(self, day: int) -> int:
        """Remove what was put before a day, counted from 1970, and what does not say when; returns how many."""
        return self._remove("SELECT key FROM origins WHERE day < ?", (day,))

    def _remove(self, chosen: str, values: Sequence[object]) -> int:
        if not self.path.exists():
            return 0
        with self._open() as connection:
            connection.execute("PRAGMA secure_delete = ON")
            connection.execute("BEGIN IMMEDIATE")
            found = connection.execute(f"SELECT key FROM entries {_where(chosen)}", values).fetchall()
            connection.executemany("DELETE FROM entries WHERE key = ?", found)
            connection.executemany("DELETE FROM origins WHERE key = ?", found)
            connection.execute("COMMIT")
        return len(found)

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
                f"check that its folder is writable and has space, or {self._elsewhere}"
            ) from error
        except sqlite3.DatabaseError as error:
            raise self._unusable("is damaged or no cache of fedtag") from error
        except OSError as error:
            raise RunError(
                f"the folder of the {self.kind} cache {self.path} cannot be made ({error.strerror}): {self._elsewhere}"
            ) from error

    def _prepare(self, connection: sqlite3.Connection) -> None:
        if self._is_ours(connection):
            connection.execute(ORIGINS)
            return
        connection.execute("BEGIN IMMEDIATE")  # of several new processes, one makes the table
        if not self._is_ours(connection):
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {self._version}")
            connection.execute(
                "CREATE TABLE entries (key BLOB PRIMARY KEY, checksum INTEGER NOT NULL, payload BLOB NOT NULL)"
            )
        connection.execute(ORIGINS)
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
    def _elsewhere(self) -> str:
        variable = moved_by(self.path)
        return f"set {variable or 'cache in the node configuration of the site'} to another folder"

    @property
    def _version(self) -> int:
        return (zlib.crc32(self.kind.encode()) & 0x3FFF_FF00) | SCHEMA_VERSION

    def _unusable(self, why: str) -> RunError:
        return RunError(f"the {self.kind} cache {self.path} {why}: delete it, and it is made anew")


def _made_from(texts: Sequence[str]) -> str:
    marks = ",".join("?" * len(texts))
    return f"SELECT key FROM origins WHERE source IN ({marks})"


def _where(chosen: str) -> str:
    """The entries whose keys are chosen, and those that do not say what they are of."""
    return f"WHERE key IN ({chosen}) OR key NOT IN (SELECT key FROM origins)"
