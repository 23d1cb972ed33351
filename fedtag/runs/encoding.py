"""Encoding the texts of a folder before any run asks for them."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from fedtag.client.context.site_data import SiteData
from fedtag.client.site.site import Site, name_of
from fedtag.common.errors import DataError
from fedtag.common.homes import cache_folder
from fedtag.common.settings.sections import TextConfig
from fedtag.runs.progress import LOGGED, Progress


@dataclass(frozen=True)
class Encoded:
    """What was done.

    Args:
        nodes: with a text.
        cached: of them, those whose text was encoded before.
        chunks, tokens: that the encoder read now.
        seconds: that this took, the loading of weights included.
    """

    nodes: int
    cached: int
    chunks: int
    tokens: int
    seconds: float


def encode(
    folder: Path,
    cache: Path | None = None,
    device: str = "auto",
    text: TextConfig | None = None,
    progress: Progress = LOGGED,
) -> Encoded:
    """Encode what a run of the same settings would, and leave it in the cache; what is there is not encoded again.

    Args:
        folder: of an institution.
        cache: folder of encoded texts; the usual one where None.
        device: auto, cpu, cuda, cuda:0, …
        text: encoder, its arithmetic, and chunks.
        progress: of the work.

    Raises:
        DataError: the folder breaks the contract, or has features in place of texts.
        ConfigError, WeightsError: the encoder cannot be had.
        RunError: the cache cannot be written.
    """
    site = Site(name_of(folder), folder, folder, cache or cache_folder(), device)
    data = SiteData(site, text or TextConfig(), progress=progress.work(site.name))
    if data.text_graph.features is not None:
        raise DataError(
            f"{folder} has features.npy, which is used in place of encoded texts: there is nothing to encode"
        )
    start = time.monotonic()
    found = data.encoded
    seconds = time.monotonic() - start
    nodes = sum(bool(one.strip()) for one in data.text_graph.texts)
    return Encoded(nodes, data.cached_nodes, found["chunks"], found["tokens"], seconds)
