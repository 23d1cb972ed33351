"""A prepared run on a federation of real Flower processes, or in Flower's own simulation."""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import torch

from fedtag.client.run.simulated import RUN_VARIABLE
from fedtag.client.site.site import Site
from fedtag.client.worker.handover import ask
from fedtag.common.config import RunConfig
from fedtag.common.errors import DeploymentError
from fedtag.deploy.federation.bundle import write_app
from fedtag.deploy.federation.control import RunOutcome
from fedtag.deploy.federation.following import Follower
from fedtag.deploy.federation.local import LocalFederation, SimulatedFederation
from fedtag.runs.progress import Progress
from fedtag.runs.simulation import PreparedRun
from fedtag.server.tracking.status import RunStatus, read_status

FlowerEngine = Literal["ray", "processes", "tls"]

NODE = re.compile(r"\bnode (\d+)")
NOTED = re.compile(r"fedtag WARNING: (.*)")
REASON = re.compile(r"(?:[\w.]+\.)?(?:\w+Error|\w+Exception): (.+)")
LOGS = "logs"
STOP_SECONDS = 2.0


def run_on_flower(run: PreparedRun, engine: FlowerEngine, progress: Progress, plain: bool = False) -> None:
    """All rounds that are left; the ServerApp writes the run directory.

    The logs of all processes are left in the run's folder `logs`.

    Args:
        run: what is to be done.
        engine: real processes, in clear or with TLS, or Flower's simulation.
        progress: told how it goes.
        plain: leave the processes to Flower's own executors.

    Raises:
        DeploymentError: the processes did not start, or the run failed.
    """
    out = run.directory.path.absolute()
    log: list[str] = []
    before = read_status(out)
    names: dict[str, str] = {}

    # The ServerApp finds the folder made and its settings written: it goes on from round 0 at the earliest.
    config = run.config.model_copy(update={"resume": True})
    with tempfile.TemporaryDirectory(prefix="fedtag-", ignore_cleanup_errors=True) as scratch:
        app, home = write_app(Path(scratch) / "app", config.to_flat()), Path(scratch) / "home"
        try:
            with federation(engine, app, home, run.sites, config, out, plain) as started:

                def named() -> dict[str, str]:
                    names.update({node: run.sites[place].name for node, place in started.node_ids().items()})
                    return names

                def ended() -> dict[str, int]:
                    return {run.sites[place].name: code for place, code in started.ended().items()}

                def heard(line: str) -> None:
                    log.append(line)
                    if text := noted(line):
                        progress.rounds.note(with_sites(text, named()))

                with Follower(out, config.rounds, progress, named, ended):
                    try:
                        outcome = started.run(config.to_flat(), heard)
                    finally:
                        stop_workers(run.sites)
        finally:
            keep_logs(home / LOGS, out / LOGS, log)
    if not outcome.succeeded:
        why = with_sites(reason_reported(out, before) or failure(outcome, log), names)
        raise DeploymentError(f"{why}; the logs are in {out / LOGS}")


def noted(line: str) -> str | None:
    """What a person should read in a line of the ServerApp's log, as text or as JSON."""
    if found := NOTED.search(line):
        return found[1]
    if not line.startswith("{"):
        return None
    try:
        record = json.loads(line)
    except ValueError:
        return None
    if not isinstance(record, dict) or record.get("level") != "WARNING" or record.get("logger") != "fedtag":
        return None
    details = [
        f"{name} {record[name]}" for name in ("round", "client", "node", "error", "code") if name in record
    ]
    return ", ".join([str(record.get("event")), *details])


def with_sites(text: str, names: Mapping[str, str]) -> str:
    """The text with the sites behind the nodes that it names by their numbers."""

    def naming(found: re.Match[str]) -> str:
        name = names.get(found[1])
        return found[0] if name is None else f"{name} ({found[0]})"

    return NODE.sub(naming, text)


def reason_reported(out: Path, before: RunStatus | None) -> str | None:
    """Why the run says that it stopped; None if it has said nothing since `before`."""
    status = read_status(out)
    if status is None or status == before or status.state != "stopped":
        return None
    return (status.reason or "").rstrip(".") or None


def federation(
    engine: FlowerEngine,
    app: Path,
    home: Path,
    sites: tuple[Site, ...],
    config: RunConfig,
    out: Path,
    plain: bool = False,
) -> LocalFederation | SimulatedFederation:
    """The federation of an engine, with a fair share of the processor for each client."""
    cores = max(1, (os.cpu_count() or 1) // len(sites))
    environment = {"OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", str(cores)), RUN_VARIABLE: str(out)}
    patience = 60.0 + 20.0 * len(sites)
    if engine != "ray":
        nodes = [node_config(site) for site in sites]
        return LocalFederation(app, home, nodes, environment, patience, engine == "tls", plain)
    gpus = 0 if config.device == "cpu" else torch.cuda.device_count()
    share = min(1.0, gpus / len(sites))
    return SimulatedFederation(app, home, len(sites), environment, client_gpus=share, start_seconds=patience)


def node_config(site: Site) -> dict[str, str]:
    """What a SuperNode is told about its site."""
    pinned = {} if site.roster is None else {"roster": str(site.roster.absolute())}
    return {
        "data": str(site.folder.absolute()),
        "name": site.name,
        "workspace": str(site.workspace.absolute()),
        "cache": str(site.cache.absolute()),
        "device": site.device,
        "worker": "on",
        **pinned,
    }


def stop_workers(sites: tuple[Site, ...]) -> None:
    """End the workers of sites in order; those that do not hear it end with the processes that started them."""
    for site in sites:
        ask(site.workspace, "stop", STOP_SECONDS)


def failure(outcome: RunOutcome, log: list[str]) -> str:
    """Why a run failed, in one sentence: the last error in its log, else what Flower says."""
    for line in reversed([*log, *outcome.details.splitlines()]):
        if found := REASON.search(line):
            return found[1].strip().rstrip(".")
    return f"the run ended {outcome.status}: {' '.join(outcome.details.split()) or 'no reason given'}"


def keep_logs(source: Path, target: Path, log: list[str]) -> None:
    """Copy the logs of the processes beside the run, with the ServerApp's as run.log."""
    if source.is_dir():
        shutil.copytree(source, target, dirs_exist_ok=True)
    target.mkdir(parents=True, exist_ok=True)
    (target / "run.log").write_text("\n".join(log) + "\n", encoding="utf-8")
