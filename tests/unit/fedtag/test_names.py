"""The project is one importable name, and its public names stay what they are."""

from __future__ import annotations

import doctest
import importlib
import importlib.util
import subprocess
import sys
from pathlib import Path
from types import GenericAlias, ModuleType

import pytest

import fedtag

REPOSITORY = Path(__file__).resolve().parents[3]
FOLDERS = ("client", "common", "deploy", "server")
ALL_SIDES = "fedtag.client.app, fedtag.deploy.cli, fedtag.runs.course, fedtag.server.app"


def overwritten(package: ModuleType) -> list[str]:
    """Public names that an import of the module of the same name would overwrite."""
    return [
        name
        for name in getattr(package, "__all__", ())
        if importlib.util.find_spec(f"{package.__name__}.{name}")
        and getattr(package, name) is not importlib.import_module(f"{package.__name__}.{name}")
    ]


def test_in_the_checkout_no_folder_is_imported_by_its_bare_name() -> None:
    # There they could be: second copies, with registries of their own.
    code = (
        f"import importlib.util, sys, {ALL_SIDES}\n"
        f"assert all(importlib.util.find_spec(name) for name in {FOLDERS})\n"
        f"print(*sorted(set({FOLDERS}) & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, capture_output=True, text=True)
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr


def test_no_module_overwrites_a_public_name() -> None:
    assert overwritten(fedtag) == []


def test_an_overwritten_name_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "public_names"
    place.mkdir()
    source = '__all__ = ["errors", "run", "runs"]\nfrom public_names import errors\nrun = runs = min\n'
    for name, text in (("__init__", source), ("run", ""), ("errors", "")):
        (place / f"{name}.py").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    assert overwritten(importlib.import_module("public_names")) == ["run"]


def test_importing_takes_no_time_and_no_library() -> None:
    code = (
        "import sys, time; start = time.perf_counter(); import fedtag; print(time.perf_counter() - start); "
        "print(*sorted({'torch', 'pandas', 'flwr', 'numpy'} & set(sys.modules)))"
    )
    times = []
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        seconds, loaded = done.stdout.split("\n")[:2]
        times.append(float(seconds))
        assert loaded == ""
    assert min(times) <= 0.3


@pytest.mark.parametrize("module", [fedtag, fedtag.extension])
def test_every_public_name_is_there_and_documented(module: ModuleType) -> None:
    for name in module.__all__:
        found = getattr(module, name)
        # Numbers and names of types have their words beneath them.
        assert isinstance(found, int | GenericAlias) or (found.__doc__ or "").strip(), name
    with pytest.raises(AttributeError):
        _ = module.nothing  # type: ignore[attr-defined]


EXAMPLES = ("fedtag.graph.graph", "fedtag.runs.interface", "fedtag.runs.listing")


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_say_what_happens(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FEDTAG_CACHE", str(tmp_path / "cache"))
    done = doctest.testmod(importlib.import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert done.failed == 0


def test_there_are_examples() -> None:
    finder = doctest.DocTestFinder()
    told = {
        name: sum(len(one.examples) for one in finder.find(importlib.import_module(name)))
        for name in EXAMPLES
    }
    assert all(told.values()), told
