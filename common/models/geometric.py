"""PyTorch Geometric's layers, loaded without its data sets and torch's compiler.

The package imports all of itself; its data sets load pandas and transformers, and one check of types loads the
compiler: half of a process's start. The data sets are put off to their first use by the library's own means, as it
does with its rarer parts; the check asks the compiler where somebody has loaded it, since nothing is compiled before.
"""

from __future__ import annotations

import sys
from types import ModuleType

PACKAGE, PUT_OFF, CHECK = "torch_geometric", "datasets", "isinstance"


def is_torch_instance(value: object, kind: type | tuple[type, ...]) -> bool:
    """Whether a value, or what was compiled of it, is of a kind."""
    compiler = sys.modules.get("torch._dynamo")
    if compiler is not None and isinstance(value, compiler.OptimizedModule):
        return isinstance(value._orig_mod, kind)
    return isinstance(value, kind)


def load() -> None:
    """Import the package, if nobody has done so."""
    if PACKAGE in sys.modules:
        return
    check = ModuleType(f"{PACKAGE}.{CHECK}")
    vars(check)["is_torch_instance"] = is_torch_instance
    sys.modules |= {check.__name__: check, f"{PACKAGE}.{PUT_OFF}": ModuleType(f"{PACKAGE}.{PUT_OFF}")}
    try:
        import torch_geometric
    finally:
        del sys.modules[f"{PACKAGE}.{PUT_OFF}"]
    from torch_geometric.lazy_loader import LazyLoader

    setattr(torch_geometric, PUT_OFF, LazyLoader(PUT_OFF, vars(torch_geometric), f"{PACKAGE}.{PUT_OFF}"))


load()

from torch_geometric.nn import (  # noqa: E402
    GATConv,
    GCNConv,
    GINConv,
    GMMConv,
    ResGatedGraphConv,
    SAGEConv,
    TAGConv,
)

__all__ = ["GATConv", "GCNConv", "GINConv", "GMMConv", "ResGatedGraphConv", "SAGEConv", "TAGConv"]
