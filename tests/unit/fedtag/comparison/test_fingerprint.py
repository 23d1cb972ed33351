"""Fingerprints of data: another one for every change that matters, the same for what does not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import scipy

from fedtag.comparison.fingerprint import fingerprint_of, parts_of


@pytest.mark.parametrize("name", ["nodes.csv", "edges.csv", "meta.json", "features.npy"])
def test_every_file_of_a_folder_counts(
    name: str, tmp_path: Path, write_feature_folder: Callable[..., Path]
) -> None:
    folder = write_feature_folder(tmp_path / "site")
    before = fingerprint_of(str(folder))
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content + b" ")
    assert fingerprint_of(str(folder)) != before
    (folder / name).write_bytes(content)
    assert fingerprint_of(str(folder)) == before


def test_files_that_come_and_go_count_if_they_are_data(
    tmp_path: Path, write_feature_folder: Callable[..., Path]
) -> None:
    folder = write_feature_folder(tmp_path / "site")
    before = fingerprint_of(str(folder))
    (folder / "README.md").write_text("notes")
    (folder / ".lock").touch()
    assert fingerprint_of(str(folder)) == before
    (folder / "cross_edges.csv").touch()
    assert fingerprint_of(str(folder)) != before
    (folder / "cross_edges.csv").unlink()
    (folder / "nodes.csv").rename(folder / "nodes.jsonl")
    assert fingerprint_of(str(folder)) != before


def test_all_of_several_sources_count_in_their_order(
    tmp_path: Path, write_feature_folder: Callable[..., Path]
) -> None:
    a, b = (str(write_feature_folder(tmp_path / name, seed=seed)) for seed, name in enumerate("ab"))
    joined = fingerprint_of(f"{a};{b}")
    assert joined == fingerprint_of(f"{a} ; {b}")
    assert len({joined, fingerprint_of(f"{b};{a}"), fingerprint_of(a), fingerprint_of(b)}) == 4
    (tmp_path / "b" / "nodes.csv").write_text("other")
    assert fingerprint_of(f"{a};{b}") != joined


def test_a_file_counts_by_its_content(tmp_path: Path) -> None:
    one, two = tmp_path / "one.npz", tmp_path / "two.npz"
    one.write_bytes(b"graph")
    two.write_bytes(b"graph")
    assert fingerprint_of(str(one)) == fingerprint_of(str(two))
    two.write_bytes(b"other")
    assert fingerprint_of(str(one)) != fingerprint_of(str(two))


def test_built_in_graphs_count_by_version_and_public_sets_by_name() -> None:
    assert parts_of("pydocs") == ["pydocs", f"scipy: scipy {scipy.__version__}"]
    assert parts_of("pydocs-brief") == ["pydocs-brief", f"scipy: scipy {scipy.__version__}"]
    assert "scikit-learn" in parts_of("pydocs:sklearn")[1]
    assert "Python 3" in parts_of("pydocs:email")[1]
    assert fingerprint_of("Cora") == fingerprint_of("cora") != fingerprint_of("pubmed")
