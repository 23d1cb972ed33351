"""What a method is: one specification, from which everything that others must know of it follows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args, get_origin, get_type_hints

from fedtag.common.methods.base import BASE_RECORDS
from fedtag.common.methods.records import Record, record_faults
from fedtag.common.settings.registry import Reference, Registry, Spec
from fedtag.common.settings.run_settings import RunSettings

Condition = Callable[[RunSettings], bool]


def never(settings: RunSettings) -> bool:
    """A condition that holds for no settings."""
    return False


@dataclass(frozen=True)
class Exclusion:
    """Settings with which a method or a part makes no sense.

    Args:
        what: in a few words, for lists.
        sentence: what a person is told, with value, rule and remedy; empty where the settings are none of these. It
            asks traits of others, never their names.
    """

    what: str
    sentence: Callable[[RunSettings], str]


def sentences(exclusions: Iterable[Exclusion], settings: RunSettings) -> list[str]:
    """What is wrong with settings."""
    return [sentence for one in exclusions if (sentence := one.sentence(settings))]


@dataclass(frozen=True, kw_only=True)
class Traits:
    """What others ask of a method instead of its name.

    Args:
        pooled: its one client holds the whole graph, cross-client edges included.
        sums: clients' updates come together in sums, which masks can hide and rules can combine.
        texts: whether it reads the texts of nodes themselves: `no`, `may` or `must`.
        condensed: what clients train on: `any` condenser or none, a graph of its `own` making, or `none`.
        backbone: it trains the run's backbone, and not only models of its own.
        keeps_evidence: clients write evidence for the released model, so that it goes to them at the end.
        paces: the server says which clients train longer.
        ordered: what it computes beside its backbone sums in one order on every device, so that a GPU gives the same
            bits again; of others PyTorch's deterministic kernels are asked, which take longer.
        together: its clients train the run's backbone on examples that stay as they are, by the base's own training,
            so that all can be trained at once (`ClientMethod.train_together`).
        releases: what a finished run leaves: `nothing`, a `model`, a `model per client`, or a `graph` and a model.
    """

    pooled: bool = False
    sums: bool = True
    texts: Literal["no", "may", "must"] = "no"
    condensed: Literal["any", "own", "none"] = "none"
    backbone: bool = True
    keeps_evidence: bool = False
    paces: bool = False
    ordered: bool = False
    together: bool = False
    releases: Literal["nothing", "model", "model per client", "graph"] = "model"


CHOICES = {
    name: get_args(kind) for name, kind in get_type_hints(Traits).items() if get_origin(kind) is Literal
}
"""The values of traits that are words."""


@dataclass(frozen=True, kw_only=True)
class MethodSpec(Spec):
    """A method.

    Args:
        traits: what others ask.
        defaults: values that it gives to shared settings that were left to it, by dotted key.
        records: everything that a side sends beside what every method sends.
        excluded: settings with which it makes no sense.
        resolved: further values of shared settings, by dotted key, that follow from the others once these are known.
        words: from settings by dotted key, sentences without full stops on what the method's own ones mean for privacy;
            settings that a run of an earlier version lacks are absent.
        noises: from the same settings, one such sentence on noise of its own by which a run is differentially private;
            empty where it adds none.
        released_with: dotted shared settings that decide, beside its own table, the model and the texts, what a
            released model predicts.
        keeps: whether a site predicts with something that it keeps to itself from the run, in its workspace.
        client, server: references to the two sides, a `ClientMethod` and a `ServerMethod`.
        report: reference to what makes its sections of the report, a `Sections`; empty without any.
        artefact: reference to how what it releases beside a model is written and read, an `Artefact`; empty where
            it releases a model alone, or nothing.
        evidence: reference to what can be asked of the evidence that its clients keep; empty without any.
    """

    traits: Traits = Traits()
    defaults: Mapping[str, Any] = field(default_factory=dict)
    records: tuple[Record, ...] = ()
    excluded: tuple[Exclusion, ...] = ()
    resolved: Callable[[RunSettings], Mapping[str, Any]] = lambda settings: {}
    words: Callable[[Mapping[str, Any]], Sequence[str]] = lambda settings: ()
    noises: Callable[[Mapping[str, Any]], str] = lambda settings: ""
    released_with: tuple[str, ...] = ()
    keeps: Condition = never
    client: Reference
    server: Reference
    report: Reference = ""
    artefact: Reference = ""
    evidence: Reference = ""

    @property
    def references(self) -> tuple[Reference, ...]:
        return (self.client, self.server, self.report, self.artefact, self.evidence)

    def faults(self) -> Iterator[str]:
        yield from super().faults()
        for trait, allowed in CHOICES.items():
            if (value := getattr(self.traits, trait)) not in allowed:
                yield f"has traits.{trait} = {value!r}: use one of {', '.join(allowed)}"
        for side in ("client", "server"):
            value = getattr(self, side)
            if not value or isinstance(value, type):
                yield f"has {side} = {value!r}: give an import string, or an object of such a class"
        yield from record_faults(self.records, BASE_RECORDS)


@dataclass(frozen=True, kw_only=True)
class PresetSpec(Spec):
    """A name for a method with parts and settings.

    Args:
        method: by name.
        parts: by name, in order.
        values: of settings, by dotted key; whoever sets one of them wins.
    """

    method: str
    parts: tuple[str, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)


METHODS = Registry("fedtag.methods", "method", "method", MethodSpec)
PRESETS = Registry("fedtag.presets", "preset", "method", PresetSpec)
