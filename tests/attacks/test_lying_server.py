"""A server that tells sites different things, to read single updates from a sum under masks; every site has a roster.

Each attack is tried twice: as it is repelled, and with masks that are not made of what was asked for, when it succeeds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

from fedtag.client.run import guard
from fedtag.client.run.site_run import SiteRun
from fedtag.client.site.site import Site
from fedtag.common.config import RunConfig
from fedtag.common.errors import QuorumError
from fedtag.common.secure.upload import Layout
from fedtag.common.wire.records import Content, Instruction, Reply
from fedtag.server.strategies.secure import open_sum
from fedtag.server.strategies.use import layout_of

if TYPE_CHECKING:
    from tests.tiny import Answer, Tiny

PINNED: dict[str, object] = {
    "privacy.secure-aggregation": True,
    "privacy.roster": True,
    "aggregation.rule": "mean",
}
ONCE: dict[str, object] = {"method": "fedavg", "rounds": 1, "exchange.retries": 0}
LONG: dict[str, object] = {"train.epochs": 20, "train.optimizer": "sgd"}
VICTIM, FOUR, TEN = "site-0", 4, 10
KNOWN = 0.05
"""A relative error below which a server knows an update; by the honest sum of four it is off by about 3."""

Vector = np.ndarray
Lie = Callable[[str, Instruction], Instruction]
TrueUpdates = Callable[..., dict[str, Vector]]


@dataclass(frozen=True)
class Seen:
    """The first sum that the server opened, or why clients refused it; and the weights in it."""

    total: Vector | None
    weights: Mapping[str, float]
    said: str

    def error(self, client: str, true: Vector, place: int = 0) -> float:
        """|read − true| / |true|, as if the client alone had filled the coordinates from `place` on."""
        if self.total is None:
            return float("inf")
        read = self.total[place : place + len(true)] / self.weights[client]
        return float(np.linalg.norm(read - true) / np.linalg.norm(true))


def otherwise(told: Instruction, **values: object) -> Instruction:
    """The instruction with other values."""
    return replace(told, content=replace(told.content, values={**told.content.values, **values}))


@pytest.fixture(scope="module")
def true_updates(tiny: Tiny) -> TrueUpdates:
    """The clients' updates of round 1, flat in the order of names, from a run in clear with the same seed."""

    @cache
    def found(clients: int, settings: tuple[tuple[str, object], ...]) -> dict[str, Vector]:
        run = tiny({**ONCE, **dict(settings)}, clients=clients)
        sections = {reply.client: reply.content.section("update") for reply in run.replies("train")}
        return {
            client: torch.cat([update[name].double().flatten() for name in sorted(update)]).numpy()
            for client, update in sections.items()
        }

    return lambda clients, **settings: found(clients, tuple(sorted(settings.items())))


def first_sum(tiny: Tiny, clients: int, lie: Lie, answer: Answer | None = None, **settings: object) -> Seen:
    """Run until the server has opened a sum, of which it signs and opens what it can.

    Args:
        tiny: the fixture.
        clients: how many.
        lie: what a client gets in place of an instruction that asks for its part of a sum.
        answer: what the server makes of a reply.
        settings: of the run.
    """
    opened: list[Vector] = []
    weights: dict[str, float] = {}

    def tell(client: str, told: Instruction) -> Instruction:
        request = told.content.values.get("sum")
        if request is None:
            return told
        weights.update(request["weights"])
        return lie(client, told)

    def kept(*arguments: Any) -> Vector:
        opened.append(open_sum(*arguments))
        raise QuorumError("the server has seen enough")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fedtag.server.sums.opening.open_sum", kept)
        # A lying server takes whatever it asked for.
        patch.setattr("fedtag.server.exchange.inbox.check_content", lambda *arguments, **named: None)
        run = tiny({**PINNED, **ONCE, **settings}, clients, rosters=True, tell=tell, answer=answer)
    assert weights, "no client was asked for its part of a sum, so that nothing was tried"
    notes = "; ".join([*run.notes.texts, str(run.error)])
    return Seen(opened[0] if opened else None, weights, notes)


@pytest.fixture(params=[True, False], ids=["repelled", "control"])
def bound(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether masks are made of what was asked for; without, the server's layout is taken as it comes as well."""
    if not request.param:
        for place in ("client.run.guard", "server.exchange.phases"):
            monkeypatch.setattr(f"fedtag.{place}.told_digest", lambda *arguments: bytes(32))
        monkeypatch.setattr(guard, "_check_layout", lambda *arguments: None)
    return bool(request.param)


def judge(bound: bool, seen: Seen, errors: list[float]) -> None:
    """Nothing is known of any update where the defence is on; all of them are where it is off.

    As many as are needed may have been told the same lie, and help to open a sum: masks that do not cancel are in it.
    """
    if bound:
        assert min(errors) > 1, errors
    else:
        assert max(errors) < KNOWN, (errors, seen.said)


def close(client: str, told: Instruction) -> Instruction:
    """The others are to close the run under the number of the same sum: they have no update and add zeros."""
    return told if client == VICTIM else replace(told, phase="close")


def as_if_trained(client: str, told: Instruction, reply: Reply) -> Reply:
    return replace(reply, phase="train") if reply.phase == "close" else reply


def no_time(client: str, told: Instruction) -> Instruction:
    """The others take one step where the victim takes those of twenty epochs."""
    return told if client == VICTIM else otherwise(told, training_seconds=0.0)


def foreign_tensors(client: str, told: Instruction) -> Instruction:
    """The others are asked for tensors that they do not have, and add zeros."""
    if client == VICTIM:
        return told
    layout = Layout.from_json(told.content.values["sum"]["layout"])
    strange = replace(layout, update={f"x{name}": shape for name, shape in layout.update.items()})
    return otherwise(told, sum={**told.content.values["sum"], "layout": strange.as_json()})


@pytest.mark.parametrize(
    ("lie", "answer", "settings"),
    [(close, as_if_trained, {}), (no_time, None, LONG), (foreign_tensors, None, {})],
    ids=["another phase", "no time", "another layout"],
)
def test_others_are_asked_for_nothing(
    tiny: Tiny,
    true_updates: TrueUpdates,
    bound: bool,
    lie: Lie,
    answer: Answer | None,
    settings: dict[str, object],
) -> None:
    seen = first_sum(tiny, FOUR, lie, answer, **settings)
    judge(bound, seen, [seen.error(VICTIM, true_updates(FOUR, **settings)[VICTIM])])
    if bound:
        assert "site-" in seen.said


@pytest.mark.parametrize("setting", [("train.learning-rate", 1e-30), ("privacy.scale-bits", 20)])
def test_others_run_with_other_settings(
    tiny: Tiny,
    true_updates: TrueUpdates,
    bound: bool,
    setting: tuple[str, object],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def site_run(site: Site, config: RunConfig) -> SiteRun:
        changed = {} if site.name == VICTIM else dict([setting])
        return SiteRun(site, RunConfig.from_flat({**config.to_flat(), **changed}))

    true = true_updates(FOUR)[VICTIM]
    with monkeypatch.context() as patch:
        patch.setattr("tests.tiny.SiteRun", site_run)
        seen = first_sum(tiny, FOUR, lambda client, told: told)
    judge(bound, seen, [seen.error(VICTIM, true)])


def test_others_get_another_model(tiny: Tiny, true_updates: TrueUpdates, bound: bool) -> None:
    """They get one of zeros, of which nothing moves but the last bias: the victim's other coordinates stand alone."""

    def lie(client: str, told: Instruction) -> Instruction:
        zeros = {name: torch.zeros_like(value) for name, value in told.content.tensors.items()}
        return told if client == VICTIM else replace(told, content=replace(told.content, tensors=zeros))

    seen, true = first_sum(tiny, FOUR, lie), true_updates(FOUR)[VICTIM]
    read = np.zeros(len(true)) if seen.total is None else seen.total[: len(true)] / seen.weights[VICTIM]
    exact = int((np.abs(read - true) < 1e-6).sum())
    assert exact == 0 if bound else exact > len(true) / 2


def test_each_is_asked_for_its_own_coordinates(tiny: Tiny, true_updates: TrueUpdates, bound: bool) -> None:
    """Of ten sites each fills a tenth of one long vector, which the server then reads part by part."""
    true = true_updates(TEN)
    order = {client: place for place, client in enumerate(sorted(true))}

    def lie(client: str, told: Instruction) -> Instruction:
        request = told.content.values["sum"]
        layout, own = Layout.from_json(request["layout"]), order[client]
        # Sorted before and after the name of any tensor.
        before = {f"!{part}{name}": shape for part in range(own) for name, shape in layout.update.items()}
        after = {
            f"~{part}{name}": shape for part in range(own + 1, TEN) for name, shape in layout.update.items()
        }
        strange = replace(layout, update={**before, **layout.update, **after})
        return otherwise(told, sum={**request, "layout": strange.as_json()})

    seen = first_sum(tiny, TEN, lie)
    judge(bound, seen, [seen.error(one, true[one], place * len(true[one])) for one, place in order.items()])


def test_an_honest_sum_shows_no_update(tiny: Tiny, true_updates: TrueUpdates) -> None:
    seen = first_sum(tiny, FOUR, lambda client, told: told)
    assert seen.total is not None
    assert seen.error(VICTIM, true_updates(FOUR)[VICTIM]) > 1


@pytest.mark.parametrize("alone", [False, True], ids=["lost", "isolated"])
def test_a_layout_leaves_names_out(
    tiny: Tiny, bound: bool, alone: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All are told the same, so that masks cancel: a sum without a tensor, which never moves, or of that one alone."""

    def shortened(*told: Any) -> Layout:
        layout = layout_of(*told)
        kept = {name: shape for name, shape in layout.update.items() if (name == min(layout.update)) == alone}
        return replace(layout, update=kept)

    monkeypatch.setattr("fedtag.server.sums.masked.layout_of", shortened)
    run = tiny({**PINNED, **ONCE, "rounds": 2}, FOUR, rosters=True)
    if bound:
        assert run.summary is None
        assert "the layout of site-0 lacks " in "; ".join(run.notes.texts)
        return
    told = [one.told.content.section("model") for one in run.crossed if one.told.round == 2]
    before, after = next(model for model in told if model), Content(run.state).section("model")
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    assert moved == {name for name in before if (name == min(before)) == alone}


def test_a_count_of_users_leaves_names_out(tiny: Tiny, bound: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """What nobody is said to have stays as it was for the rest of the run."""
    searching = {"method": "da_dfgas", "da_dfgas.cells": 1, "aggregation.weights": "samples"}

    def unasked(update: Mapping[str, Any], used: tuple[str, ...] = (), **rest: Any) -> Layout:
        return Layout(update, used=used[:1], **rest)

    monkeypatch.setattr("fedtag.server.sums.masked.Layout", unasked)
    run = tiny({**PINNED, **ONCE, **searching, "rounds": 2}, FOUR, rosters=True)
    if bound:
        assert run.summary is None
        assert re.search(r"the layout of site-\d lacks ", "; ".join(run.notes.texts))
    else:
        assert run.summary is not None
        assert len(run.rounds.run_state.users or {}) == 1
