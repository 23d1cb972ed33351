"""The demonstration: the same graph and seed for several methods, then one comparison."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from fedtag.audits.evidence import audit_run, write_audit_page
from fedtag.common.errors import ConfigError
from fedtag.common.methods.spec import METHODS
from fedtag.deploy.terminal.console import notices, results, say
from fedtag.runs.course import outcome_table, start
from fedtag.runs.settings import gather
from fedtag.runs.simulation import next_free
from fedtag.server.report.page import write_report
from fedtag.server.tracking.run_directory import SITES

SHOWN = ("isolated", "fedavg", "dance")


def run_demo(
    out: Path,
    methods: Sequence[str],
    data: str,
    clients: int,
    rounds: int,
    debug: bool = False,
) -> Path:
    """Run each method on the same sites, compare them, and write the audit pages of those with evidence.

    Args:
        out: the folder of all runs; the next free name is taken where it exists.
        methods: in the order of the table.
        data: as for a simulation.
        clients: simulated institutions.
        rounds: of each method.
        debug: whether the log shows tracebacks.

    Returns:
        the folder.
    """
    unknown = [method for method in methods if method not in METHODS.names]
    if unknown or not methods:
        raise ConfigError(f"--methods {','.join(unknown)}: choose from {', '.join(METHODS.names)}")
    out = next_free(out.absolute())
    for line in introduction(out, methods, data, clients, rounds):
        say(notices(), line)
    runs = [
        start(
            gather(
                None,
                {
                    "method": method,
                    "data.source": data,
                    "clients": clients,
                    "rounds": rounds,
                    "out": str(out / method),
                },
                (),
            ),
            "inprocess",
            debug,
        )
        for method in methods
    ]
    report = out / "report.html"
    write_report(runs, report)
    console = results()
    console.print(outcome_table(runs))
    say(console, f"report  {report}")
    for run in runs:
        if any((run / SITES).glob("*/evidence/*.jsonl")):
            site = audit_run(run, None, None)[0]
            page = run / f"audit-{site.name}.html"
            write_audit_page(site, page)
            say(console, f"audit   {page}")
    return out


def introduction(out: Path, methods: Sequence[str], data: str, clients: int, rounds: int) -> list[str]:
    """What is about to happen."""
    graph = "the docstrings of SciPy's functions and classes, linked by their cross-references"
    return [
        f"Data: {graph if data == 'pydocs' else data}.",
        f"It is divided over {clients} clients by communities; no client sees another one's texts.",
        f"Each of {', '.join(methods)} runs for {rounds} rounds on the same division, split and seed.",
        "Isolated clients train alone; FedAvg averages models of whole local graphs;",
        "DANCE trains on a condensed graph with selected evidence, which can be audited word for word.",
        f"Everything goes to {out}. Texts are encoded once, in the first run.",
    ]
