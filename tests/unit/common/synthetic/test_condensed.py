from __future__ import annotations

import pytest
import torch
from torch import Tensor

from fedtag.common.errors import WireError
from fedtag.common.synthetic.condensed import Condensed

NODES, DIM, CLASSES = 4, 3, 2


def sound() -> dict[str, Tensor]:
    return {
        "x": torch.randn(NODES, DIM, generator=torch.Generator().manual_seed(0)),
        "y": torch.tensor([0, 1, 1, 0]),
        "edge_index": torch.tensor([[0, 1, 2, 3], [1, 0, 3, 2]]),
        "edge_weight": torch.full((4,), 0.5),
    }


def test_sound_tensors_are_taken_as_they_are() -> None:
    graph = Condensed.foreign(sound(), DIM, CLASSES)
    assert not graph.copies
    for name, value in sound().items():
        assert torch.equal(graph.tensors[name], value)


def test_links_may_be_absent() -> None:
    none = {"edge_index": torch.zeros(2, 0, dtype=torch.int64), "edge_weight": torch.zeros(0)}
    assert Condensed.foreign(sound() | none, DIM, CLASSES).edge_weight.numel() == 0


FAULTS: dict[str, tuple[dict[str, Tensor], str]] = {
    "another dimension": ({"x": torch.zeros(NODES, DIM + 1)}, r"x is float32 of shape \(4, 4\) and should be"),
    "fewer features": ({"x": torch.zeros(NODES - 1, DIM)}, r"x is float32 of shape \(3, 3\)"),
    "flat features": ({"x": torch.zeros(NODES)}, r"x is float32 of shape \(4,\)"),
    "features of half precision": ({"x": torch.zeros(NODES, DIM).half()}, "x is float16"),
    "features that are no numbers": ({"x": torch.full((NODES, DIM), torch.nan)}, "features that are not finite"),
    "infinite features": ({"x": torch.full((NODES, DIM), torch.inf)}, "features that are not finite"),
    "labels as fractions": ({"y": torch.zeros(NODES)}, "y is float32"),
    "a matrix of labels": ({"y": torch.zeros(NODES, 1, dtype=torch.int64)}, r"y is int64 of shape \(4, 1\)"),
    "one label": ({"y": torch.tensor(0)}, r"x is float32 of shape \(4, 3\) and should be .* \(3,\)"),
    "a label below": ({"y": torch.tensor([0, -1, 1, 0])}, "labels outside its 2 classes"),
    "a label above": ({"y": torch.tensor([0, 2, 1, 0])}, "labels outside its 2 classes"),
    "no nodes": ({"x": torch.zeros(0, DIM), "y": torch.zeros(0, dtype=torch.int64)}, "has no nodes"),
    "links of three": ({"edge_index": torch.zeros(3, 4, dtype=torch.int64)}, "edge_index is int64"),
    "other many weights": ({"edge_weight": torch.ones(3)}, "edge_index is int64"),
    "a link to nowhere": ({"edge_index": torch.tensor([[0, 1, 2, 4], [1, 0, 4, 2]])}, "nodes that are not there"),
    "a link from below": ({"edge_index": torch.tensor([[0, 1, 2, -1], [1, 0, 3, 2]])}, "nodes that are not there"),
    "a weight of 0": ({"edge_weight": torch.tensor([1.0, 1.0, 0.0, 1.0])}, "not above 0"),
    "a weight without end": ({"edge_weight": torch.full((4,), torch.inf)}, "not above 0 and finite"),
    "another tensor": ({"z": torch.zeros(1)}, r"z is float32 of shape \(1,\) and should be absent"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_what_cannot_be_trained_on_is_refused(fault: str) -> None:
    changed, message = FAULTS[fault]
    with pytest.raises(WireError, match=message):
        Condensed.foreign(sound() | changed, DIM, CLASSES)


@pytest.mark.parametrize("name", sound())
def test_no_tensor_may_be_missing(name: str) -> None:
    tensors = sound()
    del tensors[name]
    with pytest.raises(WireError, match=r"absent|and should be"):
        Condensed.foreign(tensors, DIM, CLASSES)
