"""The checks of each kind of extension."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from fedtag.common.condensers.spec import CondenserSpec
from fedtag.common.config import RunConfig
from fedtag.common.errors import ConfigError
from fedtag.common.graph import normalised_adjacency
from fedtag.common.methods.spec import METHODS, MethodSpec, PresetSpec
from fedtag.common.models.assembly import initial_backbone
from fedtag.common.models.spec import BackboneSpec
from fedtag.common.parts.spec import PARTS, PartSpec
from fedtag.common.settings.registry import Spec
from fedtag.runs.listing import register
from fedtag.testing.checks import ALL, require
from fedtag.testing.subject import CLASSES, WIDTH, Subject

Settings = Mapping[str, Any]


def check_method(method: str | MethodSpec | PresetSpec, settings: Settings | None = None) -> None:
    """Ask of a method or preset what every method owes its users.

    Its runs are complete, deterministic and resumable to the bit; clients that lack something take part; labels of test
    nodes change no model; masks change nothing but rounding; what it names can be imported, and reading its
    specification imports no PyTorch. What it sends is what it declares, else nothing comes of its runs.

    Args:
        method: its name, or its specification.
        settings: further ones, by dotted key, for example those that make it quick.

    Raises:
        AssertionError: it breaks one of these; the text says which.
        FedtagError: a run fails.
    """
    name = named(method)
    _ask(f"method {name}", {"method": name, **(settings or {})})


def check_part(part: str | PartSpec, settings: Settings | None = None) -> None:
    """The same of a part, around the first method with which it goes; `settings` may name another one."""
    name = named(part)
    given = {"parts": name, **(settings or {})}
    if name in PARTS and (switch := PARTS.get(name).switch) and f"{name}.{switch}" in given:
        # What a switch turns on need not be named.
        del given["parts"]
    _ask(f"part {name}", with_method(given))


def check_condenser(condenser: str | CondenserSpec, settings: Settings | None = None) -> None:
    """The same of a condenser, under the first method whose clients train on what any condenser makes."""
    name = named(condenser)
    _ask(f"condenser {name}", with_method({"condenser.name": name, **(settings or {})}))


def check_backbone(backbone: str | BackboneSpec, settings: Settings | None = None) -> None:
    """The same of a backbone; and that it takes graphs without edges, of one node, and has gradients."""
    name = named(backbone)
    chosen = with_method({"model.backbone": name, **(settings or {})})
    config = RunConfig.from_flat(dict(chosen))
    for nodes, edges in ((1, []), (5, []), (5, [(0, 1), (1, 0), (1, 2), (2, 1)])):
        model = initial_backbone(config, WIDTH, len(CLASSES))
        pairs = torch.tensor(edges, dtype=torch.long).reshape(-1, 2).T
        x, adjacency = torch.ones(nodes, WIDTH), normalised_adjacency(pairs, nodes)
        hidden, logits = model.hidden_and_logits(x, adjacency)
        subject = Subject(f"backbone {name}", chosen, Path())
        require(
            logits.shape == (nodes, len(CLASSES)), subject, f"gives logits of the shape {list(logits.shape)}"
        )
        require(len(hidden) == nodes, subject, "gives another number of representations than of nodes")
        require(
            bool(logits.isfinite().all()),
            subject,
            f"gives no finite logits on {nodes} nodes, {len(edges)} edges",
        )
        logits.sum().backward()
        moved = [value for value in model.parameters() if value.grad is not None]
        require(moved, subject, "has no parameter with a gradient")
    _ask(f"backbone {name}", chosen)


def named(spec: str | Spec) -> str:
    """The name of what is installed, or of a specification that is handed over."""
    return spec if isinstance(spec, str) else register(spec)


def with_method(settings: Settings) -> Settings:
    """Settings with the first method that goes with them, trains the backbone and has clients of its own.

    Raises:
        ConfigError: none does; with why the last one does not.
    """
    if "method" in settings:
        return settings
    last: ConfigError | None = None
    for name, spec in METHODS.usable().items():
        traits = spec.traits
        if not traits.backbone or traits.pooled or not traits.sums or traits.texts != "no":
            continue
        try:
            RunConfig.from_flat({"method": name, **settings})
        except ConfigError as error:
            last = error
            continue
        return {"method": name, **settings}
    raise last or ConfigError("no method goes with these settings: name one with settings={'method': ...}")


def _ask(what: str, settings: Settings) -> None:
    with tempfile.TemporaryDirectory(prefix="fedtag-") as folder:
        subject = Subject(what, settings, Path(folder))
        for check in ALL:
            check(subject)
