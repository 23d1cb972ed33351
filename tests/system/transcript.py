"""A page as a transcript: its blocks of shell and Python are carried out in their order, in one folder.

Commands are those of the page, to the letter. What is general stands in three tables: `SMALLER`, options that are added
to commands that would take long; `QUICKER`, the same for Python; `STAND_INS`, what words in capitals stand for.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import venv
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import chdir
from dataclasses import dataclass, field
from multiprocessing.connection import Client, Listener
from pathlib import Path
from typing import Any

from markdown_it import MarkdownIt
from typer.testing import CliRunner

from fedtag.deploy.cli import app
from tests.dry_make import last_words

REPOSITORY = Path(__file__).resolve().parents[2]
EXECUTED = ("sh", "python")
SHOWN = ("toml", "text", "json", "sql")
PROGRAMS = ("fedtag", "make", "pip", "pytest")
ROUND = ("--set", "rounds=1", "--set", "train.epochs=1")
SMALLER = {
    "simulate": ROUND,
    "up": ROUND,
    "compare": (*ROUND, "--seeds", "1"),
    "demo": ("--rounds", "1", "--clients", "2", "--seeds", "1", "--jobs", "1"),
}
QUICKER = {r"\brounds=\d+": "rounds=1", r"\bclients=\d+": "clients=2", r"\bseeds=\d+": "seeds=1"}
# Places of a host lie in the folder of the transcript.
HOST = re.compile(r"(?<![\w.])/(?=(?:data|etc|srv|var)/)")
ASKS = """\
#!{python} -IS
import os, sys
from multiprocessing.connection import Client
with Client({address!r}) as test:
    test.send((os.path.basename(sys.argv[0]), sys.argv[1:], os.getcwd()))
    status, said = test.recv()
sys.stdout.write(said)
sys.exit(status)
"""


@dataclass(frozen=True)
class Block:
    """A block of code.

    Attributes:
        page: where it is, from the repository's root.
        line: of its first line of code, from 1 on.
        language: as the fence says; empty for an indented block.
        text: the code.
    """

    page: str
    line: int
    language: str
    text: str


def blocks(page: str) -> list[Block]:
    """All blocks of a page."""
    tokens = MarkdownIt().parse((REPOSITORY / page).read_text(encoding="utf-8"))
    found = []
    for token in tokens:
        if token.type in ("fence", "code_block"):
            assert token.map is not None
            line = token.map[0] + (2 if token.type == "fence" else 1)
            found.append(Block(page, line, token.info.strip(), token.content))
    return found


class BrokenPageError(AssertionError):
    """A command of a page does not do what the page says."""


@dataclass
class Transcript:
    """The folder in which a page's blocks are carried out, and what they find there.

    Args:
        folder: everything is written below it.
        not_run: commands that are taken for done.
        stand_ins: what further words of commands stand for.
        known: names that Python finds.
        further: settings that make the page's runs short, beside those of all pages.
    """

    folder: Path
    not_run: Sequence[str] = ()
    stand_ins: dict[str, str] = field(default_factory=dict)
    known: dict[str, Any] = field(default_factory=dict)
    further: Sequence[str] = ()
    _own: Path | None = None

    def carry_out(self, block: Block) -> None:
        """Carry out one block.

        Raises:
            BrokenPageError: with page and line of what does not work.
        """
        if block.language == "python":
            self._python(block)
        else:
            self._shell(block)

    def _python(self, block: Block) -> None:
        source = block.text
        for slow, quick in QUICKER.items():
            source = re.sub(slow, quick, source)
        try:
            with chdir(self.folder):
                exec(compile("\n" * (block.line - 1) + source, block.page, "exec"), self.known)
        except Exception as error:
            trace, line = error.__traceback__, block.line
            while trace is not None:
                if trace.tb_frame.f_code.co_filename == block.page:
                    line = trace.tb_lineno
                trace = trace.tb_next
            raise BrokenPageError(f"{block.page}:{line}: {type(error).__name__}: {error}") from error

    def _shell(self, block: Block) -> None:
        """One Bash for the block; programs that need PyTorch ask this process, which has it loaded."""
        address, programs = str(self.folder / "asked"), self.folder / "bin"
        programs.mkdir(exist_ok=True)
        for name in PROGRAMS:
            (programs / name).write_text(ASKS.format(python=sys.executable, address=address))
            (programs / name).chmod(0o755)
        where = f"trap 'echo \"{block.page}:$LINENO: $BASH_COMMAND\" >&2' ERR; set -eE -o pipefail; "
        lines = [failing(line) for line in block.text.splitlines()]
        # What stands before the block's first line makes LINENO that of the page.
        script = "\n" * (block.line - 2) + (where + "\n" if block.line > 1 else where) + "\n".join(lines)
        path = f"{programs}{os.pathsep}{os.environ['PATH']}"

        def bash() -> subprocess.CompletedProcess[str]:
            try:
                return subprocess.run(
                    ["bash", "-c", script], cwd=self.folder, env={**os.environ, "PATH": path},
                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                )  # fmt: skip
            finally:
                with Client(address) as end:
                    end.send(None)

        with Listener(address) as listener, ThreadPoolExecutor(1) as thread:
            running = thread.submit(bash)
            for connection, (name, arguments, place) in calls(listener):
                connection.send(self._called(name, arguments, Path(place)))
        done = running.result()
        if done.returncode != 0:
            raise BrokenPageError(
                f"exit code {done.returncode} of {block.page}, from line {block.line}\n{done.stdout}"
            )

    def _called(self, name: str, arguments: list[str], place: Path) -> tuple[int, str]:
        """Exit code and output of a program."""
        if " ".join([name, *arguments]) in self.not_run:
            return 0, ""
        if name == "make":
            # What make would run, in an environment that is there.
            try:
                program, *arguments = last_words(*arguments)
            except LookupError as error:
                return 2, str(error)
            name = Path(program).name
        words = [self._placed(word) for word in arguments]
        if name == "pip" and self._own is None:
            self._own = layered_environment(self.folder / "own")
        if self._own is not None or name != "fedtag":
            return self._process(name, words, place)
        with chdir(place):
            done = CliRunner().invoke(app, smaller(words, self.further))
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            return 70, f"{done.output}\n{done.exception!r}\n"
        return done.exit_code, done.output

    def _process(self, name: str, words: list[str], place: Path) -> tuple[int, str]:
        module = "fedtag.deploy.cli" if name == "fedtag" else name
        python = self._own or Path(sys.executable)
        words = smaller(words, self.further) if name == "fedtag" else words
        done = subprocess.run(
            [str(python), "-m", module, *words], cwd=place, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, check=False,
            # The environment has no index: what packages need is there already.
            env={**os.environ, "PIP_NO_DEPS": "1", "PIP_NO_INDEX": "1", "PIP_NO_BUILD_ISOLATION": "0"},
        )  # fmt: skip
        return done.returncode, done.stdout

    def _placed(self, word: str) -> str:
        for name, meaning in self.stand_ins.items():
            word = word.replace(name, meaning)
        for name, meant in STAND_INS.items():
            word = re.sub(rf"\b{name}\b", lambda _, meant=meant: str(meant(self)), word)  # type: ignore[misc]
        return HOST.sub(f"{self.folder}/", word)

    def run_directory(self, place: int) -> Path:
        """A run of the page, in their order; the first where there are not so many."""
        found = sorted(self.folder.glob("runs/*/config.toml"), key=lambda path: path.stat().st_mtime_ns)
        assert found, "a page names a run before it makes one"
        return found[place if place < len(found) else 0].parent


STAND_INS: dict[str, Callable[[Transcript], str | Path]] = {
    "RUN_DIR": lambda page: page.run_directory(0),
    "RUN_A": lambda page: page.run_directory(0),
    "RUN_B": lambda page: page.run_directory(1),
    "SITE": lambda page: min(path.name for path in (page.run_directory(0) / "sites").glob("client-*")),
    "FEDTAG_HOME": lambda page: os.environ["FEDTAG_HOME"],
}


def calls(listener: Listener) -> Iterator[tuple[Any, tuple[str, list[str], str]]]:
    """What programs ask for, until the shell has ended."""
    while True:
        with listener.accept() as connection:
            if (asked := connection.recv()) is None:
                return
            yield connection, asked


def failing(line: str) -> str:
    """A line of shell; one with the remark that it fails is one that must."""
    command, remark, _ = line.partition("# fails")
    return f"if {command.strip()}; then false; fi" if remark else line


def smaller(words: list[str], further: Sequence[str] = ()) -> list[str]:
    """The words of a command of fedtag, with options that make it short; options that are given last count."""
    if "--resume" in words or not words or words[0] not in SMALLER:
        return words
    data = [] if {"--data", "--config", "--study"} & set(words) else ["--data", "FOLDER"]
    changes = [part for one in further if words[0] == "simulate" for part in ("--set", one)]
    return [*words, *data, *SMALLER[words[0]], *changes]


def layered_environment(folder: Path) -> Path:
    """The interpreter of an environment that has all of this one's packages and takes further ones."""
    venv.create(folder, with_pip=False, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    here = next(path for path in sys.path if path.endswith("site-packages"))
    (packages / "below.pth").write_text(f"import site; site.addsitedir({here!r})\n")
    return folder / "bin" / "python"
