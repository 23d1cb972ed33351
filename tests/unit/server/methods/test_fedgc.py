from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

from fedtag.common.config import RunConfig
from fedtag.common.errors import ConfigError
from fedtag.common.methods.fedgc.names import (
    COUNTS,
    FEATURES,
    GRADIENT,
    LABELLED,
    NODES,
    SEEN,
    SQUARES,
    TEACHER,
    TRAINED,
    UNIT,
)
from fedtag.common.methods.fedgc.settings import FedGCConfig
from fedtag.common.models.parameters import parameters_of
from fedtag.common.synthetic.gradients import initial_weights
from fedtag.common.wire.records import Content, Reply
from fedtag.server.methods.fedgc.condensation import Sums, as_it_stands, begun, moved, taught
from fedtag.server.methods.fedgc.method import METHOD
from fedtag.server.protocol.context import ServerContext
from fedtag.server.protocol.state import Aggregate, Agreement, ServerState

CLASSES, DIM, HIDDEN = 3, 4, 5
AGREEMENT = Agreement(("a", "b", "c"), DIM, "features.npy")


def config(**changes: Any) -> RunConfig:
    own = {name.replace("__", ".").replace("_", "-"): value for name, value in changes.items()}
    base = {"method": "fedgc", "rounds": 6, "model.hidden": 6, "fedgc.hidden": HIDDEN, "ratio": 0.1}
    base |= {"fedgc.links": "learned", "fedgc.learn-from": "both", "fedgc.min-class-count": 2}
    return RunConfig.from_flat({**base, "fedgc.self-training-rounds": 2, "fedgc.model-steps": 3, **own})


def sums(trained: list[int], seed: int = 0, nodes: int = 100) -> Sums:
    generator = torch.Generator().manual_seed(seed)
    weights = initial_weights("gcn", DIM, HIDDEN, CLASSES, generator)
    gradients = tuple(
        torch.randn(CLASSES, *weight.shape, generator=generator, dtype=torch.float64) for weight in weights
    )
    x = torch.randn(sum(trained), DIM, generator=generator, dtype=torch.float64) * 2 + 1
    counts = torch.tensor(trained)
    return Sums(gradients, counts.double(), counts, counts, nodes, len(x), x.sum(0), x.square().sum(0))


@given(st.lists(st.integers(0, 30), min_size=CLASSES, max_size=CLASSES).filter(any), st.integers(0, 10))
def test_labels_follow_the_training_nodes_by_largest_remainder(trained: list[int], tenths: int) -> None:
    nodes = 10 * max(tenths, 1)
    y = begun(sums(trained, nodes=nodes), config(fedgc__links="none"))["y"]
    found = torch.bincount(y, minlength=CLASSES).tolist()
    size = max(nodes // 10, sum(count > 0 for count in trained))
    assert sum(found) == size
    for count, places in zip(trained, found, strict=True):
        # At least one of each class that exists anywhere, none of others.
        assert (places > 0) == (count > 0)
        share = count * size / sum(trained)
        assert places >= 1 if 0 < share < 1 else places <= share + 1 or count == 0


def test_features_begin_with_the_moments_of_the_nodes() -> None:
    given_sums = sums([200, 200, 200], nodes=50000)
    start = begun(given_sums, config(fedgc__links="none"))
    assert given_sums.features is not None
    assert given_sums.squares is not None
    mean = given_sums.features / 600
    assert torch.allclose(start["x"].mean(0).double(), mean, atol=0.1)
    deviation = (given_sums.squares / 600 - mean**2).sqrt()
    assert torch.allclose(start["x"].std(0).double(), deviation, atol=0.1)
    assert float(start["deviation"]) == pytest.approx(float(deviation.mean()))


def test_features_that_do_not_vary_get_some_noise() -> None:
    flat = sums([1, 0, 0])
    x = begun(flat, config(fedgc__links="none"))["x"]
    assert flat.features is not None
    assert not bool((x == flat.features.float()).all(1).any())


def test_gradients_are_means_over_the_nodes_of_a_class() -> None:
    found = sums([4, 0, 2])
    mean = found.gradient()
    assert found.matched.tolist() == [True, False, True]
    for value, total in zip(mean, found.gradients, strict=True):
        assert torch.allclose(value[0].double(), total[0] / 4)
        assert torch.allclose(value[2].double(), total[2] / 2)


def test_classes_without_a_gradient_stay_where_they_are() -> None:
    whole = sums([4, 4, 4])
    settings = config(fedgc__links="none")
    start = begun(whole, settings)
    partly = Sums(whole.gradients, torch.tensor([4.0, 0.0, 4.0]), whole.labelled, whole.trained, 100)
    after, _ = moved(start, partly, 7, settings)
    still = start["y"] == 1
    assert torch.equal(after["x"][still], start["x"][still])
    assert not torch.equal(after["x"][~still], start["x"][~still])


def test_a_round_takes_its_steps_and_can_be_repeated() -> None:
    settings = config(fedgc__steps=4)
    start = begun(sums([4, 4, 4]), settings)
    one, other = (moved(start, sums([4, 4, 4]), 7, settings)[0] for _ in range(2))
    assert int(one["matched"]) == 4
    assert one.keys() == other.keys()
    assert all(torch.equal(value, other[name]) for name, value in one.items())
    graph = as_it_stands(one, settings)
    assert graph.num_nodes == 10
    assert not graph.copies


def test_distances_are_those_before_each_step() -> None:
    """Squared differences from gradients of cross-entropy that autograd takes class by class."""
    settings = config(fedgc__links="none", fedgc__steps=3)
    whole = sums([4, 4, 4])
    start = begun(whole, settings)
    after, distances = moved(start, whole, 7, settings)
    shorter = config(fedgc__links="none", fedgc__steps=2)
    before_last, _ = moved(start, whole, 7, shorter)
    generator = torch.Generator().manual_seed(7)
    dim, hidden = start["x"].shape[1], settings.own(FedGCConfig).hidden
    weights = initial_weights(settings.own(FedGCConfig).matching_model, dim, hidden, 3, generator)
    told: list[float] = []
    for tensors in (start, before_last):
        total = 0.0
        for label in range(3):
            moving = [weight.clone().requires_grad_() for weight in weights]
            x = tensors["x"][tensors["y"] == label]
            first, bias, second, other = moving
            loss = functional.cross_entropy(
                (x @ first + bias).relu() @ second + other, torch.full((x.shape[0],), label)
            )
            found = torch.autograd.grad(loss, moving)
            wanted = [value[label].double() / 4 for value in whole.gradients]
            total += sum(float((one - two).square().sum()) for one, two in zip(found, wanted, strict=True))
        told.append(total)
    assert len(distances) == 3
    assert [distances[0], distances[-1]] == pytest.approx(told, rel=1e-4)
    assert int(after["matched"]) == 3


class Federation:
    """The server's method, fed with the means that clients' sums come to."""

    def __init__(self, **changes: Any) -> None:
        self.config = config(**changes)
        self.context = ServerContext(self.config)
        self.state = METHOD.begin(AGREEMENT, self.context)

    def replies(self, names: tuple[str, ...] = ("site-0", "site-1")) -> dict[str, Reply]:
        content = Content({}, {"sizes": {"train_nodes": 6}})
        return {name: Reply("run", 1, 1, "condense", name, content) for name in names}

    def step(self, scale: float, trained: list[int]) -> dict[str, Tensor]:
        found = sums(trained)
        assert found.features is not None
        assert found.squares is not None
        told = {f"{GRADIENT}/{place}": value for place, value in enumerate(found.gradients)}
        told |= {COUNTS: found.counts, LABELLED: found.labelled, TRAINED: found.trained}
        told |= {NODES: torch.tensor([100]), SEEN: torch.tensor([found.seen])}
        told |= {FEATURES: found.features, SQUARES: found.squares}
        return {name: (value.double() / scale).float() for name, value in told.items()}

    def round(self, step: dict[str, Tensor], names: tuple[str, ...] = ("site-0", "site-1")) -> None:
        number = self.state.values["round"] + 1
        (phase,) = METHOD.phases(number, self.context)
        weights = dict.fromkeys(names, 1 / len(names))
        model = {**self.state.section("model")} if phase.gathers == "step" else {}
        aggregate = Aggregate(step, model, weights)
        self.state, used = METHOD.combine(self.state, phase, self.replies(names), aggregate, self.context)
        assert used == weights

    def instruction(self, client: str | None) -> Content:
        (phase,) = METHOD.phases(self.state.values["round"] + 1, self.context)
        return METHOD.instruct(self.state, phase, client, self.context)


@pytest.mark.parametrize(
    ("weights", "scale"), [("samples", 12.0), ("uniform", 2 / UNIT)], ids=["samples", "uniform"]
)
def test_means_become_sums_again(weights: str, scale: float) -> None:
    one = Federation(fedgc__learn_from="training", aggregation__weights=weights)
    one.round(one.step(scale, [4, 4, 4]))
    assert torch.bincount(one.state.section("condensed")["y"]).tolist() == [4, 3, 3]
    assert one.state.values["matched"] == [True] * 3


def test_the_self_trained_model_goes_to_those_who_may_not_have_it() -> None:
    one = Federation()
    for _ in range(2):
        assert not one.instruction("site-0").section(TEACHER)
        one.round({"w": torch.zeros(1)})
    assert METHOD.phases(3, one.context)[0].name == "condense"
    first = one.instruction("site-0")
    teacher = one.state.section("model")
    assert all(torch.equal(value, teacher[name]) for name, value in first.section(TEACHER).items())
    one.round(one.step(12.0, [4, 4, 4]))
    assert not one.instruction("site-0").section(TEACHER)
    assert one.instruction("site-0").values[TEACHER] == first.values[TEACHER]
    assert one.instruction("newcomer").section(TEACHER)
    one.round(one.step(12.0, [4, 4, 4]), ("site-1",))
    # Who failed may have lost what it made of it.
    assert one.instruction("site-0").section(TEACHER)


def test_sums_of_features_are_asked_for_once() -> None:
    one = Federation(fedgc__learn_from="training")
    (phase,) = METHOD.phases(1, one.context)
    assert METHOD.instruct(None, phase, None, one.context).values["moments"]
    assert f"update/{FEATURES}" in METHOD.expected(one.state, phase, one.context)
    one.round(one.step(12.0, [4, 4, 4]))
    assert not one.instruction("site-0").values["moments"]
    assert f"update/{FEATURES}" not in METHOD.expected(one.state, phase, one.context)


def test_every_round_has_another_matching_model() -> None:
    one = Federation(fedgc__learn_from="training")
    seeds = []
    for _ in range(4):
        seeds.append(one.instruction(None).values["theta"])
        one.round(one.step(12.0, [4, 4, 4]))
    assert len(set(seeds)) == 4


def test_a_model_is_made_for_rounds_that_are_scored_alone() -> None:
    one = Federation(fedgc__learn_from="training", evaluation__every=3)
    models = []
    for number in range(1, 7):
        one.round(one.step(12.0, [4, 4, 4]))
        models.append(one.state.section("model"))
        assert bool(one.instruction("site-0").section("model")) == (number % 3 == 0)
    same = [
        all(torch.equal(value, after[name]) for name, value in before.items())
        for before, after in pairwise(models)
    ]
    assert same == [True, False, True, True, False]


def test_rounds_without_sums_leave_what_was_learned() -> None:
    one = Federation(fedgc__learn_from="training")
    one.round({})
    assert not one.state.section("condensed")
    assert not METHOD.condensed(one.state, one.context)
    assert one.state.values["round"] == 1
    one.round(one.step(12.0, [4, 4, 4]))
    before = one.state
    one.round({})
    assert all(torch.equal(value, one.state.tensors[name]) for name, value in before.tensors.items())


def test_what_is_released_is_the_graph_behind_the_model() -> None:
    one = Federation()
    for _ in range(2):
        one.round({"w": torch.zeros(1)})
    one.round(one.step(12.0, [4, 4, 4]))
    released = Content(METHOD.condensed(one.state, one.context))
    assert released.section("teacher").keys() == one.state.section("teacher").keys()
    graph = as_it_stands(one.state.section("condensed"), one.config)
    assert torch.equal(released.section("graph")["x"], graph.x)
    model = parameters_of(taught(graph, CLASSES, one.config))
    assert all(torch.equal(value, one.state.section("model")[name]) for name, value in model.items())
    assert [METHOD.releasable(number, one.context) for number in (1, 2, 3)] == [False, False, True]


def test_the_checkpoint_is_json_and_tensors() -> None:
    one = Federation(fedgc__learn_from="training")
    one.round(one.step(12.0, [4, 4, 4]))
    values = json.loads(json.dumps(one.state.values))
    again = ServerState(dict(one.state.tensors), values)
    phase = METHOD.phases(2, one.context)[0]
    step = one.step(12.0, [4, 4, 4])
    aggregate = Aggregate(step, {}, {"site-0": 0.5, "site-1": 0.5})
    first, second = (
        METHOD.combine(state, phase, one.replies(), aggregate, one.context)[0] for state in (one.state, again)
    )
    assert first.values == second.values
    assert all(torch.equal(value, second.tensors[name]) for name, value in first.tensors.items())


def test_a_class_is_matched_from_the_first_node_behind_its_gradient() -> None:
    none = torch.zeros(3, dtype=torch.long)
    sums = Sums((torch.ones(3, 2),), torch.tensor([0.0, 1.0, 3.0]), none, none, 4)
    assert sums.matched.tolist() == [False, True, True]
    (gradient,) = sums.gradient()
    assert torch.allclose(gradient, torch.tensor([[1.0, 1.0], [1.0, 1.0], [1 / 3, 1 / 3]]))


def few(one: Federation, labelled: list[int], told: list[int], scale: float = 12.0) -> dict[str, Tensor]:
    """Sums over all clients, of which those of single clients may be too few to be told."""
    step = one.step(scale, labelled)
    return step | {COUNTS: torch.tensor(told) / scale}


def test_a_graph_of_which_no_class_is_matched_is_refused() -> None:
    one = Federation(fedgc__learn_from="training", fedgc__min_class_count=5, clients=2)
    with pytest.raises(ConfigError) as refused:
        one.round(few(one, [8, 4, 2], [0, 0, 0]))
    for word in ("fedgc.min-class-count = 5", "than a client has", "a 8, b 4, c 2", "lower"):
        assert word in str(refused.value)


def test_who_waits_for_clients_is_refused_after_the_last_round_alone() -> None:
    one = Federation(fedgc__learn_from="training", fedgc__min_class_count=5, clients=3, rounds=3)
    for _ in range(2):
        one.round(few(one, [8, 4, 2], [0, 0, 0]))
        assert not METHOD.condensed(one.state, one.context)
        assert one.instruction("site-0").values["moments"]
    with pytest.raises(ConfigError, match=r"fedgc\.min-class-count = 5"):
        one.round(few(one, [8, 4, 2], [0, 0, 0]))


def test_under_masks_those_of_all_clients_count_from_the_next_round_on() -> None:
    masked = {"privacy__secure_aggregation": True, "fedgc__learn_from": "training", "clients": 3}
    one = Federation(**masked, fedgc__min_class_count=5)
    names = ("site-0", "site-1", "site-2")
    one.round(few(one, [8, 4, 2], [0, 0, 0], 18.0), names)
    assert one.instruction("site-0").values["matched"] == [True, False, False]
    one.round(few(one, [8, 4, 2], [8, 0, 0], 18.0), names)
    assert METHOD.condensed(one.state, one.context)
    remark = METHOD.remark(one.state, one.context)
    assert "fewer than 5 labelled nodes in all (in all: b 4, c 2)" in remark
    short = Federation(**masked, fedgc__min_class_count=5, rounds=1)
    with pytest.raises(ConfigError, match="set rounds = 2 or more"):
        short.round(few(short, [8, 4, 2], [0, 0, 0], 18.0), names)
    hopeless = Federation(**masked, fedgc__min_class_count=9)
    with pytest.raises(ConfigError, match="than all clients have of any class"):
        hopeless.round(few(hopeless, [8, 4, 2], [0, 0, 0], 18.0), names)


def test_classes_that_were_never_matched_are_named() -> None:
    one = Federation(fedgc__learn_from="training", clients=2)
    assert METHOD.remark(one.state, one.context) == ""
    one.round(few(one, [4, 2, 0], [4, 0, 0]))
    remark = METHOD.remark(one.state, one.context)
    # Nobody trains on c, which has no condensed nodes either.
    assert "at one client (in all: b 2): lower fedgc.min-class-count" in remark
    one.round(few(one, [4, 2, 0], [4, 2, 0]))
    one.round(few(one, [4, 2, 0], [4, 0, 0]))
    assert METHOD.remark(one.state, one.context) == ""


def test_a_round_without_a_matched_class_leaves_what_was_learned() -> None:
    one = Federation(fedgc__learn_from="training", clients=2)
    one.round(few(one, [4, 4, 4], [4, 4, 4]))
    before = one.state.section("condensed")
    one.round(few(one, [1, 1, 1], [0, 0, 0]))
    after = one.state.section("condensed")
    assert before.keys() == after.keys()
    assert all(torch.equal(value, after[name]) for name, value in before.items())
