"""What this machine has for fedtag, and what it lacks."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from rich.table import Table
from rich.text import Text

from fedtag.common.errors import FedtagError
from fedtag.common.wording.counts import plural
from fedtag.deploy.terminal.console import results

LEAST_PYTHON = (3, 11)
FLOWER_SERIES = "1.39."
LEAST_FREE_GIB = 2.0
FEATURES = ("amx_bf16", "avx512_bf16", "avx512_f", "avx2")


@dataclass(frozen=True)
class Finding:
    """One line of the examination; what is essential decides the exit code."""

    subject: str
    good: bool
    detail: str
    essential: bool = True


def examine(policy: Path | None = None) -> list[Finding]:
    """Everything, in the order in which a person would look.

    Args:
        policy: of a site; None where there is none.
    """
    found = [finding for check in CHECKS for finding in check()]
    return found if policy is None else [*found, *_policy(policy)]


def show_findings(findings: list[Finding]) -> bool:
    """Print the examination; returns whether everything essential is there."""
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for finding in findings:
        mark = (
            ("ok", "green")
            if finding.good
            else ("missing", "red")
            if finding.essential
            else ("note", "yellow")
        )
        table.add_row(Text(mark[0], style=mark[1]), Text(finding.subject), Text(finding.detail))
    results().print(table)
    return all(finding.good for finding in findings if finding.essential)


def _python() -> Iterator[Finding]:
    good = sys.version_info[:2] >= LEAST_PYTHON
    yield Finding("Python", good, f"{platform.python_version()}, {sys.executable}")


def _torch() -> Iterator[Finding]:
    try:
        import torch
    except ImportError as error:
        yield Finding("PyTorch", False, f"{error}; run pip install torch")
        return
    yield Finding("PyTorch", True, torch.__version__)
    names = [torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count())]
    devices = ", ".join(f"cuda:{index} {name}" for index, name in enumerate(names))
    yield Finding("device", True, devices or "cpu (no GPU that PyTorch can use)")
    capable = torch.cpu.get_capabilities()
    found = [name for name in FEATURES if capable.get(name)]
    cores, threads = os.cpu_count() or 1, torch.get_num_threads()
    counts = f"{plural(cores, 'core')}, {plural(threads, 'thread')}"
    yield Finding("processor", True, f"{counts}, {', '.join(found) or 'no vector extensions'}")


def _weights() -> Iterator[Finding]:
    try:
        from fedtag.client.text.encoder import Encoder
        from fedtag.client.text.language_model import LanguageModel
    except ImportError as error:
        yield Finding("encoder", False, f"{error}; install fedtag with its dependencies")
        return
    models: tuple[tuple[str, Encoder | LanguageModel], ...] = (
        ("encoder", Encoder()),
        ("language model", LanguageModel()),
    )
    for subject, model in models:
        essential = subject == "encoder"
        try:
            yield Finding(subject, True, f"bundled, SHA-256 verified, {model.folder}", essential)
        except FedtagError as error:
            yield Finding(subject, False, str(error), essential)


def _flower() -> Iterator[Finding]:
    try:
        version = metadata.version("flwr")
    except metadata.PackageNotFoundError:
        yield Finding(
            "Flower", False, "flwr is not installed; run pip install 'flwr[simulation]>=1.39,<1.40'"
        )
        return
    good = version.startswith(FLOWER_SERIES)
    yield Finding("Flower", good, version if good else f"{version}, but fedtag needs {FLOWER_SERIES}x")
    try:
        ray = metadata.version("ray")
        yield Finding("Ray", True, ray, essential=False)
    except metadata.PackageNotFoundError:
        yield Finding("Ray", False, "not installed: --engine ray does not work", essential=False)


def _ports() -> Iterator[Finding]:
    from fedtag.deploy.federation.ports import free_ports

    try:
        ports = free_ports(3)
        yield Finding("ports", True, f"free on loopback, for example {', '.join(map(str, ports))}")
    except FedtagError as error:
        yield Finding("ports", False, str(error), essential=False)


def _places() -> Iterator[Finding]:
    from fedtag.common.homes import cache_folder

    here = Path.cwd()
    free = shutil.disk_usage(here).free / 2**30
    yield Finding("disk", free >= LEAST_FREE_GIB, f"{free:.1f} GiB free in {here}", essential=False)
    cache = cache_folder()
    place = next(parent for parent in (cache, *cache.absolute().parents) if parent.exists())
    good = place.is_dir() and os.access(place, os.W_OK)
    origin = "FEDTAG_CACHE" if "FEDTAG_CACHE" in os.environ else "set FEDTAG_CACHE to change it"
    detail = f"{cache} ({origin})" if good else f"{cache} cannot be written; set FEDTAG_CACHE"
    yield Finding("cache", good, detail)


def _policy(path: Path) -> Iterator[Finding]:
    from fedtag.client.policy.rules import read_policy

    try:
        read_policy(path)
    except FedtagError as error:
        yield Finding("policy", False, str(error))
        return
    yield Finding("policy", True, f"{path}: every rule means something here")


CHECKS: tuple[Callable[[], Iterator[Finding]], ...] = (_python, _torch, _weights, _flower, _ports, _places)
