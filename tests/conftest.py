"""Fixtures and settings that every kind of test uses."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, settings

from fedtag.client.data.folder import read_folder
from fedtag.client.data.writing import write_folder
from fedtag.runs.catalogue import ALL
from tests.tiny import Tiny

if TYPE_CHECKING:
    from playwright.sync_api import Browser

REPOSITORY = Path(__file__).resolve().parents[1]
MEMORY = Path("/dev/shm")

# A shared machine may stall any single example, so no example has a deadline. In CI the examples are the same
# in every run; elsewhere they vary, and a failing one is kept in .hypothesis/ for the next run.
settings.register_profile("local", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile(
    "ci", settings.get_profile("local"), derandomize=True, database=None, print_blob=True
)
settings.load_profile("ci" if os.environ.get("CI") else "local")


@pytest.fixture
def own_log() -> Iterator[None]:
    """The logger, to which a ServerApp gives a handler, is as before afterwards."""
    logger = logging.getLogger("fedtag")
    before = logger.handlers[:], logger.propagate, logger.level
    yield
    logger.handlers[:], logger.propagate = before[:2]
    logger.setLevel(before[2])


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Chromium, for pages as a person sees them; skips where none is installed, fails so in CI."""
    from tests.browser import chromium

    with chromium() as started:
        yield started


@pytest.fixture
def handed_over() -> Iterator[None]:
    """What a test hands over as objects ends with it."""
    before = [dict(registry._added) for registry in ALL]
    yield
    for registry, added in zip(ALL, before, strict=True):
        registry._added = added


@pytest.fixture(scope="session", autouse=True)
def session_folders(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Points FEDTAG_HOME and FEDTAG_CACHE into the session's temporary folder, never into the user's home.

    Encoded texts are keyed by their content, so all tests of a session share one cache; the processes of a
    parallel session (pytest-xdist) share it too. Processes that a test starts inherit both variables.
    """
    folder = tmp_path_factory.getbasetemp()
    if os.environ.get("PYTEST_XDIST_WORKER"):
        folder = folder.parent
    with pytest.MonkeyPatch.context() as patch:
        for variable, name in (("FEDTAG_HOME", "home"), ("FEDTAG_CACHE", "cache")):
            (folder / f"fedtag-{name}").mkdir(exist_ok=True)
            patch.setenv(variable, str(folder / f"fedtag-{name}"))
        yield folder


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real graphs that lies beside the repository; tests skip where it is absent."""
    folder = REPOSITORY.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"the real graphs are not at {folder}")
    return folder


@pytest.fixture(scope="session")
def write_feature_folder() -> Callable[..., Path]:
    """Writes a small data folder with features.npy, so that nothing needs an encoder; classes are easy to tell."""

    def write(path: Path, nodes: int = 60, seed: int = 0) -> Path:
        rng = np.random.default_rng(seed)
        labels = np.arange(nodes) % 3
        splits = np.array(["train", "train", "train", "val", "test"])[(np.arange(nodes) // 3) % 5]
        pairs = rng.integers(0, nodes, (6 * nodes, 2))
        alike = labels[pairs[:, 0]] == labels[pairs[:, 1]]
        pairs = pairs[alike & (pairs[:, 0] != pairs[:, 1])]
        path.mkdir(parents=True)
        rows = [f"{n},text of node {n},{'abc'[labels[n]]},{splits[n]}" for n in range(nodes)]
        (path / "nodes.csv").write_text(
            "\n".join(["node_id,text,label,split", *rows]) + "\n", encoding="utf-8"
        )
        edges = [f"{a},{b}" for a, b in np.unique(np.sort(pairs, axis=1), axis=0)]
        (path / "edges.csv").write_text("\n".join(["src,dst", *edges]) + "\n", encoding="utf-8")
        meta = {"name": path.name, "classes": ["a", "b", "c"]}
        (path / "meta.json").write_text(json.dumps(meta), encoding="utf-8")
        features = rng.standard_normal((nodes, 8)).astype(np.float32)
        features[np.arange(nodes), labels] += 1.5
        np.save(path / "features.npy", features)
        return path

    return write


@pytest.fixture(scope="session")
def write_mixed_folder(write_feature_folder: Callable[..., Path]) -> Callable[..., Path]:
    """Writes a folder with normal features that say little of classes, whose splits are alike.

    `ends` are where training, validation and test nodes end in a random order; the rest is in no split.
    """

    def write(place: Path, nodes: int, features: int, signal: float, ends: tuple[int, int, int]) -> Path:
        graph = read_folder(write_feature_folder(place / "raw", nodes=nodes)).graph
        x = np.random.default_rng(0).standard_normal((nodes, features)).astype(np.float32)
        x[np.arange(nodes), graph.labels] += signal
        order, split = np.random.default_rng(1).permutation(nodes), np.zeros(nodes, np.int8)
        for part, (begin, end) in enumerate(zip((0, *ends), ends, strict=False), start=1):
            split[order[begin:end]] = part
        return write_folder(replace(graph, features=x, split=split, name="mixed"), place / "mixed")

    return write


@pytest.fixture(scope="session")
def one_thread() -> Iterator[None]:
    """Threads change the order of sums, and several on a shared machine cost more than they give."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def tiny(
    write_feature_folder: Callable[..., Path], tmp_path_factory: pytest.TempPathFactory, one_thread: None
) -> Iterator[Tiny]:
    """Runs federations on tiny graphs, over a grid that can meddle; in memory where there is some for files.

    Members of secure sums wait until their files are on disk, which here would be most of the time.
    """
    with ExitStack() as stack:
        base = tmp_path_factory.mktemp("tiny")
        if os.access(MEMORY, os.W_OK):
            base = Path(stack.enter_context(TemporaryDirectory(dir=MEMORY)))
        (base / "data").mkdir()
        yield Tiny(write_feature_folder, base / "data", lambda: Path(mkdtemp(dir=base)))
