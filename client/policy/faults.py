"""What is wrong with a policy, a sentence each: a rule that means nothing would allow what it was to forbid."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from pydantic import BaseModel

from fedtag.common.config.catalogue import all_settings, unknown_key
from fedtag.common.methods.base import BASE_RECORDS
from fedtag.common.methods.spec import METHODS
from fedtag.common.parts.spec import PARTS
from fedtag.common.wording.suggestion import did_you_mean


def checked_names(
    methods: Collection[str] | None, parts: Collection[str] | None, records: Collection[str] | None
) -> None:
    """Raise ValueError where a rule names what is not installed here."""
    declared = [*BASE_RECORDS]
    declared += [record for method in METHODS.usable().values() for record in method.records]
    declared += [record for part in PARTS.usable().values() for record in part.records]
    sent = {record.name for record in declared if record.leaves}
    for what, names, known in (
        ("method", methods, METHODS.usable()),
        ("part", parts, PARTS.usable()),
        ("record", records, sent),
    ):
        for name in names or ():
            if name not in known:
                raise ValueError(f"{what}s names '{name}', which is no {what} here: {_remedy(name, known)}")


def checked_settings(bounds: Mapping[str, Any]) -> None:
    """Raise ValueError where a bound is on no setting, or can hold for none of its values.

    Args:
        bounds: of type `Bound`, by dotted key.
    """
    known = all_settings()
    for key, bound in bounds.items():
        if key not in known:
            raise ValueError(unknown_key(key, known).rstrip("."))
        default = known[key].default
        number = isinstance(default, int | float) and not isinstance(default, bool)
        if not number and (bound.min is not None or bound.max is not None):
            raise ValueError(f"settings.{key} has min or max, but is no number: use one-of")
        wanted = (int, float) if number else type(default)
        for value in bound.one_of or ():
            if not isinstance(value, wanted) or isinstance(value, bool) != isinstance(default, bool):
                raise ValueError(
                    f"settings.{key} has {value!r} in one-of, but is {'a number' if number else _KINDS[type(default)]}"
                )


_FORMS = {
    "tuple_type": "must be a list",
    "model_type": "must be a table",
    "mapping_type": "must be a table",
    "dict_type": "must be a table",
}
_KINDS = {bool: "true or false", str: "a text"}


def fault(error: Any, model: type[BaseModel]) -> str:
    """One sentence about one fault that pydantic found in a policy."""
    place = [str(part) for part in error["loc"]]
    key = ".".join(place)
    if error["type"] == "extra_forbidden":
        return f"unknown key '{key}': {_remedy(place[-1], _keys(model, place[:-1]))}"
    reason = _FORMS.get(error["type"], error["msg"].removeprefix("Value error, "))
    if not place:
        return reason
    if error["type"] == "value_error":
        return f"{key} {reason}"
    return f"{key} = {error['input']!r}: {reason[0].lower()}{reason[1:]}"


def _remedy(name: str, known: Collection[str]) -> str:
    return did_you_mean(name, known, f"use {', '.join(sorted(known))}, or leave it out")


def _keys(model: Any, place: list[str]) -> list[str]:
    """The keys of the table at a place in a policy."""
    for part in place:
        field = next((one for one in model.model_fields.values() if one.alias == part), None)
        if field is None:
            # The name of a setting stands between its table and the bounds.
            continue
        kinds = [field.annotation, *getattr(field.annotation, "__args__", ())]
        model = next((one for one in kinds if isinstance(one, type) and issubclass(one, BaseModel)), model)
    return [str(one.alias) for one in model.model_fields.values() if not one.exclude]
