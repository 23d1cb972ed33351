"""Federated learning on text-attributed graphs, on Flower.

    graph = fedtag.Graph.from_pandas(nodes, edges, id="paper", text="abstract", label="field")
    run = fedtag.simulate(graph, method="dance", clients=5, rounds=50)
    run.rounds, run.predict(graph), run.evidence("paper-17"), run.report()

What is listed in `__all__`, in `fedtag.errors` and in `fedtag.extension` is public. Names are resolved when they are
first used, so that importing the package takes no time.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fedtag.comparison.interface import ComparisonResult, compare
    from fedtag.graph.graph import Graph
    from fedtag.runs.interface import open_run, predict, simulate
    from fedtag.runs.listing import methods, register, settings
    from fedtag.runs.run import Run

_PLACES = {
    "ComparisonResult": "fedtag.comparison.interface",
    "Graph": "fedtag.graph.graph",
    "Run": "fedtag.runs.run",
    "compare": "fedtag.comparison.interface",
    "methods": "fedtag.runs.listing",
    "open_run": "fedtag.runs.interface",
    "predict": "fedtag.runs.interface",
    "register": "fedtag.runs.listing",
    "settings": "fedtag.runs.listing",
    "simulate": "fedtag.runs.interface",
}
__all__ = [
    "ComparisonResult",
    "Graph",
    "Run",
    "compare",
    "methods",
    "open_run",
    "predict",
    "register",
    "settings",
    "simulate",
]


def __getattr__(name: str) -> Any:
    if name in ("errors", "extension"):
        return import_module(f"fedtag.{name}")
    if name not in _PLACES:
        raise AttributeError(f"module 'fedtag' has no attribute '{name}'")
    return getattr(import_module(_PLACES[name]), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "errors", "extension"])
