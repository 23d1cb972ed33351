from __future__ import annotations

import inspect
import os
import subprocess
import sys
import warnings
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import scipy

from fedtag.client.data.pydocs import read_pydocs
from fedtag.client.data.text_graph import TEST, TRAIN, VAL
from fedtag.common.errors import DataError


@pytest.fixture(scope="module")
def graph():
    return read_pydocs().graph


def object_of(name):
    module, _, attribute = name.rpartition(".")
    return getattr(import_module(module), attribute)


def test_name_carries_the_version(graph):
    assert graph.name == f"pydocs (SciPy {scipy.__version__})"


def test_every_node_is_a_distinct_documented_public_object(graph):
    objects = [object_of(name) for name in graph.node_ids]
    assert len({id(value) for value in objects}) == graph.num_nodes > 1000
    assert all(callable(value) and value.__doc__ for value in objects)
    assert not [name for name in graph.node_ids if any(part.startswith("_") for part in name.split("."))]
    assert list(graph.node_ids) == sorted(graph.node_ids)
    assert {"scipy.linalg.svd", "scipy.special.jv", "scipy.stats.ttest_ind", "scipy.spatial.KDTree"} <= set(
        graph.node_ids
    )


def test_texts_leave_the_answer_out(graph):
    assert min(len(text) for text in graph.texts) > 0
    headers = {"See Also", "Examples", "References"}
    assert not [text for text in graph.texts if headers & set(text.splitlines())]


def test_edges_are_what_the_documentation_says(graph):
    row = {name: index for index, name in enumerate(graph.node_ids)}
    edges = {frozenset(edge) for edge in graph.edges.tolist()}
    assert frozenset((row["scipy.linalg.svd"], row["scipy.linalg.svdvals"])) in edges
    assert frozenset((row["scipy.stats.qmc.Sobol"], row["scipy.stats.qmc.QMCEngine"])) in edges
    assert frozenset((row["scipy.linalg.svd"], row["scipy.stats.ttest_ind"])) not in edges
    for a, b in graph.edges.tolist():
        first, second = object_of(graph.node_ids[a]), object_of(graph.node_ids[b])
        assert (
            {*names_in(first)} & paths_of(second)
            or {*names_in(second)} & paths_of(first)
            or related(first, second)
        )


def names_in(value):
    words = (
        inspect.getdoc(value).replace("`", " ").replace(",", " ").replace("~", " ").replace(":", " ").split()
    )
    parts = [word.strip("().<>;") for word in words]
    return {piece for part in parts for piece in part.split(".")}


def paths_of(value):
    """All names under which an object is public."""
    modules = [
        module for name, module in sys.modules.items() if name.startswith("scipy") and "._" not in name
    ]
    if not paths_of_cache:
        for module in modules:
            for name in getattr(module, "__all__", ()):
                if name in vars(module):
                    paths_of_cache.setdefault(id(vars(module)[name]), set()).add(name)
    return paths_of_cache[id(value)]


paths_of_cache: dict[int, set[str]] = {}


def related(first, second):
    classes = isinstance(first, type) and isinstance(second, type)
    return classes and (issubclass(first, second) or issubclass(second, first))


def test_labels_are_sub_packages_of_twenty(graph):
    groups = [".".join(name.split(".")[: min(2, name.count("."))]) for name in graph.node_ids]
    for name, group, label in zip(graph.node_ids, groups, graph.labels, strict=True):
        assert (graph.classes[label] == group) if label >= 0 else groups.count(group) < 20, name
    assert all(groups.count(name) >= 20 for name in graph.classes)
    assert "scipy.stats" in graph.classes


def test_split_is_stratified(graph):
    for label in range(len(graph.classes)):
        counts = np.bincount(graph.split[graph.labels == label], minlength=4)
        size = counts.sum()
        assert counts[0] == 0
        assert [counts[TRAIN], counts[VAL], counts[TEST]] == pytest.approx(
            [0.6 * size, 0.2 * size, 0.2 * size], abs=1
        )


def test_brief_texts_are_first_paragraphs_of_what_is_linked_and_one_in_ten_is_labelled(graph):
    brief = read_pydocs(brief=True).graph
    assert brief.name == f"pydocs-brief (SciPy {scipy.__version__})"
    linked = {graph.node_ids[row] for edge in graph.edges.tolist() for row in edge}
    assert set(brief.node_ids) == linked < set(graph.node_ids)
    whole = dict(zip(graph.node_ids, graph.texts, strict=True))
    assert all(whole[name].split("\n\n")[0].split("\n \n")[0] == text for name, text in texts_of(brief))
    assert sum(len(text) for text in brief.texts) < sum(len(whole[name]) for name in linked) / 10
    assert pairs_of(brief) == pairs_of(graph)
    for label in range(len(brief.classes)):
        counts = np.bincount(brief.split[brief.labels == label], minlength=4)
        assert counts.sum() >= 20
        assert [counts[TRAIN], counts[VAL], counts[TEST]] == pytest.approx(
            [share * counts.sum() for share in (0.1, 0.1, 0.8)], abs=1
        )


def texts_of(graph):
    return zip(graph.node_ids, graph.texts, strict=True)


def pairs_of(graph):
    return {frozenset((graph.node_ids[a], graph.node_ids[b])) for a, b in graph.edges.tolist()}


def test_deterministic_and_silent(graph):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert read_pydocs().graph == graph
    assert not caught


def test_packages_that_are_not_there():
    with pytest.raises(DataError, match="'no_such_package' cannot be imported"):
        read_pydocs(["scipy", "no_such_package"])
    with pytest.raises(DataError, match="No sub-package of jinja2"):
        read_pydocs(["jinja2"])


def test_the_graph_is_the_same_in_every_process() -> None:
    program = (
        "import hashlib; from fedtag.client.data.pydocs import read_pydocs; g = read_pydocs().graph; "
        "print(hashlib.sha256(repr((g.node_ids, g.texts, g.edges.tolist())).encode()).hexdigest())"
    )
    digests = {
        subprocess.run(
            [sys.executable, "-W", "ignore", "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=Path(__file__).resolve().parents[4],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(digests) == 1
