"""The demonstration: the same graph and seed for several methods, then one comparison."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fedtag.audits.evidence import audit_run, write_audit_page
from fedtag.common.errors import ConfigError
from fedtag.common.logs import LOGGER
from fedtag.common.methods.spec import METHODS
from fedtag.runs.course import Engine, start
from fedtag.runs.progress import LOGGED, Progress
from fedtag.runs.settings import gather
from fedtag.runs.simulation import next_free, run_in_process
from fedtag.server.report.page import write_report
from fedtag.server.tracking.run_directory import SITES


@dataclass(frozen=True)
class Demonstration:
    """Where everything lies: the run of each method, the page that compares them, the pages of evidence."""

    runs: tuple[Path, ...]
    report: Path
    pages: tuple[Path, ...]


def demonstrate(
    out: Path,
    methods: Sequence[str] | None,
    data: str,
    clients: int,
    rounds: int,
    engine: Engine = run_in_process,
    progress: Progress = LOGGED,
) -> Demonstration:
    """Run each method on the same sites, compare them, and write the audit pages of those with evidence.

    Args:
        out: the folder of all runs; the next free name is taken where it exists.
        methods: in the order of the table; those of demo.toml where None.
        data: as for a simulation.
        clients: simulated institutions.
        rounds: of each method.
        engine: carries out the runs.
        progress: of the runs.

    Raises:
        ConfigError: there is no such method, or none is named.
    """
    if methods is None:
        methods = tomllib.loads(Path(__file__).with_name("demo.toml").read_text(encoding="utf-8"))["methods"]
    unknown = [method for method in methods if method not in METHODS.names]
    if unknown or not methods:
        raise ConfigError(f"--methods {','.join(unknown)}: choose from {', '.join(METHODS.names)}")
    out = next_free(out.absolute())
    for line in introduction(out, methods, data, clients, rounds):
        LOGGER.info("%s", line)
    shared = {"data.source": data, "clients": clients, "rounds": rounds}
    runs = tuple(
        start(gather(None, {**shared, "method": method, "out": str(out / method)}, ()), engine, progress)
        for method in methods
    )
    report = out / "report.html"
    write_report(runs, report)
    pages = []
    for run in runs:
        if any((run / SITES).glob("*/evidence/*.jsonl")):
            site = audit_run(run, None, None)[0]
            page = run / f"audit-{site.name}.html"
            write_audit_page(site, page)
            pages.append(page)
    return Demonstration(runs, report, tuple(pages))


def introduction(out: Path, methods: Sequence[str], data: str, clients: int, rounds: int) -> list[str]:
    """What is about to happen."""
    graph = "the docstrings of SciPy's functions and classes, linked by their cross-references"
    return [
        f"Data: {graph if data == 'pydocs' else data}.",
        f"It is divided over {clients} clients by communities; no client sees another one's texts.",
        f"Each of {', '.join(methods)} runs for {rounds} rounds on the same division, split and seed.",
        *(f"{METHODS.get(method).title}." for method in methods),
        f"Everything goes to {out}. Texts are encoded once, in the first run.",
    ]
