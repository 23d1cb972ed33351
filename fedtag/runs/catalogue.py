"""What is installed, as a person asks for it: methods, parts, condensers, backbones, presets, trackers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from typing import Any

from fedtag.common.condensers.spec import CondenserSpec
from fedtag.common.config.catalogue import REGISTRIES, Scalar, settings_in
from fedtag.common.errors import ConfigError
from fedtag.common.methods.records import Record
from fedtag.common.methods.spec import PRESETS, MethodSpec, PresetSpec
from fedtag.common.models.spec import BackboneSpec
from fedtag.common.parts.spec import PartSpec
from fedtag.common.settings.registry import Origin, Registry, Spec
from fedtag.server.tracking.trackers.spec import TRACKERS, TrackerSpec

ALL: tuple[Registry[Any], ...] = (*REGISTRIES, PRESETS, TRACKERS)


@dataclass(frozen=True)
class Entry:
    """One thing that is installed.

    Args:
        name: by which it is chosen.
        kind: method, part, condenser, backbone, preset or tracker.
        origin: the package that it comes from.
        title, source: of its specification; what is wrong with it, where it cannot be used.
        traits: what sets it apart, in a few words each.
    """

    name: str
    kind: str
    origin: Origin
    title: str
    source: str
    traits: tuple[str, ...]


@dataclass(frozen=True)
class Description:
    """All that is to be said of one thing.

    Args:
        entry: as in the list.
        settings: its own, by dotted key, with default and meaning.
        defaults: values that it gives to shared settings.
        records: what is sent for it beside what every method sends.
        excluded: with what it makes no sense.
        faults: what it names that cannot be imported, a sentence each; it fails when it is used.
    """

    entry: Entry
    settings: Mapping[str, tuple[Scalar, str]]
    defaults: Mapping[str, Scalar]
    records: tuple[Record, ...]
    excluded: tuple[str, ...]
    faults: tuple[str, ...]


def entries() -> list[Entry]:
    """Everything that is installed, by kind and name; what cannot be used says why."""
    return [_entry(registry, name) for registry in ALL for name in registry.names]


def description(name: str) -> Description:
    """One method, part, condenser, backbone, preset or tracker.

    Raises:
        ConfigError: nothing is called so, or it cannot be used.
    """
    for registry in ALL:
        if name in registry:
            spec = registry.get(name)
            return _described(_entry(registry, name), spec, tuple(_unresolved(registry, spec)))
    known = ", ".join(sorted(one for registry in ALL for one in registry.names))
    raise ConfigError(
        f"nothing is called '{name}'; use one of {known}, or install the package that brings it"
    )


def _entry(registry: Registry[Any], name: str) -> Entry:
    origin = registry.origin(name)
    try:
        spec: Spec = registry.get(name)
    except ConfigError as error:
        return Entry(name, registry.what, origin, str(error), "", ("cannot be used",))
    return Entry(name, registry.what, origin, spec.title, spec.source, traits(spec))


def _unresolved(registry: Registry[Any], spec: Spec) -> Iterator[str]:
    """Why import strings of a specification lead nowhere; those that lead somewhere are imported."""
    for reference in spec.imports:
        try:
            registry.resolved(spec, reference)
        except ConfigError as error:
            yield str(error)


def _described(entry: Entry, spec: Spec, faults: tuple[str, ...]) -> Description:
    own = {} if spec.settings is None else dict(settings_in(spec.settings, f"{spec.name}."))
    given = (
        spec.defaults if isinstance(spec, MethodSpec) else spec.values if isinstance(spec, PresetSpec) else {}
    )
    sending = spec if isinstance(spec, MethodSpec | PartSpec) else None
    return Description(
        entry,
        {key: (field.default, field.description or "") for key, field in own.items()},
        given,
        sending.records if sending else (),
        tuple(one.what for one in sending.excluded) if sending else (),
        faults,
    )


def traits(spec: Spec) -> tuple[str, ...]:
    """What sets a specification apart, in a few words each."""
    if isinstance(spec, MethodSpec):
        own = spec.traits
        said = {
            "one client holds all": own.pooled,
            "no sums over clients": not own.sums,
            f"{own.texts} read texts": own.texts != "no",
            "any condenser": own.condensed == "any",
            "condenses by itself": own.condensed == "own",
            "keeps evidence": own.keeps_evidence,
            f"releases {own.releases}": own.releases != "model",
        }
        return tuple(words for words, holds in said.items() if holds)
    if isinstance(spec, PresetSpec):
        return (spec.method, *spec.parts)
    if isinstance(spec, TrackerSpec):
        return tuple(f"needs {module}" for module in spec.needs)
    if isinstance(spec, CondenserSpec | BackboneSpec):
        names = [one.name for one in fields(spec) if one.name not in {own.name for own in fields(Spec)}]
        words = [name.replace("_", " ") for name in names if getattr(spec, name) is True]
        if isinstance(spec, BackboneSpec) and spec.reads_neighbours and not spec.reads_weights:
            words.append("counts links alike")
        return tuple(words)
    return ()
