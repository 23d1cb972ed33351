"""`fedtag encode`: what a run would encode, before it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner

from fedtag.client.data.folder import read_folder
from fedtag.client.text.cache import TextCache
from fedtag.client.text.node_texts import CACHE_FILE
from fedtag.common.errors import DataError
from fedtag.deploy.cli import app
from fedtag.runs.encoding import encode

DEMO = "pydocs-brief"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from fedtag.client.data.sources import load_source
    from fedtag.client.data.writing import write_folder

    return write_folder(load_source(DEMO).graph, tmp_path_factory.mktemp("encode") / "site")


def test_a_run_after_it_encodes_nothing(folder: Path, tmp_path: Path) -> None:
    first = encode(folder, tmp_path)
    assert first.cached == 0
    assert first.tokens > first.chunks > 0
    again = encode(folder, tmp_path)
    assert (again.nodes, again.cached, again.chunks, again.tokens) == (first.nodes, first.nodes, 0, 0)
    other = encode(shutil.copytree(folder, tmp_path / "copy"), tmp_path)
    assert other.tokens == 0


def test_what_was_written_before_a_kill_is_not_encoded_again(folder: Path, tmp_path: Path) -> None:
    script = (
        "import sys\nfrom pathlib import Path\nfrom fedtag.runs.encoding import encode\n"
        "encode(*map(Path, sys.argv[1:]))"
    )
    file = tmp_path / CACHE_FILE
    process = subprocess.Popen([sys.executable, "-c", script, str(folder), str(tmp_path)], env=os.environ)
    until = time.monotonic() + 120
    while not (file.is_file() and _entries(folder, tmp_path)) and time.monotonic() < until:
        assert process.poll() is None, "it ended before it was killed"
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    before = _entries(folder, tmp_path)
    found = encode(folder, tmp_path)
    assert 0 < before < found.nodes
    assert found.cached >= before
    assert encode(folder, tmp_path).tokens == 0


def _entries(folder: Path, cache: Path) -> int:
    from fedtag.client.text.cache import text_key
    from fedtag.client.text.encoder import Encoder

    encoder, graph = Encoder(), read_folder(folder, require_training=False).graph
    keys = [text_key(text, encoder.revision, 64, encoder.dtype) for text in graph.texts if text.strip()]
    found = TextCache(cache / CACHE_FILE).get_many(keys)
    return sum(key in found for key in keys)


def test_the_command_says_what_it_did(folder: Path, tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["encode", str(folder), "--cache", str(tmp_path)])
    assert result.exit_code == 0
    assert "were encoded before" in result.stdout
    assert "tokens a second" in result.stdout
    wrong = CliRunner().invoke(app, ["encode", str(folder), "--chunk-tokens", "3"])
    assert wrong.exit_code != 0


def test_features_leave_nothing_to_encode(folder: Path, tmp_path: Path) -> None:
    import numpy as np

    copy = shutil.copytree(folder, tmp_path / "site")
    nodes = read_folder(copy, require_training=False).graph.num_nodes
    np.save(copy / "features.npy", np.ones((nodes, 4), np.float32))
    with pytest.raises(DataError, match="nothing to encode"):
        encode(copy, tmp_path)
