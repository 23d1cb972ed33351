"""Specifications of methods, parts, condensers and backbones: what they have in common, and how they are found.

They are found by entry points; those that come with fedtag use the same door as a stranger's. Reading one imports no
PyTorch, so that help and settings are instant; what computes is named by import strings, which are resolved when first
used.
"""

from __future__ import annotations

import difflib
import importlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from importlib import metadata
from typing import Any, Generic, TypeVar
from weakref import WeakSet

from fedtag.common.errors import ConfigError
from fedtag.common.settings.run_settings import RunSettings
from fedtag.common.settings.sections import Section

INTERFACE = 1
"""Of specifications and of what they name; another number is another contract between them and fedtag."""
NAME = re.compile(r"[a-z][a-z0-9_-]{0,39}")
FEDTAG = "fedtag"
"""The package of what is built in."""
HERE = "this process"
"""The package of a specification that was handed over as an object."""
Reference = Any
"""An import string; or what it would name, in a specification that is handed over as an object."""


@dataclass(frozen=True, kw_only=True)
class Spec:
    """What every specification says.

    Args:
        name: by which settings and commands know it: lower case, digits, hyphens or underscores.
        title: one line for help and cards.
        source: paper, venue, equations; empty where there is none.
        interface: for which it was written, `INTERFACE` of that time.
        settings: its own table, which appears as [NAME]; None without any.
        renamed: settings of earlier releases, or whole tables, and what stands in their place.
    """

    name: str
    title: str
    source: str = ""
    interface: int
    settings: type[Section] | None = None
    renamed: Mapping[str, str] = field(default_factory=dict)

    @property
    def references(self) -> tuple[Reference, ...]:
        """What computes for it."""
        return ()

    @property
    def imports(self) -> tuple[str, ...]:
        """The import strings in it that are not empty."""
        return tuple(one for one in self.references if isinstance(one, str) and one)

    def faults(self) -> Iterator[str]:
        """What is wrong with it by itself, each as the end of a sentence that begins with its kind and name."""
        if not NAME.fullmatch(self.name):
            yield "has a name that settings and commands cannot have: use lower case, digits, hyphens, underscores"
        if self.name in RunSettings.model_fields:
            yield "is called like a table of shared settings: choose another name"


S = TypeVar("S", bound=Spec)
_ALL: WeakSet[Registry[Any]] = WeakSet()


@dataclass(frozen=True)
class Origin:
    """Where a specification comes from.

    Args:
        package: that is installed, or `HERE`.
        version: of the package; empty for `HERE`.
    """

    package: str
    version: str = ""


class Registry(Generic[S]):
    """All specifications of a kind.

    Args:
        group: of entry points, which name an object of `kind` each.
        what: how a person calls one.
        key: the setting that chooses one.
        kind: their class.
    """

    def __init__(self, group: str, what: str, key: str, kind: type[S]) -> None:
        self.group = group
        self.what = what
        self.key = key
        self.kind = kind
        self._added: dict[str, S] = {}
        self._loaded: dict[str, S] = {}
        _ALL.add(self)

    @property
    def names(self) -> tuple[str, ...]:
        """Of all that are installed or were handed over, whether they can be used or not."""
        return tuple(sorted({*self._entries, *self._added}))

    def __contains__(self, name: object) -> bool:
        return name in self._entries or name in self._added

    def get(self, name: str) -> S:
        """The specification of a name.

        Raises:
            ConfigError: nothing is called so, or what is cannot be used.
        """
        if name in self._added:
            return self._added[name]
        if name not in self._loaded:
            self._loaded[name] = self._load(name)
        return self._loaded[name]

    def add(self, spec: S) -> None:
        """Take a specification as an object, in place of one of its name that was taken before.

        It lives as long as this process.

        Raises:
            ConfigError: a package brings something of its name, or it is for another interface.
        """
        if spec.name in self._entries:
            package = self.origin(spec.name).package
            raise ConfigError(
                f"{self.what} '{spec.name}' is there already, from {package}: choose another name"
            )
        self._check(spec, spec.name, HERE)
        self._added[spec.name] = spec

    def origin(self, name: str) -> Origin:
        """The package that a specification comes from."""
        if name not in self._entries:
            return Origin(HERE)
        return _origin(self._entries[name][0])

    def resolved(self, spec: S, reference: Reference) -> Any:
        """What a specification names by an import string, or holds.

        Raises:
            ConfigError: it cannot be imported; the error says whose it is.
        """
        if not isinstance(reference, str):
            return reference
        package = self.origin(spec.name).package
        return resolved(reference, "" if package == HERE else package)

    def usable(self) -> dict[str, S]:
        """All that can be used, by name; the others are in `troubles`."""
        troubles = self.troubles
        return {name: self.get(name) for name in self.names if name not in troubles}

    @property
    def troubles(self) -> Mapping[str, str]:
        """Why specifications cannot be used, by name."""
        found = {}
        for name in self.names:
            try:
                self.get(name)
            except ConfigError as error:
                found[name] = str(error)
        return found

    @cached_property
    def _entries(self) -> Mapping[str, tuple[metadata.EntryPoint, ...]]:
        found: dict[str, tuple[metadata.EntryPoint, ...]] = {}
        for entry in metadata.entry_points(group=self.group):
            # The same release may lie on the path twice, as a checkout beside its wheel.
            if all(_origin(entry) != _origin(other) for other in found.get(entry.name, ())):
                found[entry.name] = (*found.get(entry.name, ()), entry)
        return found

    def _load(self, name: str) -> S:
        entries = self._entries.get(name, ())
        if not entries:
            known, near = ", ".join(self.names), difflib.get_close_matches(name, self.names, n=1)
            hint = f" (did you mean {near[0]}?)" if near else ""
            raise ConfigError(
                f"{self.key} = '{name}': no {self.what} is called so{hint}; use one of {known}, or install the package "
                "that brings it"
            )
        packages = [_origin(entry).package for entry in entries]
        if len(entries) > 1:
            raise ConfigError(
                f"{self.what} '{name}' comes from {' and from '.join(packages)}: uninstall all but one of them"
            )
        spec = resolved(entries[0].value, packages[0])
        if not isinstance(spec, self.kind):
            raise ConfigError(
                f"{packages[0]}: {entries[0].value} is no {self.kind.__name__}: correct its entry point in "
                f"{self.group}, or uninstall it"
            )
        self._check(spec, name, packages[0])
        return spec

    def _check(self, spec: S, name: str, package: str) -> None:
        if spec.name != name:
            raise ConfigError(
                f"{package}: the entry point '{name}' of {self.group} is a {self.what} called '{spec.name}': give "
                "both the same name"
            )
        if spec.interface != INTERFACE:
            older = "fedtag" if spec.interface > INTERFACE else package
            raise ConfigError(
                f"{self.what} '{name}' of {package} is for interface {spec.interface}, this fedtag has {INTERFACE}: "
                f"install a newer {older}"
            )
        for fault in spec.faults():
            raise ConfigError(f"{self.what} '{name}' of {package} {fault}")
        # Tables of settings go by these names; what comes with fedtag keeps its own, and asks no other registry.
        others = (one for one in _ALL if one.group != self.group and name in one)
        if package != FEDTAG and (other := next(others, None)) is not None:
            raise ConfigError(
                f"{self.what} '{name}' of {package} is called like a {other.what} of {other.origin(name).package}, "
                "and settings go by these names: choose another name"
            )


def resolved(reference: str, package: str = "") -> Any:
    """The object that an import string names.

    Args:
        reference: MODULE:NAME.
        package: that says so, for the error.

    Raises:
        ConfigError: it cannot be imported.
    """
    module, _, name = reference.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    # Whatever goes wrong while a stranger's module is imported, the person must learn whose it is.
    except Exception as error:
        whose = package or module.partition(".")[0]
        raise ConfigError(
            f"{whose}: {reference} cannot be imported ({type(error).__name__}: {error}): install {whose} anew, or "
            "uninstall it"
        ) from error


@cache
def _origin(entry: metadata.EntryPoint) -> Origin:
    """Where an entry point comes from; finding out reads a file."""
    assert entry.dist is not None
    return Origin(entry.dist.name, entry.dist.version)
