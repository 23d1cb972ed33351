"""A second start encodes nothing and loads no weights; a changed node is encoded alone."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from fedtag.client.data.folder import read_folder
from fedtag.client.data.writing import write_folder
from fedtag.client.run.site_run import SiteRun
from fedtag.client.site.site import Site
from fedtag.common.config import RunConfig
from fedtag.common.wire.codec import decode_reply

if TYPE_CHECKING:
    from tests.integration.conftest import Federated

REPOSITORY = Path(__file__).resolve().parents[2]
START = """
import json, sys
from pathlib import Path
from fedtag.client.run.site_run import SiteRun
from fedtag.client.site.site import Site
from fedtag.common.config import RunConfig
folder, cache = map(Path, sys.argv[1:])
session = SiteRun(Site("one", folder, folder, cache, "cpu"), RunConfig.from_flat({"device": "cpu"}))
dimension = session.data.graph.x.shape[1]
print(json.dumps({
    "dimension": dimension,
    "encoded": session.data.encoded,
    "loaded": sorted(set(sys.modules) & {"sentence_transformers", "transformers"}),
}))
"""


def start(folder: Path, cache: Path) -> dict[str, object]:
    """A start of a site in a process of its own."""
    command = [sys.executable, "-c", START, str(folder), str(cache)]
    done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=True, timeout=180)
    report: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return report


def opened(folder: Path, cache: Path) -> SiteRun:
    session = SiteRun(Site("one", folder, folder, cache, "cpu"), RunConfig.from_flat({"device": "cpu"}))
    assert session.data.bank.num_nodes == session.data.text_graph.num_nodes
    return session


def introductions(run: Federated) -> list[dict[str, object]]:
    """What clients said of themselves; instructions and replies were sent in turn."""
    replies = [decode_reply(parcel.open().content, float("inf")) for parcel in run.parcels[1::2]]
    return [
        reply.content.values["introduction"] for reply in replies if "introduction" in reply.content.values
    ]


def test_second_run_on_the_same_texts_encodes_nothing(
    dance_run: Federated,
    dance_settings: dict[str, object],
    run_federation: Callable[..., Federated],
    tmp_path: Path,
) -> None:
    again = run_federation(tmp_path / "run", {**dance_settings, "rounds": 1, "clients": 2})
    told = introductions(again)
    assert len(told) == 2
    assert all(one["encoded_chunks"] == one["encoded_tokens"] == 0 for one in told)
    assert again.summary.encoder_tokens == 0
    assert dance_run.summary.encoder_tokens is not None
    assert [set(one) for one in told] == [set(one) for one in introductions(dance_run)][:2]


def test_second_start_loads_no_weights(text_folder: Callable[..., Path], tmp_path: Path) -> None:
    texts = ["Graphs join what belongs together.", "Text says why.", "", "Graphs join what belongs together."]
    folder, cache = text_folder(tmp_path / "site", texts), tmp_path / "cache"
    first, second = start(folder, cache), start(folder, cache)
    assert first["dimension"] == second["dimension"] == 384
    assert first["encoded"]["chunks"] == 2  # type: ignore[index]
    assert "transformers" in first["loaded"]  # type: ignore[operator]
    assert second["encoded"] == {"chunks": 0, "tokens": 0}
    assert second["loaded"] == []


def test_a_changed_node_is_encoded_alone(text_folder: Callable[..., Path], tmp_path: Path) -> None:
    texts = [
        f"Node {number} tells of {thing}." for number, thing in enumerate(("oaks", "rain", "ships", "ice"))
    ]
    folder, cache = text_folder(tmp_path / "site", texts), tmp_path / "cache"
    first = opened(folder, cache)
    assert first.data.encoded["chunks"] == 4
    graph = read_folder(folder).graph
    changed = (
        *texts[:2],
        "Node 2 tells of sails. " + "It has more to say about wind and water. " * 12,
        texts[3],
    )
    write_folder(replace(graph, texts=changed), folder)
    second = opened(folder, cache)
    own = int(second.data.bank.ptr[3] - second.data.bank.ptr[2])
    assert own > 1
    assert second.data.encoded["chunks"] == own
    untouched = torch.tensor([0, 1, 3])
    assert torch.equal(first.data.bank.document[untouched], second.data.bank.document[untouched])
    assert not torch.allclose(first.data.bank.document[2], second.data.bank.document[2], atol=1e-3)


def test_other_chunk_limits_are_other_entries(text_folder: Callable[..., Path], tmp_path: Path) -> None:
    folder, cache = text_folder(tmp_path / "site", ["One sentence. " * 30, "Short."]), tmp_path / "cache"
    site = Site("one", folder, folder, cache, "cpu")
    wide, narrow, again = (
        SiteRun(site, RunConfig.from_flat({"device": "cpu", "text.chunk-tokens": limit}))
        for limit in (64, 16, 64)
    )
    assert wide.data.bank.vectors.shape[0] < narrow.data.bank.vectors.shape[0]
    assert int(narrow.data.bank.tokens.max()) <= 16
    assert narrow.data.encoded["chunks"] == narrow.data.bank.vectors.shape[0]
    assert torch.equal(again.data.bank.vectors, wide.data.bank.vectors)
    assert again.data.encoded["chunks"] == 0
