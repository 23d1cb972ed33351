"""The process that runs one revision's command line, each run in a fork; it knows nothing of any revision.

    python -P launcher.py ROOT MODULE:FUNCTION PACKAGE...

It is started as a file, with the revision's packages on PYTHONPATH. All their modules are imported once, which takes
longer than a run does. Every line of its input is a job; every line of its output says how one ended.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import json
import os
import pkgutil
import signal
import sys
import threading
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any

LONGEST = 300
"""Seconds that one run may take."""
MISPLACED = 90
"""Exit code of a run that loaded another revision's code."""


def main(root: Path, entry: str, packages: Sequence[str]) -> None:
    """Carry out all jobs of the standard input."""
    import_all(root, packages)
    for line in sys.stdin:
        job = json.loads(line)
        child = os.fork()
        if child == 0:
            os._exit(_carried_out(job, root, entry, packages))
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


def import_all(root: Path, packages: Sequence[str]) -> None:
    """Import every module of those packages that the revision has; what needs a missing library stays out."""
    for package in packages:
        place = importlib.util.find_spec(package)
        if place is None or place.origin is None or place.submodule_search_locations is None:
            continue
        if not belongs(Path(place.origin), root):
            continue
        for module in pkgutil.walk_packages(
            place.submodule_search_locations, f"{package}.", onerror=lambda name: None
        ):
            if not module.name.endswith("__main__"):
                with contextlib.suppress(ImportError):
                    importlib.import_module(module.name)


def _carried_out(job: dict[str, Any], root: Path, entry: str, packages: Sequence[str]) -> int:
    """One run of the command line; its exit code."""
    signal.alarm(LONGEST)
    log = os.open(job["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for stream, source in ((0, nothing), (1, log), (2, log)):
        os.dup2(source, stream)
    sys.argv = ["fedtag", *job["arguments"]]
    if job["stop"] is not None:
        _stop_when(Path(job["stop"]["file"]), job["stop"]["lines"])
    module, _, function = entry.partition(":")
    code = 0
    try:
        getattr(importlib.import_module(module), function)()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        code = 1
    strange = misplaced(root, packages)
    if strange:
        sys.stderr.write(f"{len(strange)} modules are not of {root}: {', '.join(strange[:3])}\n")
        code = MISPLACED
    sys.stdout.flush()
    sys.stderr.flush()
    return code


def misplaced(root: Path, packages: Sequence[str]) -> list[str]:
    """Files of loaded modules of the project that are not the revision's; none being loaded is wrong, too."""
    files = [
        Path(file)
        for name, module in list(sys.modules.items())
        if name.partition(".")[0] in packages and (file := getattr(module, "__file__", None))
    ]
    return [str(file) for file in files if not belongs(file, root)] if files else ["no module at all"]


def belongs(file: Path, root: Path) -> bool:
    """Whether a file is one of the checkout at `root`, whose folder `build` holds those of other revisions."""
    real = file.resolve()
    return real.is_relative_to(root) and real.relative_to(root).parts[0] != "build"


def _stop_when(file: Path, lines: int) -> None:
    """Interrupt the run, as Ctrl-C does, at the first file that it opens when another one has so many lines."""
    looking = [True]

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event != "open" or not looking[0] or threading.current_thread() is not threading.main_thread():
            return
        looking[0] = False
        if file.is_file() and file.read_bytes().count(b"\n") >= lines:
            raise KeyboardInterrupt
        looking[0] = True

    sys.addaudithook(hook)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3:])
