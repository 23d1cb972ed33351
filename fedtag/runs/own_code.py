"""Which version of a person's own code a run was made with: of methods and the like that were given as objects."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from fedtag.common.config import RunConfig
from fedtag.common.errors import RunError
from fedtag.common.settings.registry import HERE, Registry, Spec
from fedtag.runs.catalogue import ALL
from fedtag.server.tracking.durable_files import encoded, json_text, read_object, write_atomically

OWN_CODE = "code.json"
"""In the directory of a run that is made of objects: SHA-256 of their code, by name."""
SIMPLE = (str, bytes, int, float, complex, type(None))
_FIRST: dict[int, tuple[Spec, str]] = {}
OF_THE_CLASS = frozenset(
    {
        *("__module__", "__doc__", "__dict__", "__weakref__", "__qualname__", "__annotations__"),
        # Of Python 3.13 and later, where a class lies in its file and how it is typed.
        *("__firstlineno__", "__static_attributes__", "__annotate__", "__annotate_func__"),
        *("__annotations_cache__", "__conditional_annotations__"),
    }
)


def own_code(config: RunConfig) -> dict[str, str]:
    """SHA-256 of what a run uses and no package brings, by name.

    It counts what functions do and which values they have at hand: their instructions, constants, defaults, what they
    close over, and functions, classes and constants of the same module that they name. Another version of Python makes
    other instructions.
    """
    names = {
        config.method,
        config.preset,
        *config.part_names,
        config.condenser.name,
        config.model.backbone,
    }
    return {
        name: _first_digest(registry.get(name))
        for registry in ALL
        for name in sorted(names)
        if is_here(registry, name)
    }


def keep_own_code(run: Path, config: RunConfig) -> None:
    """Write into a run directory with which code it is begun, where some comes with no package."""
    if code := own_code(config):
        write_atomically(run / OWN_CODE, encoded(json_text(code, OWN_CODE) + "\n"))


def check_own_code(run: Path, config: RunConfig, remedy: str) -> None:
    """Refuse to take a run for one of other code.

    Args:
        run: its directory.
        config: of the run as it is here.
        remedy: what to do where it is one of other code.

    Raises:
        RunError: it is, with the names of what differs.
    """
    was, code = read_object(run / OWN_CODE) or {}, own_code(config)
    if was != code:
        changed = ", ".join(sorted(name for name in {*was, *code} if was.get(name) != code.get(name)))
        raise RunError(f"{run} was run with other code of {changed}: {remedy}")


def is_here(registry: Registry[Any], name: str) -> bool:
    """Whether something was handed over as an object."""
    return name in registry and registry.origin(name).package == HERE


def _first_digest(spec: Spec) -> str:
    """The digest of an object as it was when it was first asked for here: what a run makes of it is not its code."""
    known = _FIRST.get(id(spec))
    if known is None or known[0] is not spec:
        known = _FIRST[id(spec)] = (spec, digest_of(spec))
    return known[1]


def digest_of(value: object) -> str:
    """SHA-256 of an object, its class and their code, in hexadecimal."""
    digest = hashlib.sha256()
    for word in _words(value, ()):
        content = word.encode("utf-8", "surrogatepass")
        digest.update(len(content).to_bytes(8, "big") + content)
    return digest.hexdigest()


def _words(value: object, inside: tuple[object, ...]) -> Iterator[str]:
    yield type(value).__name__
    if isinstance(value, SIMPLE):
        yield repr(value)
    elif not any(value is one for one in inside):
        for part in _parts(value):
            yield from _words(part, (*inside, value))


def _parts(value: Any) -> Iterable[object]:
    """What an object is made of, as far as it may decide what the object does."""
    if isinstance(value, CodeType):
        return (value.co_code, value.co_names, value.co_varnames, value.co_freevars, *value.co_consts)
    if isinstance(value, FunctionType):
        code, closed = value.__code__, [cell.cell_contents for cell in value.__closure__ or ()]
        if value.__doc__ is not None:
            code = code.replace(co_consts=(None, *code.co_consts[1:]))
        return (code, value.__defaults__, value.__kwdefaults__, *closed, *_named(value))
    if isinstance(value, type):
        if value.__module__.split(".")[0] in ("fedtag", "builtins"):
            return (value.__qualname__,)
        own = ((name, part) for name, part in sorted(vars(value).items()) if name not in OF_THE_CLASS)
        return (*value.__bases__, *(part for pair in own for part in pair))
    if isinstance(value, Mapping):
        return [part for pair in value.items() for part in pair]
    if isinstance(value, tuple | list):
        return value
    if isinstance(value, set | frozenset):
        return sorted(map(repr, value))
    if isinstance(value, property | staticmethod | classmethod):
        return [getattr(value, name, None) for name in ("__func__", "fget", "fset")]
    if is_dataclass(value):
        return (type(value), *(getattr(value, one.name) for one in fields(value)))
    return (type(value), *sorted(vars(value).items())) if hasattr(value, "__dict__") else ()


def _named(function: FunctionType) -> Iterator[object]:
    """What a function names in its own module."""
    for name in function.__code__.co_names:
        found = function.__globals__.get(name)
        if isinstance(found, SIMPLE) or getattr(found, "__module__", None) == function.__module__:
            yield found
