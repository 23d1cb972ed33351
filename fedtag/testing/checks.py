"""What is asked of everything that computes, each as one function; what it breaks is raised in a sentence."""

from __future__ import annotations

import contextlib
import math
import subprocess
import sys
from collections.abc import Callable

from fedtag.common.config import RunConfig
from fedtag.common.errors import ConfigError
from fedtag.common.settings.registry import HERE
from fedtag.runs import course
from fedtag.runs.progress import LogProgress
from fedtag.runs.run import Run
from fedtag.server.state.progress import SilentProgress
from fedtag.server.tracking.rows import RoundRow
from fedtag.testing.subject import Subject, graph_of, odd_graphs, same_models

Check = Callable[[Subject], None]
ROUNDING = 1e-3
"""What fixed point and another order of sums may change in a parameter after two rounds."""


def require(holds: object, subject: Subject, sentence: str) -> None:
    """Raise AssertionError with what a subject breaks."""
    if not holds:
        raise AssertionError(f"{subject.what} {sentence}")


def releases(subject: Subject) -> bool:
    """Whether its runs leave a model."""
    return subject.config.spec.traits.releases != "nothing"


def it_says_what_it_is(subject: Subject) -> None:
    """Title and interface are there, and everything that it names can be imported."""
    for registry, name in subject.config.chosen:
        spec = registry.get(name)
        require(spec.title.strip(), subject, "has no title")
        for reference in spec.imports:
            registry.resolved(spec, reference)


def reading_it_imports_no_torch(subject: Subject) -> None:
    """Help and settings are instant, with it installed."""
    for registry, name in subject.config.chosen:
        if registry.origin(name).package == HERE:
            continue
        code = (
            "import sys; from fedtag.common.config.catalogue import REGISTRIES; "
            f"[one.get({name!r}) for one in REGISTRIES if one.group == {registry.group!r}]; "
            "sys.exit('torch' in sys.modules)"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        require(
            done.returncode == 0,
            subject,
            f"imports PyTorch when its specification is read {done.stderr[-300:]}",
        )


def every_round_has_rows(subject: Subject) -> None:
    """Each round is scored, no number is infinite, no client fails, weights come to 1."""
    run = subject.run()
    expected = list(range(1, subject.config.rounds + 1))
    require(run.finished, subject, "does not finish a run")
    require(run.rounds["round"].tolist() == expected, subject, "leaves out a round")
    numbers = run.rounds.select_dtypes("number").to_numpy()
    require(
        not any(map(math.isinf, numbers.flatten())), subject, "has a number that is not finite in its rows"
    )
    require(run.rounds["test_accuracy"].notna().all(), subject, "has a round without a score")
    require((run.rounds["clients_failed"] == 0).all(), subject, "fails at a client: see sites/errors.log")
    for number, rows in run.clients.groupby("round"):
        weights = rows["weight"].dropna()
        require(
            weights.empty or abs(weights.sum() - 1) < 1e-6,
            subject,
            f"has weights of {weights.sum()} in round {number}",
        )


def a_model_is_released(subject: Subject) -> None:
    """It predicts every node of a graph, with probabilities."""
    if not releases(subject):
        return
    graphs = subject.graphs()
    run = subject.run(graphs)
    table = run.predict(graphs[0], evidence=False)
    require(len(table) == len(graphs[0]), subject, "does not predict every node")
    shares = table[[name for name in table.columns if name.startswith("p:")]].sum(axis=1)
    require(((shares - 1).abs() < 1e-4).all(), subject, "predicts probabilities that do not come to 1")


def the_same_seed_gives_the_same_bits(subject: Subject) -> None:
    """Twice the same; another seed gives another model."""
    one, other = subject.run(), subject.run()
    scores = ["val_accuracy", "test_accuracy", "test_ece"]
    require(one.rounds[scores].equals(other.rounds[scores]), subject, "scores otherwise when it is run again")
    if releases(subject):
        require(same_models(one, other), subject, "gives another model when it is run again")
        require(not same_models(one, subject.run(seed=1)), subject, "gives the same model with another seed")


class Stopping(SilentProgress):
    """It stops a run after its first round, as Ctrl-C would."""

    def advance(self, row: RoundRow) -> None:
        raise KeyboardInterrupt


class Stopped(LogProgress):
    """Of a run that `Stopping` stops."""

    def __init__(self) -> None:
        super().__init__()
        self.rounds = Stopping()


def a_stopped_run_goes_on_to_the_same_bits(subject: Subject) -> None:
    """All that the next round needs is in the checkpoint, and in what sites keep."""
    graphs = subject.graphs()
    whole, out = subject.run(graphs), subject.place()
    flat = {**subject.flat(len(graphs)), "data.source": ";".join(one.name for one in graphs), "out": str(out)}
    with contextlib.suppress(KeyboardInterrupt):
        course.start(RunConfig.from_flat(flat), progress=Stopped(), graphs=[one.text_graph for one in graphs])
    require(not Run(out).finished, subject, "was not stopped")
    run = Run(out).resume(progress=False)
    scores = ["val_accuracy", "test_accuracy", "test_ece"]
    require(run.rounds[scores].equals(whole.rounds[scores]), subject, "scores otherwise after a stop")
    require(not releases(subject) or same_models(run, whole), subject, "gives another model after a stop")


def clients_that_lack_something_take_part(subject: Subject) -> None:
    """Without training nodes, with one class, without edges, with nothing to score, with one node."""
    graphs = odd_graphs()
    if subject.config.spec.traits.pooled:
        graphs = graphs[:1]
    run = subject.run(graphs)
    failed = run.clients.dropna(subset="failed")
    told = "; ".join(f"{row.client}: {row.failed}" for row in failed.itertuples()) if len(failed) else ""
    require(failed.empty, subject, f"fails at clients that lack something ({told}): see sites/errors.log")


def labels_of_test_nodes_change_no_model(subject: Subject) -> None:
    """Labels of test nodes are for reading alone."""
    if not releases(subject):
        return
    graphs = subject.graphs()
    changed = []
    for graph in graphs:
        table = graph.nodes
        table.loc[table["split"] == "test", "label"] = "a"
        changed.append(graph_of(table, graph.edges, graph.text_graph.features, graph.name))
    one, other = subject.run(graphs), subject.run(changed)
    require(same_models(one, other), subject, "gives another model when labels of test nodes change")
    require(
        not one.rounds["test_accuracy"].equals(other.rounds["test_accuracy"]),
        subject,
        "scores test nodes without looking at their labels",
    )


def masks_change_nothing_but_rounding(subject: Subject) -> None:
    """Where its phases allow secure aggregation, the same model comes of masked sums."""
    graphs = [*subject.graphs(), *odd_graphs()[:1]]
    masked = {"privacy__secure_aggregation": True, "aggregation__rule": "mean"}
    traits = subject.config.spec.traits
    if traits.pooled or not traits.sums or not releases(subject):
        return
    try:
        RunConfig.from_flat(subject.flat(len(graphs), **masked))
    except ConfigError:
        # What it does not go with, it says.
        return
    clear, hidden = subject.run(graphs, aggregation__rule="mean"), subject.run(graphs, **masked)
    require(same_models(clear, hidden, ROUNDING), subject, "gives another model under secure aggregation")


ALL: tuple[Check, ...] = (
    it_says_what_it_is,
    reading_it_imports_no_torch,
    every_round_has_rows,
    a_model_is_released,
    the_same_seed_gives_the_same_bits,
    a_stopped_run_goes_on_to_the_same_bits,
    clients_that_lack_something_take_part,
    labels_of_test_nodes_change_no_model,
    masks_change_nothing_but_rounding,
)
