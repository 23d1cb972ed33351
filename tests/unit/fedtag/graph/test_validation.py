from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from fedtag.common.errors import DataError
from fedtag.graph.validation import SPLITS, UNLABELLED, ClassCount, validate_sources


def test_classes_are_counted_by_split(write_feature_folder: Callable[..., Path], tmp_path: Path) -> None:
    folder = write_feature_folder(tmp_path / "site", nodes=30)
    table = folder / "nodes.csv"
    # Of the 30 nodes every third is an "a"; one of them loses its label, another its split.
    lines = table.read_text().splitlines()
    lines[1] = lines[1].replace(",a,train", ",,")
    lines[4] = lines[4].replace(",a,train", ",a,")
    table.write_text("\n".join(lines) + "\n")
    (found,) = validate_sources([str(folder)])
    assert SPLITS == ("train", "val", "test", "none")
    assert found.classes == (
        ClassCount("a", (4, 2, 2, 1)),
        ClassCount("b", (6, 2, 2, 0)),
        ClassCount("c", (6, 2, 2, 0)),
        ClassCount(UNLABELLED, (0, 0, 0, 1)),
    )
    assert found.repairs.empty_texts == 0


def test_every_problem_is_named(write_feature_folder: Callable[..., Path], tmp_path: Path) -> None:
    folder = write_feature_folder(tmp_path / "site")
    (folder / "edges.csv").write_text("src,dst\n1,nobody\n")
    (folder / "meta.json").write_text("{}")
    with pytest.raises(DataError) as caught:
        validate_sources([str(folder)])
    assert len(caught.value.problems) >= 2
