from __future__ import annotations

from importlib import metadata
from typing import Any

import pytest

from fedtag.common.config import RunConfig
from fedtag.common.config.ingredients import (
    differing,
    ingredients,
    lacking,
    packages,
    reported_packages,
)
from fedtag.common.methods.spec import METHODS
from fedtag.common.settings.registry import INTERFACE

VERSION = metadata.version("fedtag")
SETTINGS = {"method": "fedavg", "condenser.name": "herding", "neighbour-exchange.mode": "summed"}


@pytest.fixture
def own() -> dict[str, dict[str, dict[str, Any]]]:
    return ingredients(RunConfig.from_flat(SETTINGS))


def other(kind: str, name: str, **changes: Any) -> dict[str, dict[str, dict[str, Any]]]:
    """What another side has, which differs in one specification."""
    told = ingredients(RunConfig.from_flat(SETTINGS))
    told[kind][name] |= changes
    return told


def test_all_that_a_run_is_made_of_is_named_with_package_version_and_interface(own: Any) -> None:
    assert {kind: list(table) for kind, table in own.items()} == {
        "method": ["fedavg"],
        "part": ["neighbour-exchange"],
        "condenser": ["herding"],
        "backbone": ["gcn"],
    }
    for table in own.values():
        for entry in table.values():
            assert (entry["package"], entry["version"], entry["interface"]) == ("fedtag", VERSION, INTERFACE)
    assert own["method"]["fedavg"]["records"] != own["part"]["neighbour-exchange"]["records"]
    assert packages(RunConfig.from_flat(SETTINGS)) == {"fedtag": VERSION}


def test_sides_that_have_the_same_or_another_version_of_it_work_together(own: Any) -> None:
    assert differing(own, own) == []
    assert differing(other("method", "fedavg", version="0.0.1"), own) == []


@pytest.mark.parametrize(
    ("kind", "name", "changes", "sentence"),
    [
        (
            "method",
            "fedavg",
            {"package": "stranger", "version": "2.0"},
            (
                f"method 'fedavg' is from fedtag {VERSION} (interface 1) here and from stranger 2.0 (interface 1) at "
                "the server: install the same package on all sides"
            ),
        ),
        ("backbone", "gcn", {"interface": 2}, f"and from fedtag {VERSION} (interface 2) at the server"),
        ("part", "neighbour-exchange", {"records": "f" * 16}, "at the server, with other records: install"),
        (
            "condenser",
            "herding",
            {"package": "this process"},
            "an object of its process (interface 1) at the server",
        ),
        ("method", "fedavg", {"package": "a\nb\x1b[31m"}, "from an unknown package at the server"),
        (
            "method",
            "fedavg",
            {"package": "stranger", "version": ["x"] * 99},
            "from an unknown package at the server",
        ),
    ],
)
def test_sides_that_cannot_work_together_are_told_both_packages(
    own: Any, kind: str, name: str, changes: dict[str, Any], sentence: str
) -> None:
    (found,) = differing(other(kind, name, **changes), own)
    assert sentence in found
    assert found.isprintable()


def test_what_is_not_installed_is_named_with_the_package_to_install() -> None:
    told = {"method": {"own": {"package": "stranger", "version": "2.3", "interface": 1}, "fedavg": {}}}
    (found,) = lacking(told)
    assert found == (
        "method 'own' is not installed here, or cannot be used, and the server has it from stranger 2.3 (interface "
        "1): install that here"
    )
    assert lacking({"method": {"own\n": {}}, "nothing known": {"own": {}}}) == []


@pytest.mark.parametrize("told", [None, [], 7, {"method": 3}, {"method": {"fedavg": []}}, {3: {4: {}}}])
def test_what_is_no_list_of_ingredients_says_nothing(own: Any, told: object) -> None:
    assert differing(told, own) == lacking(told) == []


@pytest.mark.parametrize(
    ("told", "found"),
    [
        ({"fedtag": "0.1", "stranger": "2.0", "unasked": "1"}, {"fedtag": "0.1", "stranger": "2.0"}),
        ({"fedtag": "0.1\n", "stranger": 2}, {"stranger": "2"}),
        ({"fedtag": "x" * 41}, {}),
        ("fedtag", {}),
        (None, {}),
    ],
)
def test_versions_that_a_client_names_are_read_as_far_as_they_are_some(
    told: Any, found: dict[str, str]
) -> None:
    assert reported_packages({"packages": told}, {"fedtag": "1", "stranger": "1"}) == found
    assert reported_packages(told, {"fedtag": "1"}) == {}


def test_records_decide_whether_two_sides_send_the_same() -> None:
    digests = [
        ingredients(RunConfig.from_flat({"method": name}))["method"][name]["records"]
        for name in METHODS.usable()
    ]
    assert len(set(digests)) > len(digests) / 2
