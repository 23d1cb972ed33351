"""What is released beside a model is written by whoever the method's specification names."""

from __future__ import annotations

from dataclasses import replace

import pytest

from fedtag.common.errors import ConfigError
from fedtag.common.methods.spec import METHODS
from fedtag.server.tracking.artefact import artefact_of


def test_a_specification_that_names_nothing_is_refused_by_name() -> None:
    with pytest.raises(
        ConfigError, match=r"method fedavg of fedtag gives tensors .* name an `artefact` in it"
    ):
        artefact_of(METHODS.get("fedavg"))


def test_what_cannot_be_imported_is_named() -> None:
    with pytest.raises(ConfigError, match="fedtag: nowhere:THING cannot be imported"):
        artefact_of(replace(METHODS.get("fedavg"), artefact="nowhere:THING"))


@pytest.mark.parametrize("name", [name for name, spec in METHODS.usable().items() if spec.artefact])
def test_every_artefact_that_is_named_is_there(name: str) -> None:
    assert artefact_of(METHODS.get(name)).files
