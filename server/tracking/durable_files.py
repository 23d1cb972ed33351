"""Files that stay readable when their writer is killed at any moment.

Whole files are written beside their place and renamed into it. Lines of JSON are appended; the newline
at the end of a line is what makes it count.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from fedtag.common.errors import RunError

LOCK = ".lock"
RESTORE = "restore the file from a copy, or do the run anew"


@contextmanager
def exclusively(folder: Path) -> Iterator[None]:
    """Keep other processes from writing a folder; the lock ends with the process, however it ends.

    Raises:
        RunError: another process has it.
    """
    lock = FileLock(folder / LOCK, timeout=0)
    try:
        lock.acquire()
    except Timeout as error:
        raise RunError(f"another process is writing {folder}; wait for it, or stop it first") from error
    try:
        yield
    finally:
        lock.release()


def write_atomically(path: Path, content: bytes, durable: bool = True) -> None:
    """Replace a file by its new content, or leave the old one untouched.

    Without `durable` that holds for a process that is killed, not for a machine that loses power.
    """
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            if durable:
                os.fsync(file.fileno())
        temporary.chmod(0o644)
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def json_text(value: object, where: str, *, indent: int | None = None) -> str:
    """JSON without NaN and infinity.

    Raises:
        RunError: the value holds a number that is not finite, or a type that JSON lacks.
    """
    try:
        return json.dumps(value, allow_nan=False, ensure_ascii=False, indent=indent)
    except (TypeError, ValueError) as error:
        raise RunError(
            f"{where} cannot be written as JSON ({error}); pass finite numbers and plain types"
        ) from error


def encoded(text: str) -> bytes:
    """JSON text as UTF-8; half of a surrogate pair, which UTF-8 lacks, becomes its JSON escape."""
    return text.encode("utf-8", "backslashreplace")


def append_lines(path: Path, records: Iterable[Mapping[str, Any]]) -> None:
    """Append one line of JSON a record, in one write."""
    text = "".join(json_text(record, path.name) + "\n" for record in records)
    with path.open("ab") as file:
        file.write(encoded(text))
        file.flush()


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The records of a file, in order; an unfinished last line is left out, a missing file is empty.

    Raises:
        RunError: a finished line is not a JSON object.
    """
    if not path.exists():
        return []
    finished = path.read_bytes().split(b"\n")[:-1]
    records = []
    for number, line in enumerate(finished, start=1):
        try:
            record = json.loads(line.decode("utf-8"))
        except (ValueError, RecursionError) as error:
            raise RunError(
                f"{path}, line {number} is not JSON ({error}); restore the file or remove the line"
            ) from error
        if not isinstance(record, dict):
            raise RunError(f"{path}, line {number} is not a JSON object; restore the file or remove the line")
        records.append(record)
    return records


def keep_lines(path: Path, keep: Callable[[dict[str, Any]], bool]) -> None:
    """Rewrite a file with those of its records for which `keep` holds, and no unfinished line."""
    if not path.exists():
        return
    kept = [record for record in read_lines(path) if keep(record)]
    text = "".join(json_text(record, path.name) + "\n" for record in kept)
    write_atomically(path, encoded(text))


def drop_unfinished_line(path: Path) -> None:
    """Remove what stands after the last newline, so that the next line starts on its own."""
    if not path.exists():
        return
    content = path.read_bytes()
    finished = content.rfind(b"\n") + 1
    if finished < len(content):
        write_atomically(path, content[:finished])


def read_object(path: Path) -> dict[str, Any] | None:
    """The JSON object of a whole file, None where there is no file."""
    if not path.exists():
        return None
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise RunError(f"{path} is not JSON ({error}); restore the file") from error
    if not isinstance(record, dict):
        raise RunError(f"{path} is not a JSON object; restore the file")
    return record


def require_whole(path: Path) -> None:
    """Raise RunError where a file of a finished run is missing, empty or cut, and not what it wrote."""
    if not path.exists():
        state = "is missing"
    elif not path.stat().st_size:
        state = "is empty"
    else:
        with path.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            if file.read() == b"\n":
                return
        state = "ends within a line"
    raise RunError(f"{path} {state}, although the run has finished; {RESTORE}")
