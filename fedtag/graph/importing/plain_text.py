"""Any text file as one that programs read alike: in UTF-8, with one kind of line end."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from charset_normalizer import from_bytes

from fedtag.graph.importing.compression import CHUNK
from fedtag.graph.importing.source import refused

SAMPLE = 2**16
"""Bytes of lines beyond ASCII by which an encoding is told."""
UTF8 = "utf_8"
MARKS = {
    codecs.BOM_UTF32_LE: "utf_32",
    codecs.BOM_UTF32_BE: "utf_32",
    codecs.BOM_UTF16_LE: "utf_16",
    codecs.BOM_UTF16_BE: "utf_16",
}
WIDE = 0.3
"""Share of zeros among every other byte from which on a text is one of UTF-16."""
STRAY = 0.01
"""Share of control characters up to which a file is text."""
CONTROLS = bytes({*range(32)} - {*b"\t\n\v\f\r\x01\x1a\x1b\x1c\x1d\x1e\x1f"})
"""Those that neither layout nor separate."""
WESTERN = "cp1252"
"""Latin-1 with the quotation marks of Windows: what is much the same in several encodings is most likely this."""
STRANGE = (
    re.compile(r"[^\W\d_][^\x00-\x7f\w’–—…·][^\W\d_]"),
    re.compile(r"[a-zß-öø-ÿ][À-ÖØ-ÞŠŒŽŸ]"),
    re.compile(r"[¹²³][^\W\d_]|[^\x00-\x7f]{4,}"),
)
"""What no word of Western Europe has: signs or capitals within, a row of foreign letters."""
FOREIGN_WORD = re.compile(r"\w*[^\x00-\x7f]\w*")
CLEARLY = 0.25
"""So much more of a text fits the letters of a language where that decides."""
CODE_PAGES = (
    *("cp1252", "cp1250", "cp1251", "cp1253", "cp1254", "cp1255", "cp1256", "cp1257", "cp1258", "cp874"),
    *("koi8_r", "mac_roman", "cp932", "euc_jp", "gb18030", "big5", "euc_kr"),
)
"""Encodings of one or several bytes that files of tables are met in."""


@dataclass(frozen=True)
class PlainText:
    """A text file in UTF-8.

    Args:
        path: where it lies, or a copy of it.
        found: what was done to it, in words for its owner.
    """

    path: Path
    found: tuple[str, ...]


def plain_text(path: Path, name: str, scratch: Path, encoding: str = "") -> PlainText:
    """A file of text in UTF-8 with line ends of one kind: itself, or a copy in `scratch` where it is none.

    Args:
        path: of the file, unpacked.
        name: what its owner calls it.
        scratch: folder for the copy.
        encoding: of the file; found out where it is empty.

    Raises:
        DataError: it is not in that encoding, or in none that could be told.
    """
    given = bool(encoding)
    encoding = _known(encoding, name) if given else encoding_of(path, name)
    try:
        mixed = _mixed_ends(_recoded(path, encoding))
        if encoding == UTF8 and not mixed and not given:
            return PlainText(path, ("UTF-8",))
        copy = scratch / f"text-{len(list(scratch.iterdir()))}.txt"
        with (
            path.open(encoding=encoding, newline=None if mixed else "") as text,
            copy.open("w", encoding="utf-8", newline="") as plain,
        ):
            while chunk := text.read(CHUNK):
                plain.write(chunk)
    except UnicodeError as error:
        reason = error.reason if isinstance(error, UnicodeDecodeError) else error
        what = f"is not in {encoding.replace('_', '-')} throughout ({reason})"
        raise refused(name, what, "name its encoding with encoding=") from error
    ends = ("line ends of several kinds made one",) if mixed else ()
    stated = given or encoding.startswith("utf")
    how = "" if stated else f" by its words, such as {_foreign_word(copy)}"
    return PlainText(copy, (f"{encoding.replace('_', '-')}{how}", *ends))


def encoding_of(path: Path, name: str) -> str:
    """How a file of text is encoded, by its first bytes, its validity as UTF-8, or its letters.

    Raises:
        DataError: none fits.
    """
    with path.open("rb") as file:
        start = file.read(CHUNK)
        for mark, encoding in MARKS.items():
            if start.startswith(mark):
                return encoding
        even, odd = (start[place::2].count(0) * 2 / max(len(start), 1) for place in (0, 1))
        if max(even, odd) > WIDE and min(even, odd) < STRAY:
            return "utf_16_le" if odd > even else "utf_16_be"
        if len(start) - len(start.translate(None, CONTROLS)) > STRAY * len(start):
            raise refused(
                name, "is no text, and of no form that is read", "see which forms are in docs/own-data.md"
            )
        file.seek(0)
        decoder = codecs.getincrementaldecoder("utf-8")()
        try:
            for chunk in _chunks(file):
                if not chunk.isascii() or decoder.getstate()[0]:
                    decoder.decode(chunk)
            decoder.decode(b"", final=True)
        except UnicodeDecodeError as error:
            if start.startswith(codecs.BOM_UTF8):
                what = f"begins as UTF-8 and is not in it throughout ({error.reason})"
                raise refused(name, what, "save it in UTF-8") from error
            file.seek(0)
            return _code_page(_foreign_lines(file), name)
    return UTF8


def _code_page(sample: bytes, name: str) -> str:
    """An encoding by its letters: that of Western Europe where its words are words and no language objects."""
    found = from_bytes(sample, cp_isolation=list(CODE_PAGES))
    best = found.best()
    western = next((match for match in found if WESTERN in match.could_be_from_charset), None)
    known = 0.0 if western is None else western.coherence
    if _is_western(sample) and (best is None or best.coherence <= known + CLEARLY):
        return WESTERN
    if best is None:
        raise refused(name, "is in an encoding that could not be told", "name it with encoding=")
    return best.encoding


def _is_western(sample: bytes) -> bool:
    try:
        text = sample.decode(WESTERN)
    except UnicodeDecodeError:
        return False
    return not any(strange.search(text) for strange in STRANGE)


def _foreign_lines(lines: Iterable[bytes]) -> bytes:
    """The first lines that are not in ASCII."""
    found: list[bytes] = []
    size = 0
    for line in lines:
        if not line.isascii():
            found.append(line[:SAMPLE])
            size += len(found[-1])
        if size > SAMPLE:
            break
    return b"".join(found)


def _foreign_word(path: Path) -> str:
    """The first word that is not in ASCII, by which a person sees whether an encoding is right."""
    with path.open(encoding="utf-8") as lines:
        return next((word[0] for line in lines if (word := FOREIGN_WORD.search(line))), "")


def _known(encoding: str, name: str) -> str:
    try:
        "a".encode(encoding)
        return codecs.lookup(encoding).name.replace("-", "_")
    except (LookupError, ValueError) as error:
        raise refused(
            name, f"encoding= is {encoding!r}, which is none", "name one, as utf-8, cp1252, latin-1"
        ) from error


def _mixed_ends(chunks: Iterable[bytes]) -> bool:
    """Whether lines end with a carriage return and a line feed, or one of them alone, and not all alike."""
    ends: set[bytes] = set()
    held = b""
    for chunk in chunks:
        # What follows a carriage return at the end of a chunk stands in the next one.
        text = held + chunk
        held = text[-1:] if text.endswith(b"\r") else b""
        ends |= _ends(text.removesuffix(b"\r"))
    return len(ends | _ends(held)) > 1


def _ends(text: bytes) -> set[bytes]:
    """The kinds of line ends in a text."""
    if b"\r" not in text:
        return {b"\n"} if b"\n" in text else set()
    signs = np.frombuffer(text, np.uint8)
    feeds, returns = signs == ord("\n"), signs == ord("\r")
    feeds_count, returns_count, both = map(np.count_nonzero, (feeds, returns, returns[:-1] & feeds[1:]))
    counts = {b"\r\n": both, b"\n": feeds_count - both, b"\r": returns_count - both}
    return {end for end, count in counts.items() if count}


def _recoded(path: Path, encoding: str) -> Iterator[bytes]:
    """A file in UTF-8, in chunks."""
    if encoding == UTF8:
        with path.open("rb") as file:
            yield from _chunks(file)
        return
    with path.open(encoding=encoding, newline="") as text:
        while chunk := text.read(CHUNK):
            yield chunk.encode()


def _chunks(file: BinaryIO) -> Iterator[bytes]:
    while chunk := file.read(CHUNK):
        yield chunk
