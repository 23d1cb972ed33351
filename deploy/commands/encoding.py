"""The command that prepares a site before it joins: encode."""

from pathlib import Path
from typing import Annotated

import typer

from fedtag.deploy.commands.options import Cache, Debug, Device


def encode(
    folder: Annotated[
        Path,
        typer.Argument(help="The institution's folder; what is encoded are its texts.", show_default=False),
    ],
    cache: Cache = None,
    device: Device = "auto",
    encoder: Annotated[
        str, typer.Option(help="bundled, a Hugging Face id, or a path: text.encoder of the run.")
    ] = "bundled",
    dtype: Annotated[str, typer.Option(help="auto, float32 or bfloat16: text.dtype of the run.")] = "auto",
    chunk_tokens: Annotated[
        int, typer.Option(help="Most tokens in a chunk: text.chunk-tokens of the run.")
    ] = 64,
    debug: Debug = False,
) -> None:
    """Encode the texts of a folder before it joins a run.

    Reads the folder; writes vectors into the cache, and nothing else. The cache of a site that joins over the network
    is `cache` in its workspace, unless its node configuration says another. Stopped at any moment, what is in the
    cache stays, and the same command goes on. A run of other encoder, arithmetic or chunks encodes anew.

    Example: `fedtag encode /data/hospital-a --cache /data/hospital-a/cache`
    """
    from fedtag.common.config import RunConfig
    from fedtag.common.wording.counts import plural
    from fedtag.deploy.terminal.console import results, say
    from fedtag.deploy.terminal.display import display
    from fedtag.runs import encoding

    given = {"text.encoder": encoder, "text.dtype": dtype, "text.chunk-tokens": chunk_tokens}
    text = RunConfig.from_flat(given).text
    with display(debug) as progress:
        found = encoding.encode(folder, cache, device, text, progress)
    rate = f", {found.tokens / found.seconds:,.0f} tokens a second" if found.tokens else ""
    say(results(), f"{plural(found.nodes, 'text')}: {found.cached} were encoded before")
    say(results(), f"encoded now: {plural(found.chunks, 'chunk')} of {plural(found.tokens, 'token')}{rate}")
