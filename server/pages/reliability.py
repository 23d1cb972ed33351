"""Reliability diagrams: how often predictions are right, against how confident they are.

After Guo et al., "On Calibration of Modern Neural Networks" (2017), Figure 1: on the diagonal confidence is the
chance of being right, below it the model is too sure of itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fedtag.common.numerics.scores import CALIBRATION_BINS, ReliabilityBin
from fedtag.server.pages.chart import Axis, Chart, Panel, Rule, Series, bounded
from fedtag.server.pages.wording import count, percent

CENTRES = tuple((2 * place + 1) / (2 * CALIBRATION_BINS) for place in range(CALIBRATION_BINS))
MARKS = "Larger marks: more nodes."
TITLE = "Reliability: accuracy against confidence"
CONFIDENCE = Axis("confidence", "percent", 0.0, 1.0)


@dataclass(frozen=True)
class Curve:
    """One model's, or one method's, line of a diagram.

    Args:
        bins: lowest confidence first; at least one of them has a node.
        ece: the expected calibration error to name, a fraction; None if there is none to name.
        colour, dash: indices that wrap around.
    """

    name: str
    bins: Sequence[ReliabilityBin]
    ece: float | None
    colour: int
    dash: int = 0

    @property
    def label(self) -> str:
        """Its entry of the legend."""
        return f"{self.name} ({percent(self.ece)})"

    @property
    def nodes(self) -> int:
        """How many nodes were scored."""
        return sum(one.nodes for one in self.bins)

    @property
    def shares(self) -> list[float]:
        """Each bin's share of the nodes."""
        return [one.nodes / self.nodes for one in self.bins]


def reliability_chart(curves: Sequence[Curve], note: str = "") -> Chart | None:
    """The diagram of one or several models; None of none.

    Args:
        curves: in the order of the legend.
        note: what else the caption says, as a sentence.
    """
    if not curves:
        return None
    note = f"{MARKS} {note}".strip()
    if len(curves) == 1:
        (only,) = curves
        caption = f"Expected calibration error on test nodes: {percent(only.ece)}. {note}"
        return Chart(TITLE, caption, f"{balance(only)} {bin_words(only)}", panels(curves))
    caption = f"In brackets: expected calibration error on test nodes. {note}"
    alt = " ".join(f"{curve.name}: {balance(curve)}" for curve in curves)
    return Chart(TITLE, caption, alt, panels(curves))


def panels(curves: Sequence[Curve]) -> tuple[Panel, ...]:
    """Accuracy against confidence with the diagonal; below it how many nodes each bin has.

    A mark's area grows with its bin's share of the nodes. One model's bins have bars of their number of nodes,
    several models' have outlines of shares.
    """
    diagonal = Rule("right as often as confident", (0.0, 1.0), (0.0, 1.0))
    accuracy = Axis("accuracy", "percent", 0.0, 1.0)
    above = Panel(CONFIDENCE, accuracy, tuple(map(marks, curves)), (diagonal,))
    if len(curves) == 1:
        nodes = [float(one.nodes) for one in curves[0].bins]
        bars = Series(
            "nodes",
            CENTRES,
            nodes,
            curves[0].colour,
            drawn="bars",
            low=[0.0] * len(nodes),
            high=nodes,
            width=0.88 / CALIBRATION_BINS,
            legend=curves[0].label,
        )
        below = Panel(CONFIDENCE, Axis("nodes", "whole", 0.0), (bars,), share=0.45)
    else:
        outlines = tuple(
            Series(
                curve.name,
                CENTRES,
                curve.shares,
                curve.colour,
                curve.dash,
                "steps",
                width=1 / CALIBRATION_BINS,
                legend=curve.label,
            )
            for curve in curves
        )
        below = Panel(CONFIDENCE, Axis("nodes", "percent", 0.0), outlines, share=0.45)
    return above, bounded(below)


def marks(curve: Curve) -> Series:
    """A mark for each bin that has nodes, at its mean confidence, joined by a line."""
    found = [(one, share) for one, share in zip(curve.bins, curve.shares, strict=True) if one.nodes]
    return Series(
        curve.name,
        [one.confidence or 0.0 for one, _ in found],
        [one.accuracy or 0.0 for one, _ in found],
        curve.colour,
        curve.dash,
        sizes=[share for _, share in found],
        legend=curve.label,
    )


def balance(curve: Curve) -> str:
    """Mean confidence and accuracy over all nodes, and their calibration error."""
    confidence, accuracy = (
        sum(one.nodes * (getattr(one, name) or 0.0) for one in curve.bins) / curve.nodes
        for name in ("confidence", "accuracy")
    )
    return (
        f"Mean confidence {percent(confidence)}, accuracy {percent(accuracy)}, expected calibration error "
        f"{percent(curve.ece)}, over {count(curve.nodes)} nodes."
    )


def bin_words(curve: Curve) -> str:
    """Every bin that has nodes, for readers who do not see the plot."""
    said = [
        f"{percent(one.confidence)} confident, {percent(one.accuracy)} right, {count(one.nodes)} nodes"
        for one in curve.bins
        if one.nodes
    ]
    return f"By bin: {'; '.join(said)}."
