"""Federations on the whole of Cora's texts whose encoding is not what is measured."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import pytest
import torch
from jaxtyping import config as jaxtyping_config

from fedtag.client.data.folder import read_folder
from fedtag.client.run.simulated import simulate_sites
from fedtag.client.run.site_run import SiteRun
from fedtag.client.text.cache import EncodedText, TextCache, text_key
from fedtag.client.text.chunks import chunk_texts
from fedtag.client.text.encoder import Encoder
from fedtag.client.text.node_texts import CACHE_FILE
from fedtag.common.config import RunConfig
from fedtag.common.graph import Graph
from fedtag.common.homes import cache_folder
from fedtag.runs.grid import InProcessGrid
from fedtag.server.run.rounds import Rounds
from fedtag.server.tracking.rows import RoundRow
from fedtag.server.tracking.run_directory import RunDirectory

DIMENSION = 384


@dataclass
class RoundClock:
    """CPU time at the end of each round; it takes the place of a progress display."""

    ends: list[float] = field(default_factory=list)

    def begin(self, total: int, done: int) -> None:
        self.ends.append(time.process_time())

    def advance(self, row: RoundRow) -> None:
        self.ends.append(time.process_time())

    def scored(self, row: RoundRow) -> None: ...

    def note(self, text: str, told: Mapping[str, Any] | None = None) -> None: ...


@dataclass(frozen=True)
class Cost:
    """CPU seconds of a run, imports and encoding left out.

    `typical` is the median round, `whole` everything from the first message to the report, over the rounds;
    `graphs` are those of the clients.
    """

    typical: float
    whole: float
    rows: tuple[RoundRow, ...]
    graphs: tuple[Graph, ...]

    def phases(self) -> dict[str, float]:
        """Median wall seconds of each phase of a round."""
        names = sorted({name for row in self.rows for name in row.seconds_by_phase})
        return {name: median(row.seconds_by_phase.get(name, 0.0) for row in self.rows[1:]) for name in names}


@pytest.fixture(scope="session", autouse=True)
def as_in_production() -> Iterator[None]:
    """One thread, and no checks of shapes at every call, which other tests have."""
    before, checked = torch.get_num_threads(), jaxtyping_config.jaxtyping_disable
    torch.set_num_threads(1)
    jaxtyping_config.update("jaxtyping_disable", True)
    yield
    jaxtyping_config.update("jaxtyping_disable", checked)
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def unencoded(shared_data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Path]]:
    """Gives a folder of the shared data whose texts are in a cache: true chunks with random unit vectors.

    Real vectors take minutes to compute, and what is measured does not depend on their values.
    """
    encoder = Encoder("bundled", "cpu")
    generator = torch.Generator().manual_seed(0)

    def encoded(starts: list[int], ends: list[int], tokens: list[int]) -> EncodedText:
        unit = torch.randn(len(starts) + 1, DIMENSION, generator=generator)
        unit /= unit.norm(dim=1, keepdim=True)
        return EncodedText(
            *(torch.tensor(column) for column in (starts, ends)),
            torch.tensor(tokens, dtype=torch.int32),
            unit[:-1],
            unit[-1],
        )

    def known(name: str) -> Path:
        folder = shared_data / name
        if not folder.is_dir():
            pytest.skip(f"the shared data has no {name}")
        texts = sorted({text for text in read_folder(folder).graph.texts if text})
        entries = {
            text_key(text, encoder.revision, 64, encoder.dtype): encoded(
                [chunk.start for chunk in chunks],
                [chunk.end for chunk in chunks],
                [chunk.tokens for chunk in chunks],
            )
            for text, chunks in zip(texts, chunk_texts(texts, encoder.tokenizer, 64), strict=True)
        }
        TextCache(cache_folder() / CACHE_FILE).put_many(entries)
        return folder

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("FEDTAG_CACHE", str(tmp_path_factory.mktemp("encoded") / "cache"))
        yield known


@pytest.fixture(scope="session")
def cora_texts(unencoded: Callable[[str], Path]) -> Path:
    """Cora's folder, with random vectors in place of encoded texts."""
    return unencoded("cora_text")


@pytest.fixture(scope="session")
def cost_of(cora_texts: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Cost]:
    """Runs a federation on Cora in this process and tells what it cost; a first round warms up."""

    def once(settings: dict[str, object]) -> Cost:
        out = tmp_path_factory.mktemp("run") / "run"
        flat = {"device": "cpu", "data.source": str(cora_texts), "out": str(out), **settings}
        config = RunConfig.from_flat(flat)
        directory = RunDirectory(out)
        sessions = [SiteRun(site, config) for site in simulate_sites(config, out / "sites")]
        encoded = sum(session.data.graph.num_nodes and session.data.encoded["chunks"] for session in sessions)
        assert encoded == 0
        clock = RoundClock()
        rounds = Rounds(InProcessGrid(sessions), config, directory, clock)
        before = time.process_time()
        rounds.run()
        whole = time.process_time() - before
        steps = [after - start for start, after in zip(clock.ends[1:], clock.ends[2:], strict=False)]
        graphs = tuple(session.data.graph for session in sessions)
        return Cost(median(steps or [whole]), whole / config.rounds, tuple(directory.read_rounds()), graphs)

    def measured(**settings: object) -> Cost:
        dotted = {name.replace("__", ".").replace("_", "-"): value for name, value in settings.items()}
        once({**dotted, "rounds": 1})
        return once(dotted)

    return measured
