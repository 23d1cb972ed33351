"""Runs every case by both revisions, two at a time, and compares; the exit code is 1 if anything differs."""

from __future__ import annotations

import argparse
import fnmatch
import shutil
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

from tools.golden.cases import CASES, RESUMED, STOP_AFTER, VARIANTS, Case, Setting, as_known
from tools.golden.graphs import write_graphs
from tools.golden.results import first_difference
from tools.golden.revision import Revision, RevisionError, Runner, checked_out

REPOSITORY = Path(__file__).resolve().parents[2]
PLACE = REPOSITORY / "build" / "golden"
SAME = "same"


class Side:
    """One of the two revisions while it works through the cases, in a thread of its own."""

    def __init__(self, revision: Revision, folder: Path, sites: Sequence[Path], stack: ExitStack) -> None:
        self.folder = folder
        self.sites = sites
        # The process goes first at the end, so that a broken-off comparison does not wait for what it still does.
        self.thread = stack.enter_context(ThreadPoolExecutor(1))
        self.runner = stack.enter_context(Runner(revision, folder / "own"))
        self.known: Future[frozenset[str]] = self.thread.submit(
            self.runner.known_settings, folder / "settings.log"
        )

    def start(self, name: str, case: Case, variant: str) -> Future[str]:
        """Let one run be done after those before; what comes is its failure, empty if there was none."""
        return self.thread.submit(self._run, self.out(name, variant), case, variant)

    def out(self, name: str, variant: str) -> Path:
        """The run directory."""
        return self.folder / f"{name}, {variant}".replace(", ", "-").replace(" ", "-")

    def _run(self, out: Path, case: Case, variant: str) -> str:
        log = out.with_suffix(".log")
        arguments = command(as_known(case.settings_of(variant), self.known.result()), out, self.sites)
        if variant != RESUMED:
            return self._failure(self.runner.run(arguments, log), log)
        stop = {"file": str(out / "metrics.jsonl"), "lines": STOP_AFTER}
        code = self.runner.run(arguments, log, stop)
        if not code or (out / "summary.json").exists() or not (out / "metrics.jsonl").exists():
            return f"was not stopped after round {STOP_AFTER}: {self._failure(code or 1, log)}"
        return self._failure(self.runner.run(["simulate", "--resume", str(out)], log), log)

    def _failure(self, code: int, log: Path) -> str:
        if not code:
            return ""
        lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
        said = next((line.strip() for line in reversed(lines) if line.strip()), "nothing")
        return f"{self.runner.revision.name} ends with {code} and says: {said}"


def command(settings: Mapping[str, Setting], out: Path, sites: Sequence[Path]) -> list[str]:
    """The arguments of `fedtag` for one run."""
    words = {
        key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in settings.items()
    }
    options = ["--method", words.pop("method"), "--out", str(out)]
    for site in sites:
        options += ["--data", str(site)]
    if "clients" in words:
        options += ["--clients", words.pop("clients")]
    for key, value in words.items():
        options += ["--set", f"{key}={value}"]
    return ["simulate", *options]


def outcomes(base: Side, head: Side, names: Sequence[str]) -> Iterator[tuple[str, str, str]]:
    """Each case, variant, and what differs or `SAME`, as they come."""
    jobs = [(name, variant) for name in names for variant in CASES[name].variants]
    both = [[side.start(name, CASES[name], variant) for side in (base, head)] for name, variant in jobs]
    try:
        for (name, variant), runs in zip(jobs, both, strict=True):
            failures = [failure for run in runs if (failure := run.result())]
            places = base.out(name, variant), head.out(name, variant)
            yield name, variant, "; ".join(failures) or first_difference(*places) or SAME
    except BaseException:
        for run in (run for runs in both for run in runs):
            run.cancel()
        raise


def table(found: Mapping[tuple[str, str], str]) -> str:
    """One row a case, one column a variant."""
    names = list(dict.fromkeys(name for name, _ in found))
    width = max(map(len, names))
    rows = [["case".ljust(width), *VARIANTS]]
    for name in names:
        words = [
            "-" if one is None else SAME if one == SAME else "DIFFERS"
            for one in (found.get((name, variant)) for variant in VARIANTS)
        ]
        rows.append([name.ljust(width), *words])
    return "\n".join("  ".join(f"{cell:8}" for cell in row).rstrip() for row in rows) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare the checkout with a revision; the exit code."""
    parser = argparse.ArgumentParser(prog="make golden", description=__doc__)
    parser.add_argument("base", help="a revision, as git names it")
    parser.add_argument("--only", default="*", help="cases whose names match, for example 'fedavg*'")
    options = parser.parse_args(arguments)
    names = [name for name in CASES if fnmatch.fnmatch(name, options.only)]
    if not names:
        parser.error(f"no case matches {options.only!r}; there are: {'; '.join(CASES)}")
    started = time.monotonic()
    work = PLACE / "work"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    try:
        base = Revision.of(options.base, checked_out(REPOSITORY, options.base, PLACE), work / "base")
        head = Revision.of("the checkout", REPOSITORY, work / "head")
        found = compared(base, head, work, names)
    except RevisionError as error:
        parser.error(str(error))
    except KeyboardInterrupt:
        progress("golden: stopped\n")
        return 130
    unlike = sum(one != SAME for one in found.values())
    sys.stdout.write(f"\n{table(found)}\n")
    verdict = f"{unlike} differ" if unlike else "all same"
    sys.stdout.write(
        f"golden: {len(found)} runs by {base.name} and {head.name}: {verdict} ({time.monotonic() - started:.0f} s)\n"
    )
    return int(unlike > 0)


def compared(base: Revision, head: Revision, work: Path, names: Sequence[str]) -> dict[tuple[str, str], str]:
    """What became of each case and variant; a line is written for each."""
    sites = write_graphs(work / "data")
    found: dict[tuple[str, str], str] = {}
    total = sum(len(CASES[name].variants) for name in names)
    progress(f"golden: importing {base.name} and {head.name}")
    with ExitStack() as stack:
        sides = [
            Side(revision, work / folder, sites, stack)
            for revision, folder in ((base, "base"), (head, "head"))
        ]
        for name, variant, outcome in outcomes(sides[0], sides[1], names):
            found[name, variant] = outcome
            progress("")
            sys.stdout.write(f"[{len(found):{len(str(total))}}/{total}] {name}, {variant}: {outcome}\n")
            sys.stdout.flush()
            progress(f"golden: {total - len(found)} to come")
        progress("")
    return found


def progress(text: str) -> None:
    """Replace the last line of a terminal; elsewhere nothing."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\033[K{text}")
        sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
