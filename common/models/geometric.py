"""PyTorch Geometric's layers, loaded without its data sets.

The package imports all of itself; its data sets load pandas and transformers, a quarter of a process's start. They are
put off to their first use by the library's own means, as it does with its rarer parts.
"""

from __future__ import annotations

import sys
from types import ModuleType

PACKAGE, PUT_OFF = "torch_geometric", "datasets"


def load() -> None:
    """Import the package, if nobody has done so."""
    name = f"{PACKAGE}.{PUT_OFF}"
    if PACKAGE in sys.modules:
        return
    sys.modules[name] = ModuleType(name)
    try:
        import torch_geometric
    finally:
        del sys.modules[name]
    from torch_geometric.lazy_loader import LazyLoader

    setattr(torch_geometric, PUT_OFF, LazyLoader(PUT_OFF, vars(torch_geometric), name))


load()

from torch_geometric.nn import GATConv, GCNConv, SAGEConv, TAGConv  # noqa: E402

__all__ = ["GATConv", "GCNConv", "SAGEConv", "TAGConv"]
