"""What a condenser is: a graph in, a few labelled nodes out."""

from __future__ import annotations

from dataclasses import dataclass

from fedtag.common.settings.registry import Reference, Registry, Spec


@dataclass(frozen=True, kw_only=True)
class CondenserSpec(Spec):
    """A condenser.

    Args:
        condensed: reference to the function that condenses a graph, a `fedtag.client.condense.condenser.Condenser`;
            for one that works anew in every round, of the function that gives the examples of a round, a
            `fedtag.client.condense.examples.RoundExamples`.
        copies: its condensed nodes are real ones.
        every_round: it works anew in every round, by the received model; else once, before training.
        validates: labels of validation nodes decide when it ends.
    """

    condensed: Reference
    copies: bool = False
    every_round: bool = False
    validates: bool = False

    @property
    def references(self) -> tuple[Reference, ...]:
        return (self.condensed,)


CONDENSERS = Registry("fedtag.condensers", "condenser", "condenser.name", CondenserSpec)
NONE = "none"
"""In place of a condenser: clients train on their graphs."""
