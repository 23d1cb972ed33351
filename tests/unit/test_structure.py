"""The house: rooms, floors, and names that stand in their own rooms only."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import click
import pytest
import torch
import typer
from jaxtyping import TypeCheckError

from fedtag.common.condensers.spec import CONDENSERS
from fedtag.common.methods.spec import METHODS, PRESETS
from fedtag.common.numerics.ragged import segment_rank
from fedtag.common.parts.spec import PARTS
from fedtag.deploy.cli import app

REPOSITORY = Path(__file__).resolve().parents[2]
ROOTS = {
    "fedtag": "fedtag",
    "fedtag.client": "client",
    "fedtag.common": "common",
    "fedtag.deploy": "deploy",
    "fedtag.server": "server",
}
MOST_LOOSE = 6
SIDES = ("common", "client", "server")

# Names as people write them, beside those of the specifications.
WRITTEN = {
    "da_dfgas": ("DA-DFGAS", "dadfgas"),
    "neighbour-generator": ("FedSage",),
    "neighbour-exchange": (),
}
# Ordinary words: only a text that is nothing but one of them is a name.
WORDS = {"centralised", "coarsening", "herding", "isolated"}
# Partitions and rankings of evidence are called so as well.
SHARED = {"random"}
# Rooms that are not called as what they hold.
ROOMS = {
    "fedprox": ("common/methods/fedavg.py",),
    "dance": ("common/condensers/dance_core/", "client/condense/core/"),
    # The condenser that a method has by default.
    "gcond": ("common/methods/fedc4/spec.py",),
    "gcond-x": ("common/methods/fedc4/spec.py",),
    "dance-core": ("common/methods/dance/settings.py",),
    # Settings of earlier releases, which are refused with their new names.
    "fedgc": ("common/parts/neighbour_exchange/spec.py",),
}


def modules() -> dict[str, Path]:
    """All modules by dotted name."""
    found = {}
    for package, folder in ROOTS.items():
        root = REPOSITORY / folder
        for path in root.rglob("*.py"):
            parts = path.relative_to(root).with_suffix("").parts
            dotted = ".".join((package, *(part for part in parts if part != "__init__")))
            found[dotted] = path
    return found


MODULES = modules()


def imported(name: str, source: str, known: Mapping[str, object]) -> Iterator[str]:
    """The project's modules that a module imports anywhere: deferred and type-only imports count."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            for alias in node.names:
                full = f"{node.module}.{alias.name}"
                yield from {full if full in known else node.module} & known.keys() - {name}
        elif isinstance(node, ast.Import):
            yield from {alias.name for alias in node.names} & known.keys() - {name}


def circles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Modules that import one another, directly or not: what is left when all that end somewhere are taken off."""
    left = {name: set(uses) for name, uses in graph.items()}
    while ended := [name for name, uses in left.items() if not uses & left.keys()]:
        for name in ended:
            del left[name]
    while unused := [name for name in left if not any(name in uses for uses in left.values())]:
        for name in unused:
            del left[name]
    return [sorted(left)] if left else []


def rooms(name: str) -> tuple[str, ...]:
    """Where a name may stand."""
    room = name.replace("-", "_")
    own = tuple(
        f"{side}/{kind}/{room}{end}"
        for side in SIDES
        for kind in ("methods", "parts")
        for end in ("/", ".py")
    )
    condensers = ("common/condensers/", "client/condense/") if name in CONDENSERS else ()
    return own + condensers + ROOMS.get(name, ())


def written(name: str) -> re.Pattern[str]:
    """Finds a name of a method, part or condenser in a source, however it is written."""
    forms = [name, name.replace("-", "_"), *WRITTEN.get(name, ())]
    return re.compile(rf"(?<![\w-])({'|'.join(map(re.escape, forms))})(?![\w])", re.IGNORECASE)


def third_party(tree: ast.AST) -> set[str]:
    """Names that a module has from elsewhere, such as Flower's strategies."""
    return {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module and not node.module.startswith("fedtag")
        for alias in node.names
    }


def foreign(name: str, source: str) -> list[str]:
    """The lines of a source in which a name stands."""
    if name in WORDS:
        texts = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Constant))
        return [str(node.lineno) for node in texts if node.value == name]
    others = third_party(ast.parse(source))
    return [
        str(number)
        for number, line in enumerate(source.splitlines(), start=1)
        if any(match.group() not in others for match in written(name).finditer(line))
    ]


def test_shapes_are_checked_in_tests(pytestconfig: pytest.Config) -> None:
    """A name that leads nowhere would switch the checks of a whole room off without a word."""
    *checked, _ = pytestconfig.getoption("jaxtyping_packages").split(",")
    assert [name for name in checked if name not in MODULES] == []
    unchecked = [
        name
        for name, path in MODULES.items()
        if name.startswith("fedtag.common.")
        and "from jaxtyping import" in path.read_text(encoding="utf-8")
        and not any(f"{name}.".startswith(f"{one}.") for one in checked)
    ]
    assert unchecked == []
    with pytest.raises(TypeCheckError):
        segment_rank(torch.zeros(2, 2), torch.tensor([0, 2]))


NAMES = sorted({*METHODS.names, *PRESETS.names, *PARTS.names, *CONDENSERS.names} - SHARED)


@pytest.mark.parametrize("name", NAMES)
def test_a_name_stands_in_its_own_rooms_only(name: str) -> None:
    found = []
    for path in MODULES.values():
        place = path.relative_to(REPOSITORY).as_posix()
        if not place.startswith(rooms(name)):
            found += [f"{place}:{line}" for line in foreign(name, path.read_text(encoding="utf-8"))]
    assert found == []


def test_no_files_import_one_another_in_a_circle() -> None:
    graph = {
        name: set(imported(name, path.read_text(encoding="utf-8"), MODULES)) for name, path in MODULES.items()
    }
    assert circles(graph) == []


@pytest.mark.parametrize("folder", sorted(set(ROOTS.values())))
def test_few_files_lie_loose_in_a_root(folder: str) -> None:
    loose = [
        path.name for path in (REPOSITORY / folder).glob("*") if path.is_file() and path.name != "__init__.py"
    ]
    assert len(loose) <= MOST_LOOSE, loose


@pytest.mark.parametrize(
    ("source", "name", "lines"),
    [
        ("# as FedAvg does\nx = 1\n", "fedavg", ["1"]),
        ("from flwr.serverapp.strategy import FedAvg\nx = FedAvg()\n", "fedavg", []),
        ("from fedtag.server.methods.fedavg import FedAvg\n", "fedavg", ["1"]),
        ("x = 'isolated'\n# isolated nodes\ny = 'an isolated node'\n", "isolated", ["1"]),
        ("kind = 'da_dfgas'\n'''DA-DFGAS, Eq. 5'''\n", "da_dfgas", ["1", "2"]),
        ("guidance = dancer = 'fedgc2'\n", "dance", []),
    ],
)
def test_names_are_found_as_people_write_them(source: str, name: str, lines: list[str]) -> None:
    assert foreign(name, source) == lines


def test_circles_are_found_whatever_hangs_on_them() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set[str]()}
    assert circles(graph) == [["b", "c"]]
    assert circles({"a": {"b"}, "b": set()}) == []


QUOTED = re.compile(r"(?:fedtag|pip|flwr) [a-z][^`]*|`--[^`]*`|--card(?=[:)])")
"""A command that is quoted is to be typed, whoever reads it; a style sheet has names of its own."""


def spoken(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The texts of a module that are no docstrings, those with values in them in one piece."""
    pieces = {id(one) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for one in node.values}
    silent = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield (
                node.lineno,
                "".join(str(one.value) for one in node.values if isinstance(one, ast.Constant)),
            )
        elif (
            isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in pieces | silent
        ):
            yield node.lineno, node.value


def options_of(command: click.Command) -> Iterator[str]:
    """The names of all options of a command and of those below it."""
    for one in command.params:
        yield from (name for name in one.opts if name.startswith("--"))
    for below in getattr(command, "commands", {}).values():
        yield from options_of(below)


def test_only_the_command_line_speaks_of_its_options() -> None:
    options = set(options_of(typer.main.get_command(app))) - {"--debug", "--evidence"}
    assert {"--out", "--from", "--resume"} <= options
    named = re.compile(rf"(?<![\w-])({'|'.join(sorted(options))})(?![\w-])")
    found = {}
    for name, path in modules().items():
        if name.partition(".")[2].partition(".")[0] in ("deploy", "scaffold"):
            continue
        for line, text in spoken(ast.parse(path.read_text(encoding="utf-8"))):
            if hits := named.findall(QUOTED.sub("", text)):
                found[f"{name}:{line}"] = hits
    assert not found, "name arguments as Python has them: out="
