"""What a backbone is: a family of graph convolutions under one interface."""

from __future__ import annotations

from dataclasses import dataclass

from fedtag.common.settings.registry import Reference, Registry, Spec


@dataclass(frozen=True, kw_only=True)
class BackboneSpec(Spec):
    """A backbone.

    Args:
        build: reference to a function (inputs, hidden, classes, model, table, skip) that returns a
            `NodeClassifier`; `model` has the shared settings, `table` those of `settings`, and `skip` asks for a
            linear map of the input that joins the logits.
        reads_neighbours: whether links matter.
        reads_weights: whether the weights of links matter.
        sampled: whether it can be computed on sampled neighbourhoods.
        sums: whether it adds up what neighbours say. Its gradients are cut, and it needs all neighbours: of a sample it
            learns other sums than it is used with.
        ordered: whether it sums over neighbours in one order on every device, as products with the adjacency do; of
            others PyTorch's deterministic kernels are asked, which take longer.
        stacks: whether it uses its parameters with rows of nodes alone, so that many clients can be computed at once.
        representation: what `hidden_and_logits` gives as the representation of a node.
    """

    build: Reference
    reads_neighbours: bool = True
    reads_weights: bool = True
    sampled: bool = True
    sums: bool = False
    ordered: bool = False
    stacks: bool = True
    representation: str = "input of the last layer"

    @property
    def references(self) -> tuple[Reference, ...]:
        return (self.build,)


BACKBONES = Registry("fedtag.backbones", "backbone", "model.backbone", BackboneSpec)
