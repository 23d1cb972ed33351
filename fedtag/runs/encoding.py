"""Encoding the texts of a folder before any run asks for them."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

import torch

from fedtag.client.context.progress import progress_of
from fedtag.client.data.folder import read_folder
from fedtag.client.text.node_texts import text_bank
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
    graph = read_folder(folder, require_training=False).graph
    if graph.features is not None:
        raise DataError(
            f"{folder} has features.npy, which is used in place of encoded texts: there is nothing to encode"
        )
    name = device if device != "auto" else "cuda" if torch.cuda.is_available() else "cpu"
    start = time.monotonic()
    report = progress_of(progress.work(graph.name), "encoding texts")
    built = text_bank(graph, text or TextConfig(), name, cache or cache_folder(), report)
    nodes = sum(bool(one.strip()) for one in graph.texts)
    seconds = time.monotonic() - start
    return Encoded(nodes, built.cached_nodes, built.encoded_chunks, built.encoded_tokens, seconds)
