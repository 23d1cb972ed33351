"""What a site lets out of its update, with no server but the requests of one."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import fedtag.client.run.guard as contribution
from fedtag.client.context.clock import Clock
from fedtag.client.context.run_context import RunContext
from fedtag.client.context.site_data import SiteData
from fedtag.client.methods.base import ClientMethod
from fedtag.client.run.guard import Guard, weighed
from fedtag.client.run.refusal import reason
from fedtag.client.run.site_run import SiteRun
from fedtag.client.site.site import Site
from fedtag.common.config import RunConfig
from fedtag.common.errors import ConfigError, DivergenceError, ProtocolError, RunError, WireError
from fedtag.common.methods.base import averaged_records
from fedtag.common.methods.spec import METHODS, MethodSpec
from fedtag.common.methods.told import told_digest
from fedtag.common.numerics.clipping import l2_norm
from fedtag.common.parts.spec import declared_records
from fedtag.common.secure.block import Block
from fedtag.common.secure.identity import Identity, PublicIdentity
from fedtag.common.secure.names import JOIN
from fedtag.common.secure.phases import KEYS, SHARES, SIGN, UNMASK
from fedtag.common.secure.roster import roster_entry
from fedtag.common.secure.upload import SIZES, Layout
from fedtag.common.settings.registry import INTERFACE
from fedtag.common.wire.records import Content, Instruction, Letter
from fedtag.server.strategies.secure import open_sum

SECURE: dict[str, Any] = {"privacy.secure-aggregation": True}
HIDDEN = {**SECURE, "privacy.hide-statistics": True, "aggregation.weights": "uniform"}
DISTRIBUTED = {**HIDDEN, "privacy.dp.mode": "distributed", "privacy.dp.clip": 0.5, "privacy.dp.noise": 2.0}
SHAPES: dict[str, tuple[int, ...]] = {"w": (2, 2), "b": (3,)}
LAYOUT = Layout(SHAPES)
UPDATE = {"w": torch.tensor([[1.0, -2.0], [3.0, 0.25]]), "b": torch.tensor([0.5, 0.0, -4.0])}
SIZES_TOLD = {"nodes": 9, "train_nodes": 3, "val_nodes": 2, "test_nodes": 1}
CELLS = [
    {
        "fell_back": False,
        "filter": [[place, 0, "node-gate", 1.0] for place in range(3)],
        "aggregate": [[1, 1, "sum", 0.5], [1, 2, "sum", 0.5], [2, 0, "max", 0.5], [2, 1, "max", 0.5]],
        "activate": [[0, 2, "elu", 1.0], [1, 1, "identity", 1.0], [2, 1, "elu", 1.0]],
    }
]
NAMES = ("site-0", "site-1", "site-2")
WEIGHTS = {"site-0": 0.5, "site-1": 0.25, "site-2": 0.25}


def config_of(settings: dict[str, Any]) -> RunConfig:
    return RunConfig.from_flat({"method": "fedavg", "clients": 3, "device": "cpu", **settings})


def contributed(update: dict[str, Tensor] | None = None, **values: Any) -> Content:
    tensors = {f"update/{name}": value for name, value in (UPDATE if update is None else update).items()}
    tensors["scores/local/val/confusion"] = torch.ones(3, 3, dtype=torch.int64)
    told = {"sizes": SIZES_TOLD, "training": {"loss": 1.5, "steps": 3, "normaliser": 4.0}, **values}
    return Content(tensors, told)


@pytest.fixture(scope="module")
def folders(
    tmp_path_factory: pytest.TempPathFactory, write_feature_folder: Callable[..., Path]
) -> list[Path]:
    place = tmp_path_factory.mktemp("sites")
    return [write_feature_folder(place / name, nodes=30 + 6 * k, seed=k) for k, name in enumerate(NAMES)]


def asked(request: Any) -> dict[str, Any]:
    """The values with which a server asks for a member's part of a sum; whom it joins stands beside it."""
    if not isinstance(request, dict) or JOIN not in request:
        return {"sum": request}
    return {"sum": {key: value for key, value in request.items() if key != JOIN}, JOIN: request[JOIN]}


class Room:
    """Three sites with a server that keeps to the protocol as far as a test lets it."""

    def __init__(
        self, folders: list[Path], place: Path, settings: dict[str, Any], pinned: bool = False
    ) -> None:
        self.config = config_of(settings)
        roster = place / "roster.toml" if pinned else None
        sites = [
            Site(folder.name, folder, place / folder.name, place / "cache", "cpu", roster)
            for folder in folders
        ]
        if roster is not None:
            entries = [roster_entry(site.name, Identity.at(site.keys).public) for site in sites]
            roster.write_text("\n".join(entries), encoding="utf-8")
        self.sites = {site.name: SiteRun(site, self.config) for site in sites}

    def guard(self, name: str = "site-0") -> Guard:
        return Guard(self.config, self.sites[name].data, Clock())

    def instruction(
        self, phase: str, values: dict[str, Any], letters: tuple[Letter, ...] = ()
    ) -> Instruction:
        return Instruction("run-1", 1, 1, phase, Content({}, values, letters))

    def ask(self, name: str, phase: str, request: Any = None) -> Content:
        return self.guard(name).answered(self.instruction(phase, {phase: request}))

    def prepared(self, sums: int = 2) -> tuple[Block, dict[str, tuple[Letter, ...]]]:
        keys = {name: PublicIdentity.from_json(self.ask(name, KEYS).values[KEYS], name) for name in NAMES}
        plan = Block.planned("run-1", sums, keys)
        dealt = {name: self.ask(name, SHARES, plan.as_json()) for name in NAMES}
        block = plan.completed({name: plan.accepted(name, one.values[SHARES]) for name, one in dealt.items()})
        letters = [letter for one in dealt.values() for letter in one.letters]
        return block, {name: tuple(one for one in letters if one.recipient == name) for name in NAMES}

    def request(self, block: Block, layout: Layout = LAYOUT, index: int = 0) -> dict[str, Any]:
        weights = WEIGHTS if self.config.aggregation.weights == "samples" else dict.fromkeys(NAMES, 1 / 3)
        asked = {
            "index": index,
            "layout": layout.as_json(),
            "weights": weights,
            "gathers": "step",
            "groups": [],
        }
        return {**asked, "join": block.as_json()}

    def upload(
        self, name: str, request: Any, letters: tuple[Letter, ...] = (), content: Content | None = None
    ) -> Content:
        told = self.instruction("train", asked(request), letters)
        return self.guard(name).let_out(contributed() if content is None else content, told)

    def opened(self, layout: Layout, contents: dict[str, Content]) -> Any:
        block, letters = self.prepared()
        uploads = {
            name: self.upload(name, self.request(block, layout), letters[name], content)
            for name, content in contents.items()
        }
        survivors = {"opened": [], "index": 0, "survivors": sorted(uploads)}
        releases = {
            name: self.ask(name, UNMASK, {**survivors, "signatures": None}).values[UNMASK] for name in uploads
        }
        vectors = {
            name: one.tensors["masked/vector"].numpy().view(np.uint64) for name, one in uploads.items()
        }
        member = contribution.site_member(self.sites[NAMES[0]].site, self.config, "run-1")
        instruction = self.instruction("train", asked(self.request(block, layout)))
        told = told_digest(instruction, declared_records(self.config), self.config.digest())
        return layout.opened(open_sum(block, 0, vectors, releases, member.fixed, told)), uploads


@pytest.fixture
def room(folders: list[Path], tmp_path: Path) -> Callable[..., Room]:
    return lambda settings, pinned=False: Room(folders, tmp_path, settings, pinned)


TOLD = Instruction("run-1", 1, 1, "train", Content())


def test_without_privacy_settings_a_contribution_is_what_it_was(room: Callable[..., Room]) -> None:
    content = contributed()
    assert room({}).guard().let_out(content, TOLD) is content


def test_central_privacy_clips_the_update_and_nothing_else(room: Callable[..., Room]) -> None:
    settings = {"privacy.dp.mode": "central", "privacy.dp.clip": 0.5, "aggregation.weights": "uniform"}
    content = room(settings).guard().let_out(contributed(), TOLD)
    update = content.section("update")
    assert l2_norm(update) == pytest.approx(0.5)
    assert l2_norm(update) <= 0.5
    for name, value in UPDATE.items():
        assert torch.allclose(update[name], value * (0.5 / l2_norm(UPDATE)))
    assert content.values == contributed().values
    assert content.section("scores").keys() == contributed().section("scores").keys()
    idle = contributed({})
    assert room(settings).guard().let_out(idle, TOLD) is idle


@pytest.mark.parametrize(
    ("settings", "pinned", "why"),
    [
        (SECURE, False, "site-0 was promised secure aggregation, so its updates leave under masks only"),
        ({}, True, "site-0 has a roster, so its updates leave under masks only"),
        (SECURE, True, "site-0 has a roster"),
        (HIDDEN, False, "was promised secure aggregation"),
    ],
)
def test_an_update_in_clear_is_refused(
    room: Callable[..., Room], settings: dict[str, Any], pinned: bool, why: str
) -> None:
    guard = room(settings, pinned).guard()
    with pytest.raises(ProtocolError, match=why):
        guard.let_out(contributed(), TOLD)
    # A site that did not train has nothing to hide there.
    guard.let_out(contributed({}), TOLD)


def test_nobody_asked_for_a_sum_and_all_but_what_is_needed_stays(room: Callable[..., Room]) -> None:
    content = contributed(
        {}, statistics={}, condensation={"core": 1, "nodes": 2}, tokens={}, unopened=["site-1"]
    )
    kept = room(HIDDEN).guard().let_out(content, TOLD)
    assert kept.values == {"unopened": ["site-1"]}
    assert kept.tensors == {}


def test_a_declared_value_that_is_no_sum_stays_where_statistics_are_hidden(room: Callable[..., Room]) -> None:
    """With one architecture for all, clients tell it; it is no sum."""
    settings = {"method": "da_dfgas", "da_dfgas.personal": False, "da_dfgas.adaptive": False}
    told = {"architecture": {"cells": CELLS, "parameters": 7}}
    sent = room(settings).guard().let_out(contributed({}, **told), TOLD)
    assert sent.values["architecture"] == told["architecture"]
    assert room({**settings, **HIDDEN}).guard().let_out(contributed({}, **told), TOLD).values == {}


UNDECLARED: dict[str, tuple[Content, str]] = {
    "a tensor": (Content({"prototypes/a": torch.ones(2)}), "tensors of 'prototypes' are not"),
    "a value": (Content({}, {"note": 3}), "the value 'note' is not"),
    "a tensor under the name of a value": (Content({"sizes/a": torch.ones(2)}), "tensors of 'sizes' are not"),
    "a value under the name of tensors": (
        Content({}, {"update": 1}),
        "the value 'update' is not what it should",
    ),
    "what the server sends": (Content({}, {"sum": 1}), "the value 'sum' is not what it should be"),
    "a letter": (
        Content({}, {}, (Letter("site-0", "site-1", "gossip", b""),)),
        "letters of kind 'gossip' are not",
    ),
    "another form": (Content({}, {"sizes": {"nodes": -1}}), "the value 'sizes' is not what it should be"),
    "another method's": (Content({}, {"architecture": {}}), "the value 'architecture' is not"),
}


@pytest.mark.parametrize("settings", [{}, SECURE, HIDDEN])
@pytest.mark.parametrize("name", UNDECLARED)
def test_what_is_not_declared_leaves_no_site(
    room: Callable[..., Room], name: str, settings: dict[str, Any]
) -> None:
    content, fault = UNDECLARED[name]
    with pytest.raises(RunError, match=f"site-0 lets out what is declared only, and {fault}"):
        room(settings).guard().let_out(content, TOLD)


class Talkative(ClientMethod[None]):
    """Tells more than its specification says."""

    def close(self, data: SiteData, context: RunContext[None]) -> Content:
        return Content({}, {"gossip": list(data.text_graph.texts)})


TALKATIVE = Talkative()
SPEC = MethodSpec(
    name="talkative",
    title="Tells more than it says",
    interface=INTERFACE,
    records=averaged_records("an update"),
    client=f"{__name__}:TALKATIVE",
    server="fedtag.server.methods.fedavg:METHOD",
)


def test_a_method_cannot_send_what_its_specification_does_not_name(
    folders: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its site's log names the record; the server is told that there was an error, and no more."""
    monkeypatch.setitem(METHODS._added, "talkative", SPEC)
    config = config_of({"method": "talkative"})
    site = SiteRun(Site("site-0", folders[0], tmp_path / "work", tmp_path / "cache", "cpu"), config)
    assert site.respond(Instruction("run-1", 1, 1, "train", Content())).content.section("update")
    with pytest.raises(RunError, match="the value 'gossip' is not: declare it among the records") as caught:
        site.respond(Instruction("run-1", 2, 2, "close", Content()))
    assert reason(caught.value) == "RunError; the site's own log says more"


def test_a_sum_is_that_of_the_weighed_updates(room: Callable[..., Room]) -> None:
    twice = {name: value * 2 for name, value in UPDATE.items()}
    contents = {"site-0": contributed(), "site-1": contributed(twice), "site-2": contributed({})}
    opened, uploads = room(SECURE).opened(LAYOUT, contents)
    for name, value in UPDATE.items():
        assert torch.allclose(opened.update[name], value.double() * (0.5 + 2 * 0.25), atol=1e-10)
    # The third has no update, so that neither its weight nor its steps count.
    assert opened.weight == pytest.approx(0.75)
    assert opened.steps == pytest.approx(0.75 * 4.0)
    for content in uploads.values():
        assert set(content.tensors) == {"masked/vector", "scores/local/val/confusion"}
        assert content.values == contributed().values
        assert content.tensors["masked/vector"].dtype == torch.int64


def test_a_sum_of_normalised_updates(room: Callable[..., Room]) -> None:
    contents = dict.fromkeys(NAMES, contributed())
    opened, _ = room({**SECURE, "aggregation.normalise": "fednova"}).opened(LAYOUT, contents)
    for name, value in UPDATE.items():
        assert torch.allclose(opened.update[name], value.double() / 4.0, atol=1e-10)
    assert (opened.weight, opened.steps) == (pytest.approx(1.0), pytest.approx(4.0))


def test_what_is_hidden_goes_under_the_masks_and_nowhere_else(room: Callable[..., Room]) -> None:
    layout = Layout(SHAPES, ("local",), 3, True)
    house = room(HIDDEN)
    opened, uploads = house.opened(layout, dict.fromkeys(NAMES, contributed()))
    sizes = [site.data.sizes for site in house.sites.values()]
    assert opened.sizes == {name: sum(one[name] for one in sizes) for name in SIZES}
    assert opened.loss == pytest.approx(1.5)
    assert opened.scores["local/val/confusion"].tolist() == [[3] * 3] * 3
    for content in uploads.values():
        assert set(content.tensors) == {"masked/vector"}
        assert content.values == {}


def test_letters_that_cannot_be_read_are_reported(room: Callable[..., Room]) -> None:
    house = room(HIDDEN)
    block, letters = house.prepared()
    spoilt = tuple(
        replace(letter, body=b"x" * len(letter.body)) if letter.sender == "site-2" else letter
        for letter in letters["site-0"]
    )
    layout = Layout(SHAPES, (), 3, True)
    assert house.upload("site-0", house.request(block, layout), spoilt).values == {"unread": ["site-2"]}
    assert house.upload("site-1", house.request(block, layout), ()).values == {"unread": ["site-0", "site-2"]}
    assert house.upload("site-2", house.request(block, layout), letters["site-2"]).values == {}


REQUESTS: dict[str, tuple[Callable[[dict[str, Any]], Any], type[Exception], str]] = {
    "no table": (lambda told: "x", ProtocolError, "has index, layout, weights, gathers and groups"),
    "empty": (lambda told: {}, ProtocolError, "has index, layout, weights, gathers and groups"),
    "surplus": (
        lambda told: {**told, "more": 1},
        ProtocolError,
        "has index, layout, weights, gathers and groups",
    ),
    "no layout": (lambda told: {**told, "layout": None}, WireError, "is malformed"),
    "no weights": (lambda told: {**told, "weights": None}, ProtocolError, "must be a table by member"),
    "weights without it": (
        lambda told: {**told, "weights": {"site-1": 1.0}},
        ProtocolError,
        "a number for site-0",
    ),
    "a word for a weight": (
        lambda told: {**told, "weights": {**WEIGHTS, "site-0": "0.5"}},
        ProtocolError,
        "a number for site-0",
    ),
    "a truth for a weight": (
        lambda told: {**told, "weights": {**WEIGHTS, "site-0": True}},
        ProtocolError,
        "a number for site-0",
    ),
    "a negative weight": (
        lambda told: {**told, "weights": {**WEIGHTS, "site-0": -0.5}},
        ProtocolError,
        "must be a number from 0 to 1",
    ),
    "weights that sum to more": (
        lambda told: {**told, "weights": dict.fromkeys(NAMES, 0.5)},
        ProtocolError,
        "they must sum to 1",
    ),
    "almost all weight": (
        lambda told: {**told, "weights": {"site-0": 0.98, "site-1": 0.01, "site-2": 0.01}},
        ProtocolError,
        "site-0 has 0.980 of the weight",
    ),
    "no such sum": (lambda told: {**told, "index": 2}, ProtocolError, "sum 2 is not in the block"),
    "another block": (
        lambda told: {**told, "join": {**told["join"], "block": "00" * 16}},
        ProtocolError,
        "is not the one prepared last",
    ),
    "a tensor that the site does not have": (
        lambda told: {**told, "layout": Layout({**SHAPES, "w2": (1,)}).as_json()},
        ProtocolError,
        "the layout of site-0 has w2, which its update does not have",
    ),
    "a layout without a tensor that the site has": (
        lambda told: {**told, "layout": Layout({"w": SHAPES["w"]}).as_json()},
        ProtocolError,
        "the layout of site-0 lacks b: the server needs the same fedtag",
    ),
    "a tensor that only some are said to have": (
        lambda told: {**told, "layout": Layout(SHAPES, used=("w",)).as_json()},
        ProtocolError,
        "the layout of site-0 has w as what only some sites have",
    ),
    "another shape": (
        lambda told: {**told, "layout": Layout({**SHAPES, "w": (4,)}).as_json()},
        WireError,
        "'w' has shape",
    ),
}


@pytest.mark.parametrize("name", REQUESTS)
def test_a_request_that_breaks_the_protocol_is_refused(room: Callable[..., Room], name: str) -> None:
    edit, kind, reason = REQUESTS[name]
    house = room(SECURE)
    block, letters = house.prepared()
    with pytest.raises(kind, match=reason):
        house.upload("site-0", edit(house.request(block)), letters["site-0"])
    # Nothing was masked: the same sum can still be asked for as it should be.
    assert "masked/vector" in house.upload("site-0", house.request(block), letters["site-0"]).tensors
    with pytest.raises(ProtocolError, match="was masked or passed over before"):
        house.upload("site-0", house.request(block), letters["site-0"])


@pytest.mark.parametrize("value", [math.inf, math.nan, 1e6])
def test_a_coordinate_that_is_wild_leaves_no_site(room: Callable[..., Room], value: float) -> None:
    house = room(SECURE)
    block, letters = house.prepared()
    wild = {"w": torch.full((2, 2), value), "b": torch.zeros(3)}
    with pytest.raises(DivergenceError, match="the limit is 16384"):
        house.upload("site-0", house.request(block), letters["site-0"], contributed(wild))


def test_the_protocol_needs_its_setting(room: Callable[..., Room]) -> None:
    house = room({})
    for phase in (SHARES, SIGN, UNMASK):
        with pytest.raises(ProtocolError, match=r"set privacy\.secure-aggregation = true"):
            house.ask("site-0", phase)


def test_keys_come_with_counts_of_nodes_unless_these_are_hidden(room: Callable[..., Room]) -> None:
    told = room(SECURE).ask("site-0", KEYS)
    assert told.values.keys() == {KEYS, "sizes"}
    assert told.values["sizes"]["nodes"] == 30
    hidden = room(HIDDEN).ask("site-0", KEYS).values
    assert hidden.keys() == {KEYS, "trains"}
    assert hidden["trains"] is True
    with pytest.raises(ProtocolError, match="exchange 'other' is unknown here"):
        room(SECURE).ask("site-0", "other")


def test_who_is_introduced_says_nothing_of_its_size_where_that_is_hidden(room: Callable[..., Room]) -> None:
    counts = {"encoded_chunks", "encoded_tokens"}
    assert counts <= room(SECURE).sites["site-0"].introduction("run-1").keys()
    assert not counts & room(HIDDEN).sites["site-0"].introduction("run-1").keys()


def test_a_lost_roster_stops_the_site(room: Callable[..., Room], tmp_path: Path) -> None:
    house = room(SECURE, pinned=True)
    (tmp_path / "roster.toml").unlink()
    with pytest.raises(ConfigError, match="cannot be read"):
        house.ask("site-0", KEYS)


def test_weighing_by_hand() -> None:
    plain, scalars = weighed(UPDATE, 0.25, 4.0, LAYOUT, config_of(SECURE), 3)
    assert scalars == (1.0, 0.25)
    assert all(torch.equal(plain[name], UPDATE[name].double() / 4) for name in UPDATE)
    nova = config_of({**SECURE, "aggregation.normalise": "fednova"})
    scaled, scalars = weighed(UPDATE, 0.25, 4.0, LAYOUT, nova, 3)
    assert scalars == (1.0, 0.25)
    assert all(torch.equal(scaled[name], UPDATE[name].double() / 16) for name in UPDATE)
    assert weighed({}, 0.25, 4.0, LAYOUT, config_of(SECURE), 3) == ({}, (0.0, 0.0))
    assert weighed(UPDATE, 0.25, 0.0, LAYOUT, nova, 3) == ({}, (0.0, 0.0))
    # Without normalisation the steps do not matter.
    assert weighed(UPDATE, 0.25, 0.0, LAYOUT, config_of(SECURE), 3)[1] == (0.0, 0.25)


@pytest.mark.parametrize(("threshold", "colluders"), [(3, 0), (7, 2)])
def test_noise_is_a_share_of_what_every_sum_needs(threshold: int, colluders: int) -> None:
    """σS/√(threshold − c) a coordinate on the clipped update, unweighed; scalars say nothing."""
    settings = config_of({**DISTRIBUTED, "privacy.dp.colluders": colluders})
    size = 40_000
    layout = Layout({"w": (size,)})
    update = {"w": torch.full((size,), 7.0)}
    noisy, scalars = weighed(update, 0.2, 3.0, layout, settings, threshold)
    assert scalars == (0.0, 0.0)
    deviation = 2.0 * 0.5 / math.sqrt(threshold - colluders)
    clipped = 0.5 / math.sqrt(size)  # each coordinate of a vector of equal ones and of norm S
    values = (noisy["w"] - clipped) / deviation
    assert noisy["w"].dtype == torch.float64
    assert abs(float(values.mean())) < 5 / math.sqrt(size)
    assert float(values.std()) == pytest.approx(1.0, abs=5 / math.sqrt(2 * size))
    again, _ = weighed(update, 0.2, 3.0, layout, settings, threshold)
    assert not torch.equal(noisy["w"], again["w"])


def test_a_site_that_did_not_train_adds_its_noise_all_the_same() -> None:
    noise, scalars = weighed({}, 0.5, 0.0, Layout({"w": (2000,)}), config_of(DISTRIBUTED), 4)
    assert scalars == (0.0, 0.0)
    # One of four may reveal its part.
    assert float(noise["w"].std()) == pytest.approx(2.0 * 0.5 / 3**0.5, rel=0.1)


def test_too_many_colluders_leave_no_noise() -> None:
    with pytest.raises(ConfigError, match="leaves no honest noise in a sum of 3 clients"):
        weighed(UPDATE, 0.5, 1.0, LAYOUT, config_of({**DISTRIBUTED, "privacy.dp.colluders": 3}), 3)
