from __future__ import annotations

from collections.abc import Mapping

import torch

from fedtag.common.config import RunConfig
from fedtag.common.wire.records import Reply
from fedtag.server.protocol.context import ServerContext
from fedtag.server.protocol.method import TRAIN, ServerMethod
from fedtag.server.protocol.part import ServerPart
from fedtag.server.protocol.phases import Phase
from fedtag.server.protocol.state import Aggregate, Agreement, ServerState

AGREEMENT = Agreement(("a", "b"), 3, "features.npy")
CONTEXT = ServerContext(RunConfig.from_flat({"method": "fedavg", "model.hidden": 4}))


class Keeper(ServerMethod):
    """Remembers which sections and values it has been shown."""

    def combine(
        self,
        state: ServerState,
        phase: Phase,
        replies: Mapping[str, Reply],
        aggregate: Aggregate,
        context: ServerContext,
    ) -> tuple[ServerState, Mapping[str, float]]:
        sections = sorted({name.partition("/")[0] for name in state.tensors})
        return ServerState(state.tensors, {**state.values, "seen": [sections, sorted(state.values)]}), {
            "x": 1.0
        }


class Around(ServerPart):
    """A part with one tensor, one value, and one step."""

    def __init__(self, method: ServerMethod, section: str) -> None:
        super().__init__(method)
        self.section = section

    def steps(self, context: ServerContext) -> tuple[Phase, ...]:
        return (Phase(f"{self.section}-step", "", gathers="step", moves=self.section),)

    def start(self, agreement: Agreement, context: ServerContext) -> ServerState:
        return ServerState({"w": torch.ones(agreement.dimension)}, {"count": 0})


def test_a_part_and_its_method_do_not_see_each_others_state() -> None:
    nested = Around(Around(Keeper(), "inner"), "outer")
    state = nested.begin(AGREEMENT, CONTEXT)
    assert {name.partition("/")[0] for name in state.tensors} == {"model", "inner", "outer"}
    assert state.values == {"inner": {"count": 0}, "outer": {"count": 0}}
    after, weights = nested.combine(state, TRAIN, {}, Aggregate({}, {}, {}), CONTEXT)
    assert weights == {"x": 1.0}
    assert after.values["seen"] == [["model"], []]
    assert nested.own(after).tensors["w"].equal(torch.ones(3))
    assert nested.method.inner(nested.inner(after)).values == {"seen": [["model"], []]}
    assert {name.partition("/")[0] for name in nested.instruct(after, TRAIN, "x", CONTEXT).tensors} == {
        "model"
    }
    assert nested.released(after, CONTEXT).keys() == state.section("model").keys()


def test_the_outermost_part_takes_its_steps_first() -> None:
    nested = Around(Around(Keeper(), "inner"), "outer")
    assert [phase.name for phase in nested.preparation(CONTEXT)] == ["outer-step", "inner-step"]


def test_what_only_makes_the_input_of_a_model_does_not_predict() -> None:
    part = Around(ServerMethod(), "outer")
    released = {"w": torch.ones(2), "outer/w": torch.ones(3)}
    assert part.predicting(released, CONTEXT).keys() == {"w"}


def test_a_step_of_a_part_moves_its_section_and_nothing_else() -> None:
    part = Around(ServerMethod(), "outer")
    state = part.begin(AGREEMENT, CONTEXT)
    (step,) = part.steps(CONTEXT)
    assert part.expected(state, step, CONTEXT).keys() == {"update/w"}
    assert part.instruct(state, step, None, CONTEXT).tensors.keys() == {"outer/w"}
    moved = Aggregate({"w": torch.ones(3)}, {"w": torch.full((3,), 2.0)}, {"x": 1.0})
    after, weights = part.combine(state, step, {}, moved, CONTEXT)
    assert weights == {"x": 1.0}
    assert part.own(after).tensors["w"].tolist() == [2.0, 2.0, 2.0]
    for name, value in state.section("model").items():
        assert after.section("model")[name] is value
