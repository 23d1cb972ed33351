"""Paths and texts of any alphabet, where the system names none."""

from __future__ import annotations

import codecs
import os
import sys

VARIABLE = "PYTHONUTF8"


def begin_in_utf8() -> None:
    """Begin the program anew in Python's UTF-8 mode where the locale knows ASCII alone, as LC_ALL=C does.

    There Python can neither open a file whose name it was told in UTF-8, nor print it. What the program starts takes
    the mode over.
    """
    ascii_alone = codecs.lookup(sys.getfilesystemencoding()).name == "ascii"
    if ascii_alone and os.environ.get(VARIABLE) != "1":
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, VARIABLE: "1"})
