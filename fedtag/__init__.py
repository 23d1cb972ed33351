"""Federated learning on text-attributed graphs, on Flower.

    graph = fedtag.Graph.from_pandas(nodes, edges, id="paper", text="abstract", label="field")
    run = fedtag.simulate(graph, clients=5, rounds=50)
    run.rounds, run.predict(graph), run.evidence("paper-17"), run.report()

What is listed in `__all__`, in `fedtag.errors` and in `fedtag.extension` is public. Names are resolved when they are
first used, so that importing the package takes no time.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
