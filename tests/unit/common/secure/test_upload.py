from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from fedtag.common.errors import WireError
from fedtag.common.numerics.ranking import RANK_BINS
from fedtag.common.numerics.scores import CALIBRATION_BINS, LOCAL
from fedtag.common.secure.fixed_point import FixedPoint
from fedtag.common.secure.upload import SIZES, Layout

FIXED = FixedPoint(40, 16384.0)
COARSE = FixedPoint(20, 16384.0)
SHAPES: dict[str, tuple[int, ...]] = {"b.weight": (2, 3), "a.bias": (4,), "scale": ()}
PATHS = ("graph", "local")
CLASSES = 3


def layout_of(paths: tuple[str, ...] = PATHS) -> Layout:
    return Layout(SHAPES, paths, CLASSES, True)


def counts(generator: np.random.Generator, most: int) -> dict[str, torch.Tensor]:
    """Counts as a client has them, of each path and subset."""
    told = {}
    for path in PATHS:
        for subset in ("val", "test"):
            place = f"{path}/{subset}"
            told[f"{place}/confusion"] = torch.from_numpy(generator.integers(0, most, (CLASSES, CLASSES)))
            for field in ("bin_nodes", "bin_correct"):
                told[f"{place}/{field}"] = torch.from_numpy(generator.integers(0, most, CALIBRATION_BINS))
            if path != LOCAL:
                ranks = generator.integers(0, most, (2, CLASSES, RANK_BINS))
                told[f"{place}/ranks"] = torch.from_numpy(ranks).int()
            told[f"{place}/bin_confidence"] = torch.from_numpy(
                generator.random(CALIBRATION_BINS) * most
            ).float()
    return told


NAMES = st.text("abc.", min_size=1, max_size=6)
# Layouts are built inside the tests: types are checked by chance there, which no strategy may use.
PARTS = st.tuples(
    st.dictionaries(NAMES, st.lists(st.integers(0, 4), max_size=3).map(tuple), max_size=4),
    st.lists(st.sampled_from(["graph", "evidence", "local"]), unique=True).map(tuple),
    st.integers(0, 4),
    st.booleans(),
    st.lists(NAMES, unique=True, max_size=4).map(lambda names: tuple(sorted(names))),
)
Parts = tuple[dict[str, tuple[int, ...]], tuple[str, ...], int, bool, tuple[str, ...]]


@given(PARTS, st.data())
def test_one_client_comes_out_as_it_went_in(parts: Parts, data: st.DataObject) -> None:
    layout = Layout(*parts)
    values = st.floats(-100, 100, width=32)
    update = {
        name: torch.from_numpy(data.draw(arrays(np.float32, shape, elements=values)))
        for name, shape in layout.update.items()
    }
    scalars = (data.draw(st.floats(0, 100)), data.draw(st.floats(0, 1)))
    sizes = {name: data.draw(st.integers(0, 10**6)) for name in SIZES} if layout.statistics else None
    users = data.draw(st.sets(st.sampled_from(layout.used))) if layout.used else set()
    vector = layout.vector(update, scalars, sizes, 0.5, users=users)
    assert vector.shape == (layout.size,)
    assert vector.dtype == np.float64
    opened = layout.opened(vector)
    assert opened.update.keys() == layout.update.keys()
    for name, value in update.items():
        assert opened.update[name].dtype == torch.float64
        assert opened.update[name].shape == value.shape
        assert torch.equal(opened.update[name], value.double())
    assert (opened.steps, opened.weight) == scalars
    assert opened.users == {name: int(name in users) for name in layout.used}
    assert opened.shares == {
        name: scalars[1] if name in users else 0.0 for name in layout.used if name in layout.update
    }
    assert opened.sizes == (sizes or {})
    expected = 0.5 if sizes and sizes["train_nodes"] else None
    assert opened.loss == (None if expected is None else pytest.approx(expected))
    assert all(not bool(value.any()) for value in opened.scores.values())
    assert len(opened.scores) == sum(8 if path == LOCAL else 10 for path in layout.scores)


@given(PARTS)
def test_sizes_add_up(parts: Parts) -> None:
    layout = Layout(*parts)
    update = sum(math.prod(shape) for shape in layout.update.values())
    counted = len(layout.scores) * 2 * (layout.classes**2 + 3 * CALIBRATION_BINS)
    counted += sum(path != LOCAL for path in layout.scores) * 2 * (2 * layout.classes * RANK_BINS)
    assert layout.update_size == update
    assert layout.statistics_size == counted + 6 * layout.statistics
    use = len(layout.used) + sum(name in layout.update for name in layout.used)
    assert layout.open_size == update + 2 + use
    assert layout.size == update + 2 + use + counted + 6 * layout.statistics


@given(PARTS)
def test_a_layout_survives_json(parts: Parts) -> None:
    layout = Layout(*parts)
    assert Layout.from_json(json.loads(json.dumps(layout.as_json()))) == layout


@given(st.integers(1, 12), st.integers(0, 2**32 - 1), st.sampled_from([FIXED, COARSE]))
def test_sums_of_counts_are_exact(clients: int, seed: int, fixed: FixedPoint) -> None:
    generator = np.random.default_rng(seed)
    layout = layout_of()
    told = [counts(generator, 10**6) for _ in range(clients)]
    sizes = [{name: int(generator.integers(0, 10**9)) for name in SIZES} for _ in range(clients)]
    total = np.zeros(layout.size, np.uint64)
    for one, own in zip(told, sizes, strict=True):
        total += fixed.encode(layout.vector({}, (0.0, 0.0), own, None, one))
    opened = layout.opened(fixed.decode(total))
    assert opened.sizes == {name: sum(own[name] for own in sizes) for name in SIZES}
    for name in told[0]:
        exact = sum(one[name].double() for one in told)
        if name.endswith("bin_confidence"):
            assert opened.scores[name].dtype == torch.float32
            # Half a unit of fixed point a client, and the rounding of float32.
            bound = clients * 2.0 ** (20 - fixed.scale_bits - 1) + 1e-7 * float(exact.max())
            assert float((opened.scores[name].double() - exact).abs().max()) <= bound
        else:
            assert opened.scores[name].dtype == told[0][name].dtype
            assert torch.equal(opened.scores[name].double(), exact)


def test_the_loss_is_the_mean_over_the_nodes_of_those_who_trained() -> None:
    layout = Layout({}, (), 0, True)
    clients = [(30, 1.5), (10, 0.5), (1000, None), (0, None)]
    total = sum(
        layout.vector({}, (0.0, 0.0), {"train_nodes": nodes, "nodes": nodes}, loss) for nodes, loss in clients
    )
    opened = layout.opened(total)
    assert opened.loss == pytest.approx((30 * 1.5 + 10 * 0.5) / 40)
    assert opened.sizes == {"nodes": 1040, "train_nodes": 1040, "val_nodes": 0, "test_nodes": 0}
    assert layout.opened(layout.vector({}, (0.0, 0.0), {"train_nodes": 5}, None)).loss is None


def test_the_order_of_names_is_that_of_neither_side() -> None:
    one, other = Layout({"a": (1,), "b": (1,)}), Layout({"b": (1,), "a": (1,)})
    update = {"b": torch.tensor([2.0]), "a": torch.tensor([1.0])}
    assert (
        one.vector(update, (3.0, 4.0)).tolist()
        == other.vector(update, (3.0, 4.0)).tolist()
        == [1.0, 2.0, 3.0, 4.0]
    )
    # Names of scores go by the server's list.
    assert Layout({}, ("x", "y"), 1).size == Layout({}, ("y", "x"), 1).size


def test_what_is_missing_is_zero_and_what_is_surplus_stays_out() -> None:
    layout = Layout({"a": (2,), "b": (1,)})
    assert layout.vector({"b": torch.ones(1), "c": torch.ones(9)}, (0.0, 0.0)).tolist() == [0, 0, 1, 0, 0]
    assert layout.vector({}, (0.0, 0.0)).tolist() == [0] * 5
    # Nothing is told of sizes, loss and scores unless the layout has a place for them.
    told = layout.vector(
        {}, (0.0, 0.0), dict.fromkeys(SIZES, 7), 3.0, {"graph/val/confusion": torch.ones(1, 1)}
    )
    assert told.tolist() == [0] * 5


def test_opening_leaves_the_sum_as_it_was() -> None:
    total = np.ones(layout_of().size)
    layout_of().opened(total)
    assert total.tolist() == [1.0] * total.size


@pytest.mark.parametrize(
    ("update", "scores", "named"),
    [
        ({"b.weight": torch.zeros(3, 2)}, {}, "'b.weight' has shape (3, 2), agreed is (2, 3)"),
        ({"a.bias": torch.zeros(5)}, {}, "'a.bias' has shape (5,), agreed is (4,)"),
        ({"scale": torch.zeros(1)}, {}, "'scale' has shape (1,), agreed is ()"),
        (
            {},
            {"graph/val/confusion": torch.zeros(4, 4)},
            "'graph/val/confusion' has shape (4, 4), agreed is (3, 3)",
        ),
    ],
)
def test_other_shapes_are_refused(
    update: dict[str, torch.Tensor], scores: dict[str, torch.Tensor], named: str
) -> None:
    with pytest.raises(WireError) as error:
        layout_of().vector(update, (0.0, 0.0), {}, None, scores)
    assert str(error.value) == named


GOOD: dict[str, Any] = {
    "update": {"a": [2, 3]},
    "scores": ["graph"],
    "classes": 3,
    "statistics": True,
    "used": ["a"],
}
HOSTILE: list[Any] = [
    None,
    3,
    [],
    "update",
    {},
    {key: value for key, value in GOOD.items() if key != "classes"},
    {**GOOD, "more": 1},
    {**GOOD, "update": [["a", [2]]]},
    {**GOOD, "update": {"a": 3}},
    {**GOOD, "update": {"a": "23"}},
    {**GOOD, "update": {"a": [2.0]}},
    {**GOOD, "update": {"a": [-1]}},
    {**GOOD, "update": {"a": [True]}},
    {**GOOD, "update": {"a": [[2]]}},
    {**GOOD, "scores": "graph"},
    {**GOOD, "scores": [3]},
    {**GOOD, "classes": -1},
    {**GOOD, "classes": "3"},
    {**GOOD, "classes": 3.0},
    {**GOOD, "classes": None},
    {**GOOD, "statistics": 1},
    {**GOOD, "statistics": "yes"},
    {**GOOD, "used": "a"},
    {**GOOD, "used": [3]},
    {**GOOD, "used": None},
]


@pytest.mark.parametrize("told", HOSTILE)
def test_hostile_layouts_are_refused(told: Any) -> None:
    with pytest.raises(
        WireError, match="the layout of a masked upload is malformed: install the same fedtag"
    ):
        Layout.from_json(told)
    assert Layout.from_json(GOOD) == Layout({"a": (2, 3)}, ("graph",), 3, True, ("a",))
