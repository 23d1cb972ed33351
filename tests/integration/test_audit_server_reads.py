"""The server of a large site's audit page reads what it shows, and no more."""

from __future__ import annotations

import json
import threading
import urllib.request
from collections.abc import Callable, Iterator
from urllib.parse import urlencode

import pytest

from fedtag.audits import serving
from fedtag.audits.evidence import audit_site
from fedtag.audits.serving import AuditServer, audit_server
from fedtag.client.evidence.pack_table import PackTable
from fedtag.client.evidence.source_texts import SourceTexts
from fedtag.client.evidence.verification import Budgets
from fedtag.client.site.site import Site
from tests.drawn_evidence import write_site

NODES = 20_000
MOST_BYTES = 40_000
MOST_TEXTS = 60
"""That the page of one node mentions: its neighbours, and whom the selection passed over."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AuditServer]:
    folder = write_site(tmp_path_factory.mktemp("large") / "site-a", NODES, letters=200)
    audited = audit_site(Site("site-a", folder, folder, folder / "cache"), None, Budgets())
    assert audited.verification.holds
    with audit_server([audited], 50) as found:
        threading.Thread(target=found.serve_forever, daemon=True).start()
        yield found
        found.shutdown()


@pytest.fixture
def ask(server: AuditServer) -> Callable[..., bytes]:
    def ask(what: str, **query: object) -> bytes:
        address = server.addresses[0].replace("/?", f"/{what}?")
        with urllib.request.urlopen(f"{address}&{urlencode(query)}") as answer:
            return bytes(answer.read())

    return ask


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """How many packs were made and texts looked up."""
    counts = {"packs": 0, "texts": 0}
    made, text = PackTable._made, SourceTexts.text

    def counted_packs(table: PackTable, begin: int, count: int) -> object:
        counts["packs"] += count
        return made(table, begin, count)

    def counted_text(sources: SourceTexts, node: str | int) -> str | None:
        counts["texts"] += 1
        return text(sources, node)

    monkeypatch.setattr(PackTable, "_made", counted_packs)
    monkeypatch.setattr(SourceTexts, "text", counted_text)
    return counts


def test_lists_read_no_pack_and_no_text(ask: Callable[..., bytes], read: dict[str, int]) -> None:
    for what, query in (
        ("", {}),
        ("overview", {}),
        ("nodes", {}),
        ("nodes", {"only": "wrong", "order": "sure", "from": 1000}),
        ("nodes", {"label": 3, "prediction": 2}),
        ("judged", {}),
        ("verdicts", {}),
    ):
        assert len(ask(what, **query)) <= (MOST_BYTES if what else 2 * MOST_BYTES)
    assert read == {"packs": 0, "texts": 0}
    listed = json.loads(ask("nodes", only="wrong"))
    assert 1000 < listed["count"] < NODES
    assert len(listed["index"]["nodes"]) == serving.AT_ONCE


def test_a_node_reads_its_own_pack_and_whom_it_mentions(
    ask: Callable[..., bytes], read: dict[str, int]
) -> None:
    for row in (0, NODES - 1):
        read.update(packs=0, texts=0)
        answer = ask("node", row=row, only="wrong")
        assert len(answer) <= MOST_BYTES
        found = json.loads(answer)
        assert found["index"]["nodes"] == [f"paper-{row}"]
        assert found["view"]["spans"]
        assert 0 < read["packs"] <= 5
        assert 0 < read["texts"] <= MOST_TEXTS


def test_a_search_reads_a_piece_of_the_texts_in_one_answer(
    ask: Callable[..., bytes], read: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(serving, "PATIENCE", 1e-9)
    first = json.loads(ask("nodes", words="tin sea"))
    assert 0 < first["searched"] < 0.1
    assert read["texts"] < NODES / 10
    monkeypatch.setattr(serving, "PATIENCE", 60)
    last = json.loads(ask("nodes", words="tin sea"))
    assert last["searched"] == 1
    assert first["count"] < last["count"] < NODES
    assert read == {"packs": 0, "texts": NODES}
    # What was searched is not searched again.
    assert json.loads(ask("nodes", words="tin sea", **{"from": serving.AT_ONCE}))["count"] == last["count"]
    assert read["texts"] == NODES
