"""What a run is made of as one side has it installed: behind the same names, another side may have other code."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from typing import Any

from fedtag.common.config.catalogue import REGISTRIES
from fedtag.common.config.run_config import RunConfig
from fedtag.common.settings.registry import FEDTAG, HERE, Spec
from fedtag.common.wire.protocol import installed_release

_WORD = re.compile(r"[\w.+!-]{1,40}")

Table = Mapping[str, Mapping[str, Mapping[str, Any]]]


def ingredients(config: RunConfig) -> dict[str, dict[str, dict[str, Any]]]:
    """Package, version, interface and a digest of the records of each specification, by kind and name."""
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for registry, name in config.chosen:
        origin, spec = registry.origin(name), registry.get(name)
        found.setdefault(registry.what, {})[name] = {
            "package": origin.package,
            "version": origin.version,
            "interface": spec.interface,
            "records": _digest(spec),
        }
    return found


def packages(config: RunConfig) -> dict[str, str]:
    """Versions of fedtag, and of the packages that bring what the run is made of; objects have none."""
    origins = [registry.origin(name) for registry, name in config.chosen]
    found = {origin.package: origin.version for origin in origins if origin.package != HERE}
    return {**found, FEDTAG: installed_release()}


def reported_packages(introduction: object, own: Mapping[str, str]) -> dict[str, str]:
    """The versions that a client named of this side's packages; what is no version is left out.

    Args:
        introduction: of the client, of any type.
        own: `packages` of this side.
    """
    told = introduction.get("packages") if isinstance(introduction, Mapping) else None
    named = told if isinstance(told, Mapping) else {}
    return {one: str(named[one]) for one in own if one in named and _WORD.fullmatch(str(named[one]))}


def lacking(told: object) -> list[str]:
    """What another side's run is made of and this installation cannot use, a sentence each."""
    registries = {registry.what: registry for registry in REGISTRIES}
    return [
        f"{what} '{name}' is not installed here, or cannot be used, and the server has it from {_source(entry)}: "
        f"install that here"
        for what, name, entry in _entries(told)
        if what in registries and name not in registries[what].usable()
    ]


def differing(told: object, own: Table) -> list[str]:
    """In which specifications two sides cannot work together, a sentence each; versions of one package may differ.

    Args:
        told: `ingredients` of the other side, of any type.
        own: of this side.
    """
    found = []
    for what, name, entry in _entries(told):
        mine = own.get(what, {}).get(name)
        if mine is not None and any(
            entry.get(key) != mine[key] for key in ("package", "interface", "records")
        ):
            same = all(entry.get(key) == mine[key] for key in ("package", "version", "interface"))
            found.append(
                f"{what} '{name}' is from {_source(mine)} here and from {_source(entry)} at the server"
                f"{', with other records' if same else ''}: install the same package on all sides"
            )
    return found


def _digest(spec: Spec) -> str:
    records = sorted(
        (one.name, one.form, one.protected, one.summed, one.column) for one in getattr(spec, "records", ())
    )
    return hashlib.sha256(repr(records).encode()).hexdigest()[:16]


def _entries(told: object) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    for what, table in told.items() if isinstance(told, Mapping) else ():
        for name, entry in table.items() if isinstance(table, Mapping) else ():
            if isinstance(entry, Mapping) and _WORD.fullmatch(str(name)):
                yield str(what), str(name), entry


def _source(entry: Mapping[str, Any]) -> str:
    """For a sentence that may come from another side, and may cross the network."""
    package, version, interface = (str(entry.get(key)) for key in ("package", "version", "interface"))
    if package == HERE:
        return f"an object of its process (interface {interface[:9]})"
    if not _WORD.fullmatch(package) or not _WORD.fullmatch(version):
        return "an unknown package"
    return f"{package} {version} (interface {interface[:9]})"
