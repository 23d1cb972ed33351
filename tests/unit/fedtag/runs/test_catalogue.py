"""What is installed, as a person asks for it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fedtag.common.methods.spec import METHODS
from fedtag.common.settings.registry import HERE
from fedtag.runs.catalogue import ALL, description


def test_what_cannot_be_imported_is_told_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = replace(METHODS.get("fedavg"), name="broken", client="no_such_package.client:METHOD")
    monkeypatch.setitem(METHODS._added, "broken", spec)
    (fault,) = description("broken").faults
    assert fault.startswith(
        "no_such_package: no_such_package.client:METHOD cannot be imported (ModuleNotFound"
    )
    assert "install no_such_package anew, or uninstall it" in fault
    assert METHODS.origin("broken").package == HERE


def test_all_that_is_built_in_can_be_imported() -> None:
    for registry in ALL:
        for name in registry.names:
            assert description(name).faults == ()
            # A preset names a method, and no code.
            assert registry.get(name).imports or registry.what == "preset"
