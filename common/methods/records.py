"""Kinds of records that cross the network: what they are, what they reveal, how they are protected."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from fedtag.common.errors import WireError

Protection = Literal["none", "masked", "encrypted", "noised"]


@dataclass(frozen=True)
class Record:
    """A kind of record.

    Args:
        name: first part of the names of its tensors, key of a value, or kind of a letter.
        reveals: what its reader learns.
        protected: from whom carries it.
        form: `tensors`, whose exact forms the server's side says for each exchange; a `value` of JSON; a `letter` from
            client to client, which the server relays sealed.
        schema: of a value that clients send: a type that pydantic can check strictly, with the bounds of its values.
            None for what the server sends.
        alone: tensors that the server sends to those clients alone that lack them; all are told their fingerprint, in a
            value of the same name.
        summed: clients' parts come together in a sum, so that under masks no single one is seen.
        column: a value that clients send becomes a column of their rows in clients.jsonl; of a table, its numbers and
            texts become one each.
    """

    name: str
    reveals: str
    protected: Protection = "none"
    form: Literal["tensors", "value", "letter"] = "tensors"
    schema: Any = None
    alone: bool = False
    summed: bool = False
    column: bool = False

    @cached_property
    def _adapter(self) -> TypeAdapter[Any]:
        return TypeAdapter(self.schema)

    def check(self, value: Any) -> None:
        """Raise WireError where a value that a client sent does not keep to the schema."""
        if self.schema is None:
            raise WireError(f"'{self.name}' is no value that clients send")
        try:
            self._adapter.validate_python(value, strict=True)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"]))
            reason = first["msg"].removeprefix("Value error, ")
            raise WireError(f"{self.name}{': ' if place else ''}{place}: {reason}") from None


def by_name(records: Iterable[Record]) -> Mapping[str, Record]:
    """Records by their names."""
    return {record.name: record for record in records}
