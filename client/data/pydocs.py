"""The built-in real graph: public functions and classes of installed scientific Python packages."""

from __future__ import annotations

import importlib
import pkgutil
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import ModuleType

import numpy as np

from fedtag.client.data.docstrings import Docstring
from fedtag.client.data.splitting import resplit
from fedtag.client.data.text_graph import NONE, TextGraph, canonical_edges
from fedtag.common.errors import DataError
from fedtag.common.settings.lists import listed
from fedtag.common.wording.split import USUAL

PYDOCS, BRIEF = "pydocs", "pydocs-brief"
"""How the graph is called where data are named: with whole docstrings, and with their first paragraphs."""
FEW = (0.1, 0.1, 0.8)
"""Shares of each class that train, validate and test where texts are brief: the rest must come from the links."""
TITLES = {"scipy": "SciPy", "numpy": "NumPy", "sklearn": "scikit-learn", "networkx": "NetworkX"}
# Tests, build tools and vendored copies of other packages.
NOT_PUBLIC = {"tests", "testing", "conftest", "setup", "distutils", "externals"}
SMALLEST_CLASS = 20
PARAGRAPH = re.compile(r"\n\s*\n")


@dataclass(frozen=True)
class Pydocs:
    """The graph, and the public modules that could not be imported on this machine."""

    graph: TextGraph
    skipped: tuple[str, ...]


@dataclass(frozen=True)
class _Catalogue:
    """Public objects by canonical name; the canonical name of each object's identity and of each public path."""

    objects: dict[str, object]
    names: dict[int, str]
    canonical: dict[str, str]
    skipped: tuple[str, ...]


def is_pydocs(source: str) -> bool:
    """Whether data of this name are built from installed packages."""
    return source.partition(":")[0] in (PYDOCS, BRIEF)


def packages_of(source: str) -> Sequence[str]:
    """The packages that pydocs:PACKAGE,PACKAGE names; SciPy where it names none.

    Raises:
        ConfigError: a name is empty.
    """
    name, _, packages = source.partition(":")
    return listed(packages, f"{name}:") or ("scipy",)


def read_pydocs(packages: Sequence[str] = ("scipy",), brief: bool = False) -> Pydocs:
    """Builds the graph from what is installed; the same versions give the same graph.

    Nodes are functions and classes that a public module lists in `__all__`; an object with several
    names counts once, under the shortest. Text is the docstring without signature and without the
    sections See Also, Examples and References. Edges join an object with what its docstring refers to
    (See Also entries, roles such as :func:, names between backticks) and with its public base classes.
    The label is the sub-package, where it has at least 20 members. The split is 0.6, 0.2, 0.2 per class.

    Brief texts are the first paragraphs; then one in ten of each class trains and one in ten validates, and what has
    no edge is left out: little is said of each, and its neighbours say the rest.

    Args:
        packages: importable packages, e.g. scipy, numpy, sklearn.
        brief: cut texts to their first paragraph.

    Raises:
        DataError: if a package is not installed or none of its sub-packages is large enough.
    """
    # Deprecated names warn when they are looked at; that concerns the packages, not the reader.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        modules = [_imported(package) for package in packages]
        catalogue = _catalogue(modules)
        names = sorted(catalogue.objects)
        docs = [Docstring.of(catalogue.objects[name]) for name in names]
        groups = [_sub_package(name) for name in names]
        row_of = {name: row for row, name in enumerate(names)}
        pairs = [
            (row, row_of[other])
            for row, (name, doc) in enumerate(zip(names, docs, strict=True))
            for other in _references(name, catalogue, doc)
        ]
    edges, weights, _, _ = canonical_edges(
        np.array(pairs, np.int64).reshape(-1, 2), np.ones(len(pairs), np.float32), directed=False
    )
    texts = [doc.text for doc in docs]
    if brief:
        linked = np.unique(edges)
        names, texts, groups = ([every[row] for row in linked] for every in (names, texts, groups))
        texts = [PARAGRAPH.split(text, 1)[0] for text in texts]
        edges = np.searchsorted(linked, edges)
    sizes = {group: groups.count(group) for group in set(groups)}
    classes = tuple(sorted(group for group, size in sizes.items() if size >= SMALLEST_CLASS))
    if not classes:
        raise DataError(
            f"No sub-package of {', '.join(packages)} has {SMALLEST_CLASS} documented members; "
            "name a larger package, e.g. pydocs:scipy."
        )
    index_of = {group: index for index, group in enumerate(classes)}
    versions = ", ".join(
        f"{TITLES.get(module.__name__, module.__name__)} {getattr(module, '__version__', 'of unknown version')}"
        for module in modules
    )
    graph = TextGraph(
        name=f"{BRIEF if brief else PYDOCS} ({versions})",
        node_ids=tuple(names),
        texts=tuple(texts),
        labels=np.array([index_of.get(group, -1) for group in groups], np.int64),
        split=np.full(len(names), NONE, np.int8),
        edges=edges,
        edge_weights=weights,
        classes=classes,
    )
    return Pydocs(resplit(graph, FEW if brief else USUAL, seed=0), catalogue.skipped)


def _imported(package: str) -> ModuleType:
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise DataError(
            f"pydocs: the package {package!r} cannot be imported ({error}); install it or leave it out."
        ) from error


def _public_modules(package: ModuleType, skipped: list[str]) -> Iterator[ModuleType]:
    """The package and its public modules; those that do not import are noted in `skipped`."""
    yield package
    for entry in sorted(pkgutil.iter_modules(getattr(package, "__path__", ())), key=lambda entry: entry.name):
        if entry.name.startswith("_") or entry.name in NOT_PUBLIC:
            continue
        name = f"{package.__name__}.{entry.name}"
        try:
            module = importlib.import_module(name)
        except Exception:
            # An optional module may fail in any way where what it wraps is not installed.
            skipped.append(name)
            continue
        yield from _public_modules(module, skipped)


def _catalogue(packages: Sequence[ModuleType]) -> _Catalogue:
    skipped: list[str] = []
    paths: dict[int, list[str]] = {}
    found: dict[int, object] = {}
    for package in packages:
        for module in _public_modules(package, skipped):
            for name in getattr(module, "__all__", ()):
                # A module's own names only: deprecated ones are made up on demand by __getattr__.
                value = vars(module).get(name)
                if name.startswith("_") or not _is_documented(value, package.__name__):
                    continue
                found[id(value)] = value
                paths.setdefault(id(value), []).append(f"{module.__name__}.{name}")
    objects, names, canonical = {}, {}, {}
    for key, value in found.items():
        called = getattr(value, "__name__", "")
        own = min(paths[key], key=lambda path: (path.count("."), not path.endswith(f".{called}"), path))
        objects[own] = value
        names[key] = own
        canonical.update(dict.fromkeys(paths[key], own))
    return _Catalogue(objects, names, canonical, tuple(skipped))


def _is_documented(value: object, package: str) -> bool:
    """Whether it is a function or class of the package with a docstring.

    Compiled functions and ufuncs have a name too; instances have none.
    """
    if not (callable(value) and isinstance(getattr(value, "__name__", None), str)):
        return False
    home = getattr(value, "__module__", None)
    own = not isinstance(home, str) or home.partition(".")[0] in (package, "builtins")
    doc = getattr(value, "__doc__", None)
    return own and isinstance(doc, str) and bool(doc.strip())


def _sub_package(name: str) -> str:
    """scipy.stats for scipy.stats.qmc.Sobol; the package itself for what stands directly in it."""
    parts = name.split(".")
    return ".".join(parts[: min(2, len(parts) - 1)])


def _references(name: str, catalogue: _Catalogue, doc: Docstring) -> Iterator[str]:
    """Canonical names of the public objects that an object refers to."""
    scopes = name.split(".")[:-1]
    for reference in doc.references:
        target = _resolved(reference, scopes, catalogue.canonical)
        if target:
            yield target
    value = catalogue.objects[name]
    if isinstance(value, type):
        yield from _public_bases(value, catalogue.names)


def _resolved(reference: str, scopes: Sequence[str], canonical: dict[str, str]) -> str | None:
    """Looks a name up as it is, then in the module of the docstring and those around it.

    A method or attribute stands for its class.
    """
    candidates = [reference, *(".".join([*scopes[:depth], reference]) for depth in range(len(scopes), 0, -1))]
    for candidate in candidates:
        if candidate in canonical:
            return canonical[candidate]
    for candidate in candidates if "." in reference else ():
        owner = candidate.rpartition(".")[0]
        if owner in canonical:
            return canonical[owner]
    return None


def _public_bases(value: type, names: dict[int, str]) -> Iterator[str]:
    """The nearest public classes above, through private ones."""
    for base in value.__bases__:
        if id(base) in names:
            yield names[id(base)]
        else:
            yield from _public_bases(base, names)
