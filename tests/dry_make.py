"""What `make` would run, asked in the same way from a shell, an editor and within `make test`."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]


def last_words(*arguments: str) -> list[str]:
    """The last command that `make ARGUMENTS` would run, in words; LookupError with make's words otherwise.

    An outer make passes on its options, and names its folders when an inner one ends, after the last command.
    """
    told = subprocess.run(
        ["make", "--dry-run", *arguments],
        cwd=REPOSITORY, capture_output=True, text=True, check=False,
        env={name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))},
    )  # fmt: skip
    if told.returncode != 0:
        raise LookupError(told.stderr)
    return told.stdout.splitlines()[-1].split()
