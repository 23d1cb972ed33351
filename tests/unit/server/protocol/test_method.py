from __future__ import annotations

from typing import Any

import torch

from fedtag.common.config import RunConfig
from fedtag.common.models.parameters import fingerprint
from fedtag.server.protocol.context import ServerContext
from fedtag.server.protocol.method import TRAIN, ServerMethod
from fedtag.server.protocol.phases import Phase
from fedtag.server.protocol.state import Aggregate, Agreement, ServerState

AGREEMENT = Agreement(("a", "b"), 3, "features.npy")
METHOD = ServerMethod()


def context(**changes: Any) -> ServerContext:
    return ServerContext(RunConfig.from_flat({"method": "fedavg", "model.hidden": 4, **changes}))


def shifted(state: ServerState, by: float) -> Aggregate:
    step = {name: torch.full_like(value, by) for name, value in state.section("model").items()}
    moved = {name: value + by for name, value in state.section("model").items()}
    return Aggregate(step, moved, {"x": 0.25, "y": 0.75})


def test_the_base_moves_the_backbone_of_the_run() -> None:
    own = context()
    state = METHOD.begin(AGREEMENT, own)
    assert {name.partition("/")[0] for name in state.tensors} == {"model"}
    assert METHOD.instruct(None, TRAIN, None, own).tensors == {}
    assert METHOD.instruct(state, TRAIN, None, own).tensors == state.tensors
    forms = METHOD.expected(state, TRAIN, own)
    assert forms.keys() == {f"update/{name}" for name in state.section("model")}
    assert METHOD.expected(state, Phase("score", ""), own) == {}
    after, weights = METHOD.combine(state, TRAIN, {}, shifted(state, 1.0), own)
    assert weights == {"x": 0.25, "y": 0.75}
    for name, value in after.section("model").items():
        assert value.equal(state.section("model")[name] + 1)
    assert fingerprint(METHOD.released(after, own)) == fingerprint(after.section("model"))
    assert METHOD.combine(state, TRAIN, {}, Aggregate({}, {}, {}), own) == (state, {})


def test_an_average_follows_the_model_and_is_what_is_released() -> None:
    own = context(**{"aggregation.average-decay": 0.5})
    state = METHOD.begin(AGREEMENT, own)
    first, _ = METHOD.combine(state, TRAIN, {}, shifted(state, 1.0), own)
    second, _ = METHOD.combine(first, TRAIN, {}, shifted(first, 1.0), own)
    assert second.values["averaged"] == 2
    start = state.section("model")
    for name, value in METHOD.released(second, own).items():
        # (0.5 · 1 + 1 · 2) / 1.5 above the start, in which the start itself has no part.
        torch.testing.assert_close(value, start[name] + 5 / 3)


def test_draws_depend_on_their_purpose_alone() -> None:
    own = context()
    one, other = own.generator("features", 1), own.generator("features", 1)
    assert torch.rand(3, generator=one).equal(torch.rand(3, generator=other))
    assert own.generator("features", 2).initial_seed() != one.initial_seed()
    assert context(seed=1).generator("features", 1).initial_seed() != one.initial_seed()
