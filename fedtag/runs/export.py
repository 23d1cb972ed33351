"""The condensed graph of a site, written as a data folder."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import torch

from fedtag.audits.evidence import EVIDENCE
from fedtag.client.data.folder import read_folder
from fedtag.client.data.text_graph import TextGraph
from fedtag.client.data.writing import write_folder
from fedtag.client.evidence.condensed import CORE_FOLDER, chunk_texts, condensed_graph, read_links
from fedtag.client.evidence.narration import summary_request
from fedtag.client.evidence.packs import EvidencePack
from fedtag.client.evidence.store import available_rounds, read_packs, round_file
from fedtag.client.text.language_model import LanguageModel
from fedtag.client.text.summaries import SummaryCache, summarise
from fedtag.client.text.summary_vectors import SUMMARY_CACHE
from fedtag.common.config import flatten
from fedtag.common.errors import ConfigError, RunError
from fedtag.common.homes import cache_folder
from fedtag.common.settings.sections import SummariesConfig
from fedtag.runs.progress import LOGGED, Progress
from fedtag.server.tracking.recorded import recorded_config
from fedtag.server.tracking.run_directory import SITES, RunDirectory, is_run


def export(
    path: Path,
    client: str | None,
    out: Path,
    round_number: int | None = None,
    summaries: bool = False,
    data: Path | None = None,
    progress: Progress = LOGGED,
) -> TextGraph:
    """Write the core of a round, with its links and condensed texts, as a data folder.

    Args:
        path: a run directory, or the folder at a site that holds evidence/.
        client: which site of a run directory.
        out: the new folder.
        round_number: None is the last round that is kept.
        summaries: the language model's summaries of selected chunks, in place of these word for word.
        data: the site's nodes and edges, if they lie elsewhere.
        progress: of the summaries.

    Raises:
        ConfigError: options that do not go together, or `out` exists.
        RunError, DataError: there is no core, it cannot be read, or its chunks are not from the site's texts.
    """
    if out.exists():
        raise ConfigError(f"{out} is there already: name a new folder with out=")
    workspace, settings, cache = path, SummariesConfig(), path / "cache"
    if is_run(path):
        workspace, cache = _site(path, client), cache_folder()
        settings = recorded_config(path, flatten(RunDirectory.open(path).read_config())).summaries
    elif client is not None:
        raise ConfigError(f"client= chooses within a run directory, and {path} is none; leave it out")
    core = workspace / EVIDENCE / CORE_FOLDER
    rounds = available_rounds(core)
    wanted = max(rounds, default=None) if round_number is None else round_number
    if wanted is None or wanted not in rounds:
        there = ", ".join(map(str, rounds)) or "none"
        asked = "any round" if wanted is None else f"round {wanted}"
        raise RunError(f"{core} has no core of {asked}; it has {there}: name one with round=")
    packs = read_packs(round_file(core, wanted))
    site = read_folder(data or workspace, require_training=False).graph
    adjacency = read_links(core, wanted, len(packs))
    written = chunk_texts(packs, site)
    if summaries:
        written = _summaries(packs, site, settings, cache, progress)
    graph = condensed_graph(site, packs, adjacency, written)
    write_folder(graph, out)
    return graph


def _site(run: Path, client: str | None) -> Path:
    names = sorted(folder.parent.parent.name for folder in (run / SITES).glob(f"*/{EVIDENCE}/{CORE_FOLDER}"))
    if not names:
        raise RunError(f"{run} has no core in {SITES}/: only methods that condense keep one")
    if client is None and len(names) == 1:
        client = names[0]
    if client not in names:
        raise ConfigError(
            f"client {client} has no core in {run}: name one of {', '.join(names)} with client="
        )
    return run / SITES / client


def _summaries(
    packs: Sequence[EvidencePack], site: TextGraph, settings: SummariesConfig, cache: Path, progress: Progress
) -> tuple[str, ...]:
    texts = dict(zip(site.node_ids, site.texts, strict=True))
    requests = [summary_request(pack, texts, site.classes) for pack in packs]
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = LanguageModel(settings.model, device, batch_size=settings.batch, cache=cache)
    work = partial(progress.work(site.name), "writing summaries")
    summaries = summarise(requests, model, SummaryCache(cache / SUMMARY_CACHE), work)
    return tuple(summary.text for summary in summaries)
