"""What is wrong with a specification by itself is told when it is read, with the package that brings it."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

from fedtag.common.condensers.spec import CONDENSERS, CondenserSpec
from fedtag.common.errors import ConfigError
from fedtag.common.methods.records import COLUMNS, Record
from fedtag.common.methods.spec import METHODS, MethodSpec, Traits
from fedtag.common.parts.spec import PartSpec
from fedtag.common.settings.registry import HERE, INTERFACE, Registry
from fedtag.server.tracking.rows import ClientRow

SPEC = MethodSpec(name="own", title="A method.", interface=INTERFACE, client="c:M", server="s:M")


def methods() -> Registry[MethodSpec]:
    return Registry("fedtag.methods", "method", "method", MethodSpec)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"name": "Own Method"}, "has a name that settings and commands cannot have: use lower case"),
        ({"name": "train"}, "is called like a table of shared settings: choose another name"),
        ({"name": "herding"}, "is called like a condenser of fedtag, and settings go by these names"),
        (
            {"traits": Traits(condensed="sometimes")},  # type: ignore[arg-type]
            "has traits.condensed = 'sometimes': use one of any, own, none",
        ),
        ({"traits": Traits(texts="yes")}, "has traits.texts = 'yes': use one of no, may, must"),  # type: ignore[arg-type]
        (
            {"records": (Record("steps", "how many", form="value", schema=int, column=True),)},
            "has a column 'steps', which every client's row has",
        ),
        (
            {"records": (Record("training", "another", form="value", schema=int),)},
            "declares the record 'training', which every method has in another form",
        ),
        (
            {"records": (Record("w", "it", form="value", column=True),)},
            "has a column 'w' that is no value with a schema",
        ),
        ({"records": (Record("w", "it", column=True),)}, "has a column 'w' that is no value with a schema"),
    ],
)
def test_a_fault_is_one_sentence_with_whose_it_is(changes: dict[str, Any], sentence: str) -> None:
    spec = replace(SPEC, **changes)
    with pytest.raises(ConfigError) as error:
        methods().add(spec)
    assert f"method '{spec.name}' of {HERE} " in str(error.value)
    assert sentence in str(error.value)
    assert "\n" not in str(error.value)


def test_a_record_may_say_what_one_of_every_method_means_in_its_case() -> None:
    methods().add(replace(SPEC, records=(Record("scores", "right and wrong, of three ways", summed=True),)))


def test_names_are_one_name_in_all_kinds() -> None:
    with pytest.raises(ConfigError, match=r"condenser 'dance' of .* is called like a method of fedtag"):
        CONDENSERS.add(CondenserSpec(name="dance", title="One.", interface=INTERFACE, condensed="c:f"))
    parts = Registry("fedtag.parts", "part", "parts", PartSpec)
    record = Record("weight", "it", form="value", schema=float, column=True)
    own = PartSpec(name="own", title="One.", interface=INTERFACE, client="c:f", records=(record,))
    with pytest.raises(ConfigError, match=r"part 'own' of .* has a column 'weight'"):
        parts.add(own)


def test_columns_of_every_row_are_those_of_the_file() -> None:
    # Methods may tell how many parameters their clients' networks have, which has a place in the row.
    assert {field.name for field in fields(ClientRow)} - {"parameters"} == COLUMNS


def test_what_is_built_in_has_no_fault() -> None:
    assert [list(spec.faults()) for spec in METHODS.usable().values()] == [[]] * len(METHODS.names)
