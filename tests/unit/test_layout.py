"""The rules of the layout that no other tool checks."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGES = ("common", "client", "server", "deploy", "fedtag", "tools")
MAX_LINES = 300
MODULES = sorted(path for package in PACKAGES for path in (REPOSITORY / package).rglob("*.py"))
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
UNSAFE_MODULES = {"pickle", "cPickle", "_pickle", "dill", "cloudpickle", "marshal", "shelve", "joblib"}

Rule = Callable[[str], Iterator[int]]


def long_modules(source: str) -> Iterator[int]:
    """The last line, where a module has more than 300."""
    lines = len(source.splitlines())
    if lines > MAX_LINES:
        yield lines


def prints(source: str) -> Iterator[int]:
    """Lines that call print."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
            yield node.lineno


def unsafe_imports(source: str) -> Iterator[int]:
    """Lines that import a module whose files run code when they are read."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            names = [node.module or ""]
        else:
            continue
        if UNSAFE_MODULES & {name.split(".")[0] for name in names}:
            yield node.lineno


def torch_loads(source: str) -> Iterator[int]:
    """Lines that name torch.load or torch.save, which are pickle; safetensors replaces both.

    A load of nothing but weights makes no objects that the file asks for.
    """
    tree = ast.parse(source)
    safe = {
        id(node.func)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        for keyword in node.keywords
        if keyword.arg == "weights_only"
        and isinstance(keyword.value, ast.Constant)
        and keyword.value.value is True
    }
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id="torch"), attr="load") if id(node) in safe:
                continue
            case ast.Attribute(value=ast.Name(id="torch"), attr="load" | "save"):
                yield node.lineno
            case ast.ImportFrom(module="torch" | "torch.serialization", names=aliases):
                if {"load", "save"} & {alias.name for alias in aliases}:
                    yield node.lineno


def unfinished_marks(source: str) -> Iterator[int]:
    """Lines that announce work to come."""
    for number, line in enumerate(source.splitlines(), start=1):
        if UNFINISHED.search(line):
            yield number


def broken(rule: Rule, modules: list[Path]) -> list[str]:
    return [
        f"{path.relative_to(REPOSITORY)}:{line}"
        for path in modules
        for line in rule(path.read_text(encoding="utf-8"))
    ]


def test_modules_are_found() -> None:
    assert {path.relative_to(REPOSITORY).parts[0] for path in MODULES} == set(PACKAGES)
    assert REPOSITORY / "common" / "errors.py" in MODULES


@pytest.mark.parametrize("rule", [long_modules, unsafe_imports, torch_loads, unfinished_marks])
def test_every_module_keeps_the_rule(rule: Rule) -> None:
    assert broken(rule, MODULES) == []


def test_only_the_command_line_prints() -> None:
    modules = [path for path in MODULES if path.relative_to(REPOSITORY).parts[0] != "deploy"]
    assert broken(prints, modules) == []


def test_tests_leave_nothing_unfinished() -> None:
    tests = [path for path in (REPOSITORY / "tests").rglob("*.py") if path != Path(__file__).resolve()]
    assert broken(unfinished_marks, tests) == []


def test_every_package_says_what_it_is() -> None:
    folders = {path.parent for path in MODULES}
    silent = [
        str(folder.relative_to(REPOSITORY))
        for folder in sorted(folders)
        if not (folder / "__init__.py").is_file()
        or not ast.get_docstring(ast.parse((folder / "__init__.py").read_text(encoding="utf-8")))
    ]
    assert silent == []


@pytest.mark.parametrize(
    ("rule", "source", "lines"),
    [
        (long_modules, "\n" * 300, []),
        (long_modules, "\n" * 301, [301]),
        (prints, "x = 1\nif x:\n    print(x)\n", [3]),
        (prints, "console.print(1)\n# print(1)\n", []),
        (unsafe_imports, "import json\nimport pickle as p\nfrom joblib.numpy_pickle import load\n", [2, 3]),
        (unsafe_imports, "from .pickle import a\nimport pickled\n", []),
        (torch_loads, "import torch\nf = torch.load\nfrom torch import save\n", [2, 3]),
        (
            torch_loads,
            "torch.load(a, weights_only=True)\ntorch.load(a, weights_only=x)\ntorch.load(a)\n",
            [2, 3],
        ),
        (torch_loads, "safetensors.torch.load(b)\ntorch.loader\n", []),
        (unfinished_marks, "x = 1  # " + "TO" + "DO later\nTODOS = 2\n", [1]),
    ],
)
def test_rules_find_what_they_forbid(rule: Rule, source: str, lines: list[int]) -> None:
    assert sorted(rule(source)) == lines
