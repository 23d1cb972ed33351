"""The caches on disk: lossless, safe among processes, honest about damage."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedtag.client.text.cache import EncodedText, TextCache, text_key
from fedtag.client.text.store import ContentStore, content_key
from fedtag.common.errors import RunError

REPOSITORY = Path(__file__).resolve().parents[4]


def encoded(chunks: int, dimension: int = 5, seed: int = 0) -> EncodedText:
    generator = torch.Generator().manual_seed(seed)
    return EncodedText(
        torch.arange(chunks),
        torch.arange(chunks) + (1 << 40),
        torch.arange(chunks, dtype=torch.int32),
        torch.randn(chunks, dimension, generator=generator),
        torch.randn(dimension, generator=generator),
    )


def same(a: EncodedText, b: EncodedText) -> bool:
    return all(torch.equal(getattr(a, name), getattr(b, name)) for name in vars(a))


def test_entries_come_back_bit_for_bit(tmp_path: Path) -> None:
    cache = TextCache(tmp_path / "deep" / "folder" / "texts.sqlite")
    entries = {content_key(n): encoded(n, seed=n) for n in range(4)}
    assert cache.get_many(list(entries)) == {}
    assert not cache.path.exists()
    cache.put_many(entries)
    found = TextCache(cache.path).get_many([content_key(99), *entries])
    assert found.keys() == entries.keys()
    assert all(same(found[key], entries[key]) for key in entries)
    assert len(cache) == 4


def test_an_entry_never_changes(tmp_path: Path) -> None:
    store = ContentStore(tmp_path / "s", "text")
    store.put_many({b"k" * 32: b"first"})
    store.put_many({b"k" * 32: b"second", b"l" * 32: b""})
    assert store.get_many([b"k" * 32, b"l" * 32]) == {b"k" * 32: b"first", b"l" * 32: b""}


def test_a_key_depends_on_every_part() -> None:
    base = ("text", "revision", 64, "float32")
    changes = [("texts", *base[1:]), (base[0], "r", 64, "float32"), ("text", "revision", 63, "float32")]
    keys = {text_key(*base), *(text_key(*change) for change in changes), text_key(*base[:3], "bfloat16")}
    assert len(keys) == 5


@given(st.lists(st.text(max_size=3), max_size=3), st.lists(st.text(max_size=3), max_size=3))
def test_different_parts_have_different_keys(a: list[str], b: list[str]) -> None:
    assert (content_key(*a) == content_key(*b)) == (a == b)
    assert content_key(1) != content_key("1")
    assert len(content_key("\ud800")) == 32


def write_many(path: str, first: int, kind: str) -> None:
    store = ContentStore(Path(path), kind)
    for n in range(first, first + 40):
        store.put_many({content_key(n, part): bytes([part]) * 2000 for part in range(10)})


def test_processes_write_at_once_and_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "shared.sqlite"
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    workers = [context.Process(target=write_many, args=(str(path), first, "text")) for first in (0, 20, 40)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    keys = [content_key(n, part) for n in range(80) for part in range(10)]
    assert len(ContentStore(path, "text").get_many(keys)) == 800


def test_a_process_killed_while_writing_leaves_whole_transactions(tmp_path: Path) -> None:
    path = tmp_path / "killed.sqlite"
    script = (
        "import sys; from pathlib import Path\n"
        "from fedtag.client.text.store import ContentStore, content_key\n"
        "store = ContentStore(Path(sys.argv[1]), 'text')\n"
        "for n in range(10**6): store.put_many({content_key(n, p): bytes(20000) for p in range(50)})\n"
    )
    for _ in range(3):
        with subprocess.Popen([sys.executable, "-c", script, str(path)], cwd=REPOSITORY) as writer:
            deadline = time.monotonic() + 30
            size = path.stat().st_size if path.exists() else 0
            while time.monotonic() < deadline and not (path.exists() and path.stat().st_size > size):
                time.sleep(0.005)
            time.sleep(0.05)
            os.kill(writer.pid, signal.SIGKILL)
        store = ContentStore(path, "text")
        assert len(store) > 0
        assert len(store) % 50 == 0
        with sqlite3.connect(path) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        connection.close()


def test_an_unfinished_write_is_invisible_and_leaves_no_trace(tmp_path: Path) -> None:
    store = ContentStore(tmp_path / "s", "text")
    store.put_many({content_key(0): b"a"})
    connection = sqlite3.connect(store.path, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")  # another process in mid-write
    connection.execute("INSERT INTO entries VALUES (x'00', 0, x'00')")
    assert store.get_many([content_key(0)]) == {content_key(0): b"a"}
    connection.close()
    store.put_many({content_key(1): b"b"})
    assert len(store) == 2


def test_foreign_files_are_refused(tmp_path: Path) -> None:
    text = tmp_path / "text.sqlite"
    text.write_text("this is no database " * 100)
    with pytest.raises(RunError, match=r"the text cache .*text\.sqlite is damaged or no cache.*delete it"):
        TextCache(text).get_many([content_key(0)])
    with pytest.raises(RunError, match="delete it"):
        TextCache(text).put_many({content_key(0): encoded(1)})

    foreign = tmp_path / "foreign.sqlite"
    connection = sqlite3.connect(foreign)
    connection.execute("CREATE TABLE entries (name TEXT)")
    connection.close()
    with pytest.raises(RunError, match="another kind or version: delete it"):
        TextCache(foreign).get_many([content_key(0)])

    other = ContentStore(tmp_path / "summaries.sqlite", "summary")
    other.put_many({content_key(0): b"{}"})
    with pytest.raises(RunError, match="another kind or version"):
        TextCache(other.path).get_many([content_key(0)])


def test_damage_is_noticed(tmp_path: Path) -> None:
    cache = TextCache(tmp_path / "c.sqlite")
    cache.put_many({content_key(n): encoded(3, 300, n) for n in range(30)})
    whole = cache.path.read_bytes()

    vector = encoded(3, 300, 7).document.numpy().tobytes()[:200]
    flipped = whole.replace(vector, bytes(200))
    assert flipped != whole
    cache.path.write_bytes(flipped)
    with pytest.raises(RunError, match="is damaged: delete it"):
        cache.get_many([content_key(n) for n in range(30)])

    cache.path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(RunError, match="delete it"):
        cache.get_many([content_key(n) for n in range(30)])

    cache.path.write_bytes(whole)
    ContentStore(cache.path, "text").put_many({content_key("short"): b"123"})
    with pytest.raises(RunError, match="is damaged: delete it"):
        cache.get_many([content_key("short")])


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RunError, match=r"cannot be made \(File exists\): set cache"):
        TextCache(tmp_path / "file" / "c.sqlite").put_many({content_key(0): encoded(1)})
    with pytest.raises(RunError, match=r"cannot be used"):
        TextCache(tmp_path).put_many({content_key(0): encoded(1)})
