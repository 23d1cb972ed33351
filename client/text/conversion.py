"""A .gguf model unpacked once into a folder that transformers loads in seconds."""

from __future__ import annotations

import contextlib
import io
import shutil
import tempfile
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock

from fedtag.client.text.weights import loading


def converted(source: Path, target: Path) -> Path:
    """The folder `target` with the model of `source`: float32 weights and the tokenizer, bit for bit.

    It is made at the first call, which takes about 25 s for 135 M parameters, and appears complete or not
    at all. Of several processes one makes it while the others wait.

    Args:
        source: a .gguf file that has been verified.
        target: named by the digest of `source`, since an existing folder is taken as it is.

    Raises:
        WeightsError: the file is no model that transformers reads, or the folder cannot be written.
    """
    with loading("language model", target):
        if target.is_dir():
            return target
        target.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{target}.lock"):
            if not target.is_dir():
                _write(source, target)
    return target


def _write(source: Path, target: Path) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    staging = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}-"))
    try:
        # The reader of .gguf files draws a bar on stderr that no setting turns off.
        with contextlib.redirect_stderr(io.StringIO()):
            read: Any = AutoModelForCausalLM.from_pretrained(
                str(source.parent), gguf_file=source.name, dtype=torch.float32
            )
            tokenizer: Any = AutoTokenizer.from_pretrained(str(source.parent), gguf_file=source.name)
            settings = read.config.to_dict()
            settings.pop("quantization_config", None)
            with torch.device("meta"):
                plain: Any = AutoModelForCausalLM.from_config(type(read.config)(**settings))
            # A model that was read from .gguf refuses to be saved, though its weights are plain float32.
            plain.load_state_dict(read.state_dict(), assign=True)
            plain.tie_weights()
            plain.generation_config = read.generation_config
            plain.save_pretrained(staging)
            tokenizer.save_pretrained(staging)
        staging.rename(target)
    finally:
        shutil.rmtree(staging, ignore_errors=True)
