"""What any method may have: a part stands around a method, with phases, records and settings of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from fedtag.common.methods.base import BASE_RECORDS
from fedtag.common.methods.records import Record, by_name, record_faults
from fedtag.common.methods.spec import METHODS, Condition, Exclusion, MethodSpec, never
from fedtag.common.settings.registry import Reference, Registry, Spec
from fedtag.common.settings.run_settings import RunSettings


@dataclass(frozen=True, kw_only=True)
class PartSpec(Spec):
    """A part.

    Args:
        records: everything that a side sends for it.
        excluded: settings with which it makes no sense.
        switch: a setting of the part whose value `off` leaves the part out, and any other switches it on, so that it
            need not be named in `parts`; empty where only the name does.
        released_with, keeps: as of a method.
        client, server: references to functions that take a method's side and the settings of the run, and return
            what stands around it, with the same interface; no server where that side has nothing to do.
        report: reference to what makes its sections of the report, a `Sections`; empty without any.
    """

    records: tuple[Record, ...] = ()
    excluded: tuple[Exclusion, ...] = ()
    switch: str = ""
    released_with: tuple[str, ...] = ()
    keeps: Condition = never
    client: Reference
    server: Reference = ""
    report: Reference = ""

    @property
    def references(self) -> tuple[Reference, ...]:
        return (self.client, self.server, self.report)

    def faults(self) -> Iterator[str]:
        yield from super().faults()
        yield from record_faults(self.records, BASE_RECORDS)


PARTS = Registry("fedtag.parts", "part", "parts", PartSpec)


def part_specs(settings: RunSettings) -> Sequence[PartSpec]:
    """The parts of a run, in the order in which they stand around its method, the innermost first."""
    return [PARTS.get(name) for name in settings.part_names]


def records_of(method: MethodSpec, parts: Sequence[PartSpec]) -> tuple[Record, ...]:
    """What a method and its parts send; where two are called the same, it reveals what both say."""
    found = dict(by_name(method.records))
    for record in (record for part in parts for record in part.records):
        inner = found.get(record.name)
        both = record if inner is None else replace(inner, reveals=f"{inner.reveals}; {record.reveals}")
        found[record.name] = both
    return tuple(found.values())


def declared_records(settings: RunSettings) -> Mapping[str, Record]:
    """All kinds of records that may cross the network in a run, by name."""
    own = records_of(METHODS.get(settings.method), part_specs(settings))
    return by_name((*BASE_RECORDS, *own))
