"""One revision of the project: its tree, how its command line is started, and the process that runs it."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

LAUNCHER = Path(__file__).with_name("launcher.py")
PACKAGES = ("fedtag", "client", "common", "deploy", "server")
"""What the project's packages are called, in revisions of any age."""
SINGLE_THREADED = {
    f"{library}_NUM_THREADS": "1" for library in ("OMP", "MKL", "OPENBLAS", "NUMEXPR", "VECLIB_MAXIMUM")
}
KEY = re.compile(r"^\s*([a-z][a-z0-9_.-]*)\s", re.MULTILINE)


class RevisionError(Exception):
    """A revision that cannot be checked out or started."""


@dataclass(frozen=True)
class Revision:
    """A checkout that can be run.

    Args:
        name: how it is called in the output.
        root: its folder.
        path: what PYTHONPATH must hold, in this order.
        entry: `module:function` of its command line.
    """

    name: str
    root: Path
    path: tuple[Path, ...]
    entry: str

    @classmethod
    def of(cls, name: str, root: Path, workspace: Path) -> Revision:
        """The revision whose checkout is at `root`; what it needs to run goes to `workspace`."""
        project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
        entry = str(project["project"]["scripts"]["fedtag"])
        source = root
        if entry.startswith("fedtag."):
            # The folders of the checkout are mapped into the package, as a tree of links does.
            _run([sys.executable, "-m", "tools.packages", "--links"], root)
            source = root / "build" / "links"
        return cls(name, root, (_metadata(project, workspace), source), entry)

    def environment(self, home: Path) -> dict[str, str]:
        """The environment of its processes: its own code, one thread, and no file of the user's."""
        own = {
            "PYTHONPATH": os.pathsep.join(map(str, self.path)),
            "PYTHONSAFEPATH": "1",
            "FEDTAG_HOME": str(home / "home"),
            "FEDTAG_CACHE": str(home / "cache"),
            "TOKENIZERS_PARALLELISM": "false",
            "MPLCONFIGDIR": str(home / "matplotlib"),
            "COLUMNS": "400",
            **SINGLE_THREADED,
        }
        return {**os.environ, **own}


def checked_out(repository: Path, revision: str, folder: Path) -> Path:
    """A worktree of a revision, under a folder; one that is there already is taken.

    Raises:
        RevisionError: git knows no such revision, or cannot check it out.
    """
    try:
        commit = _run(["git", "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}"], repository)
    except RevisionError as error:
        raise RevisionError(f"git knows no revision {revision}: name a commit, a tag or a branch") from error
    place = folder / commit[:12]
    if place.is_dir():
        state = _run(["git", "rev-parse", "HEAD"], place), _run(["git", "status", "--porcelain"], place)
        if state == (commit, ""):
            return place
        shutil.rmtree(place)
    _run(["git", "worktree", "prune"], repository)
    _run(["git", "worktree", "add", "--quiet", "--detach", str(place), commit], repository)
    return place


class Runner:
    """The process in which a revision's command line runs, one job after another."""

    def __init__(self, revision: Revision, home: Path) -> None:
        self.revision = revision
        home.mkdir(parents=True)
        (home / "elsewhere").mkdir()
        arguments = [sys.executable, "-P", str(LAUNCHER), str(revision.root), revision.entry, *PACKAGES]
        self.process = subprocess.Popen(
            arguments,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=home / "elsewhere",
            env=revision.environment(home),
            start_new_session=True,
        )

    def __enter__(self) -> Runner:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            os.killpg(self.process.pid, signal.SIGTERM)
        self.process.__exit__(kind, error, trace)

    def run(self, arguments: Sequence[str], log: Path, stop: Mapping[str, Any] | None = None) -> int:
        """Run `fedtag ARGUMENTS`; its output is appended to `log`.

        Args:
            stop: `file` and `lines`: interrupt the run once the file has so many lines.

        Returns:
            the exit code; that of a signal is negative.

        Raises:
            RevisionError: the process is gone.
        """
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        job = {"arguments": list(arguments), "log": str(log), "stop": stop}
        try:
            self.process.stdin.write(json.dumps(job) + "\n")
            self.process.stdin.flush()
            return int(self.process.stdout.readline())
        except (OSError, ValueError) as error:
            raise RevisionError(
                f"the process of {self.revision.name} ended; see what it wrote above"
            ) from error

    def known_settings(self, log: Path) -> frozenset[str]:
        """The keys that `fedtag settings` lists.

        Raises:
            RevisionError: it lists none.
        """
        code = self.run(["settings"], log)
        text = log.read_text(encoding="utf-8")
        keys = frozenset(KEY.findall(text))
        if code or "rounds" not in keys:
            raise RevisionError(f"fedtag settings of {self.revision.name} failed:\n{text[-2000:]}")
        return keys


def _metadata(project: Mapping[str, Any], workspace: Path) -> Path:
    """A folder with the package's metadata, so that the revision finds its own version and entry points.

    That of the running environment belongs to the checkout, whatever is on PYTHONPATH.
    """
    table = project["project"]
    folder = workspace / "metadata"
    place = folder / f"{table['name']}-{table['version']}.dist-info"
    place.mkdir(parents=True)
    head = f"Metadata-Version: 2.1\nName: {table['name']}\nVersion: {table['version']}\n"
    (place / "METADATA").write_text(head, encoding="utf-8")
    groups = {"console_scripts": table["scripts"], **table.get("entry-points", {})}
    lines = [
        line
        for group, entries in groups.items()
        for line in (f"[{group}]", *(f"{name} = {value}" for name, value in entries.items()))
    ]
    (place / "entry_points.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def _run(command: Sequence[str], folder: Path) -> str:
    """The output of a command without spaces around it."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        reason = done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}"
        raise RevisionError(f"{' '.join(command)} in {folder}: {reason}")
    return done.stdout.strip()
