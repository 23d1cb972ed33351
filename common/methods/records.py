"""Kinds of records that cross the network: what they are, what they reveal, how they are protected."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from fedtag.common.errors import WireError

COLUMNS = frozenset(
    {
        "round",
        "client",
        "nodes",
        "train_nodes",
        "val_nodes",
        "test_nodes",
        "val_accuracy",
        "test_accuracy",
        "test_macro_f1",
        "test_balanced_accuracy",
        "test_auroc",
        "test_auprc",
        "local_test_accuracy",
        "seconds_by_phase",
        "weight",
        "failed",
        "scores",
        "steps",
        "normaliser",
        "statistics",
        "condensation",
        "columns",
    }
)
"""Of every client's row in clients.jsonl."""
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
        told: tensors that the server alone sends.
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
    told: bool = False
    alone: bool = False
    summed: bool = False
    column: bool = False

    @property
    def leaves(self) -> bool:
        """Whether clients send it."""
        return self.schema is not None if self.form == "value" else not (self.told or self.alone)

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


def record_faults(records: Iterable[Record], base: Iterable[Record]) -> Iterator[str]:
    """What is wrong with the records of a specification, each as the end of a sentence about it.

    Args:
        records: of the specification.
        base: what every method may send, of which it may say what one means in its case, and nothing else.
    """
    known = by_name(base)
    for record in records:
        same = known.get(record.name)
        if same is not None and (record.form, record.schema) != (same.form, same.schema):
            yield f"declares the record '{record.name}', which every method has in another form: choose another name"
        if record.column and record.name in COLUMNS:
            yield f"has a column '{record.name}', which every client's row has: choose another name"
        if record.column and (record.form != "value" or record.schema is None):
            yield f"has a column '{record.name}' that is no value with a schema: give it form='value' and a schema"


def by_name(records: Iterable[Record]) -> Mapping[str, Record]:
    """Records by their names."""
    return {record.name: record for record in records}
