"""FedGC's exchange of neighbour sums in whole runs: what comes of it, what the server sees, who vanishes."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as parquet
import pytest
import torch
from flwr.app import Error, Message
from typer.testing import CliRunner

from fedtag.client.data.sites import site_graphs
from fedtag.client.data.text_graph import TextGraph, canonical_edges
from fedtag.client.data.writing import write_folder
from fedtag.client.parts.neighbour_exchange.bundles import Bundle
from fedtag.client.parts.neighbour_exchange.exchange import Exchange
from fedtag.client.parts.neighbour_exchange.given import Given
from fedtag.client.run.site_run import SiteRun
from fedtag.client.site.site import Site
from fedtag.client.site.state import StateStore
from fedtag.common.config import RunConfig
from fedtag.common.errors import ConfigError, ProtocolError, WireError
from fedtag.common.parts.neighbour_exchange.homomorphic import Holder, fresh_key, tenseal
from fedtag.common.parts.neighbour_exchange.messages import BYTES, unpacked
from fedtag.common.parts.neighbour_exchange.names import GIVE_PHASE, KEY, PARTS, REQUEST
from fedtag.common.secure.identity import Identity
from fedtag.common.secure.letters import STAMP_BYTES, letter_stamp, opened_letter
from fedtag.common.wire.codec import decode_instruction, decode_reply, encode
from fedtag.common.wire.records import Instruction, Reply
from fedtag.deploy.cli import app
from fedtag.runs.grid import InProcessGrid
from fedtag.server.run.rounds import Rounds
from fedtag.server.state.progress import LineProgress
from fedtag.server.tracking.run_directory import RunDirectory
from tests.crossings import crossings

NODES, DIM, OWNERS = 60, 9, 4
SETTINGS: dict[str, Any] = {
    "method": "fedgc",
    "rounds": 2,
    "clients": OWNERS,
    "device": "cpu",
    "ratio": 0.1,
    "model.hidden": 8,
    "fedgc.self-training-rounds": 1,
    "fedgc.learn-from": "both",
    "fedgc.min-class-count": 2,
    "fedgc.hidden": 8,
    "fedgc.steps": 1,
    "fedgc.model-steps": 2,
    "fedgc.fine-tune-steps": 1,
    "exchange.quorum": 0.5,
    "exchange.retries": 0,
    "exchange.poll": 0.001,
}
# Names of ways, so that what needs TenSEAL is skipped by its name where it is not installed.
WAYS = ("summed", "encrypted")


class Killed(BaseException):
    """Stands for the end of the server's process."""


class Grid(InProcessGrid):
    """Notes what the server gets, loses nodes in some phases, lets a node send something else, or dies."""

    def __init__(self, sessions: Iterable[SiteRun], absent: frozenset[str], spoil: Callable[[Reply], Reply]):
        super().__init__(list(sessions))
        self.absent = absent
        self.spoil = spoil
        self.seen: list[Reply] = []
        self.dies_after = ""

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        sent = list(messages)
        asked: list[Instruction] = [decode_instruction(message.content) for message in sent]
        keys: list[str] = []
        for message, instruction in zip(sent, asked, strict=True):
            if f"{instruction.phase} {message.metadata.dst_node_id}" in self.absent:
                key = f"gone {len(self.seen)} {message.metadata.dst_node_id}"
                message.metadata.__dict__["_message_id"] = key
                self.replies[key] = Message(Error(5, "the node is gone"), reply_to=message)
                keys.append(key)
                continue
            keys += super().push_messages([message])
            reply = self.replies[keys[-1]]
            if not reply.has_error():
                told = self.spoil(decode_reply(reply.content, 1e9))
                reply.content = encode(told)
                self.seen.append(told)
        if any((one.phase, one.round) == (self.dies_after, 2) for one in asked):
            raise Killed
        return keys


@dataclass
class Run:
    """A finished run with all that the server got."""

    grid: Grid
    directory: RunDirectory
    sessions: list[SiteRun]

    def features(self) -> dict[str, np.ndarray]:
        run = self.grid.seen[0].run
        found = {}
        for session in self.sessions:
            kept = StateStore(session.site.state, run).find("exchanged")
            if kept is not None:
                found[session.site.name] = kept.tensors["x"].numpy()
        return found

    def told(self) -> dict[str, Any]:
        table: dict[str, Any] = json.loads((self.directory.path / "neighbours.json").read_text())
        return table


class World:
    """One graph divided over institutions, and runs over these."""

    def __init__(self, folder: Path) -> None:
        rng = np.random.default_rng(5)
        labels = np.arange(NODES) % 3
        pairs = rng.integers(0, NODES, (190, 2))
        edges, weights, _, _ = canonical_edges(pairs, rng.uniform(0.5, 2, 190).astype(np.float32), False)
        features = rng.standard_normal((NODES, DIM)).astype(np.float32)
        features[np.arange(NODES), labels] += 2
        split = np.array([1, 1, 2, 3, 0], np.int8)[(np.arange(NODES) // 3) % 5]
        self.graph = TextGraph(
            "whole",
            tuple(range(NODES)),
            ("",) * NODES,
            labels,
            split,
            edges,
            weights,
            ("x", "y", "z"),
            features=features,
        )
        # The last nodes link to one another alone, so that their institution has no cross edge.
        lone = np.arange(NODES - 6, NODES)
        outside = ~np.isin(edges, lone).any(axis=1)
        inner = np.isin(edges, lone).all(axis=1)
        self.graph = replace(self.graph, edges=edges[outside | inner], edge_weights=weights[outside | inner])
        self.rows = (*(np.arange(start, NODES - 6, 3) for start in range(3)), lone)
        self.folder = folder
        self.sites = {
            site.name: write_folder(site, folder / "data" / site.name)
            for site in site_graphs(self.graph, self.rows, 0.0, 0)
        }

    def train(
        self,
        name: str,
        absent: frozenset[str] = frozenset(),
        spoil: Callable[[Reply], Reply] = lambda reply: reply,
        dies_after: str = "",
        **changes: Any,
    ) -> Run:
        out = self.folder / name / "out"
        resume = out.exists()
        config = RunConfig.from_flat({**SETTINGS, **changes, "out": str(out), "resume": resume})
        places = self.folder / name / "work"
        cache = self.folder / "cache"
        sessions = [
            SiteRun(Site(site, data, places / site, cache, "cpu"), config)
            for site, data in self.sites.items()
        ]
        grid = Grid(sessions, absent, spoil)
        grid.dies_after = dies_after
        directory = RunDirectory(out, resume=resume)
        Rounds(grid, config, directory, LineProgress()).run()
        return Run(grid, directory, sessions)

    def expected(
        self, least: int, hops: int = 1, missing: frozenset[int] = frozenset()
    ) -> dict[str, np.ndarray]:
        """ÂX with the dense matrix of the whole graph, without foreign entries of nodes that go without.

        Args:
            least: foreign neighbours that a node must have.
            hops: 1 or 2.
            missing: institutions whose parts do not come.
        """
        assert self.graph.features is not None
        matrix = np.eye(NODES)
        (one, other), weights = self.graph.edges.T, self.graph.edge_weights
        matrix[one, other] += weights
        matrix[other, one] += weights
        scale = matrix.sum(1) ** -0.5
        matrix = scale[:, None] * matrix * scale
        owner = np.empty(NODES, int)
        for place, rows in enumerate(self.rows):
            owner[rows] = place
        foreign = (matrix != 0) & (owner[:, None] != owner)
        lacking = foreign.sum(1) < least
        for place in missing:
            lacking |= (foreign & (owner == place)).any(1)
        matrix[foreign & lacking[:, None]] = 0
        x = self.graph.features.astype(float)
        for _ in range(hops):
            x = matrix @ x
        return {name: x[rows] for name, rows in zip(self.sites, self.rows, strict=True)}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return World(tmp_path_factory.mktemp("neighbours"))


@pytest.fixture(scope="module")
def runs(world: World) -> dict[str, Run]:
    """A run of each way, made when first asked for."""
    return {}


def run_of(world: World, runs: dict[str, Run], way: str) -> Run:
    if way == "encrypted":
        pytest.importorskip("tenseal", reason="the extra he (TenSEAL) is not installed")
    if way not in runs:
        runs[way] = world.train(way, **{"neighbour-exchange.mode": way})
    return runs[way]


def agree(found: dict[str, np.ndarray], expected: dict[str, np.ndarray], rtol: float, atol: float) -> None:
    assert found.keys() == expected.keys()
    for name, rows in found.items():
        np.testing.assert_allclose(rows, expected[name], rtol=rtol, atol=atol)


@pytest.mark.parametrize("way", WAYS)
def test_features_are_those_of_the_whole_graph(world: World, runs: dict[str, Run], way: str) -> None:
    run = run_of(world, runs, way)
    agree(run.features(), world.expected(3), rtol=1e-3, atol=1e-6)
    total = run.told()["total"]
    # Both kinds of nodes must be there, or nothing was tested.
    assert total["added"] > 10
    assert total["small"] > 3
    assert total["missing"] == 0
    assert total["boundary"] == total["added"] + total["small"]


def test_sums_under_masks_are_exact_to_rounding(world: World, runs: dict[str, Run]) -> None:
    agree(run_of(world, runs, "summed").features(), world.expected(3), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("way", WAYS)
def test_two_hops_are_two_products(world: World, way: str) -> None:
    if way == "encrypted":
        pytest.importorskip("tenseal", reason="the extra he (TenSEAL) is not installed")
    run = world.train(f"twice {way}", **{"neighbour-exchange.mode": way, "neighbour-exchange.hops": 2})
    agree(run.features(), world.expected(3, hops=2), rtol=1e-3, atol=1e-5)


def test_the_least_number_of_neighbours_is_the_setting(world: World) -> None:
    run = world.train("many", **{"neighbour-exchange.mode": "summed", "neighbour-exchange.min-neighbours": 5})
    agree(run.features(), world.expected(5), rtol=1e-5, atol=1e-6)
    assert run.told()["total"]["small"] > 0


@pytest.mark.parametrize("way", WAYS)
def test_the_server_sees_nothing_that_it_can_read(world: World, runs: dict[str, Run], way: str) -> None:
    """No row, no column and no partial sum is in any byte that it got, in float32, float64 or fixed point."""
    run = run_of(world, runs, way)
    planted = []
    for session in run.sessions:
        x = session.data.graph.x.numpy()
        for values in (*x, *x.T, *run.features()[session.site.name]):
            whole = np.rint(values.astype(float) * 2.0**40).astype("<i8")
            planted += [values.astype("<f4").tobytes(), values.astype("<f8").tobytes(), whole.tobytes()]
    for reply in run.grid.seen:
        if reply.phase.startswith("neighbours"):
            told = [value.numpy().tobytes() for value in reply.content.tensors.values()]
            told += [letter.body for letter in reply.content.letters]
            assert not any(one in text for one in planted for text in told)
    bodies = [
        part.body
        for reply in run.grid.seen
        if reply.phase == "neighbours-give"
        for part in unpacked(reply.content)
    ]
    assert bodies
    if way == "summed":
        joined = np.frombuffer(b"".join(bodies), np.uint8)
        counts, level = np.bincount(joined, minlength=256), len(joined) / 256
        assert ((counts - level) ** 2 / level).sum() < 255 + 5.5 * (2 * 255) ** 0.5


def test_the_server_cannot_decrypt_with_anything_that_it_received(world: World, runs: dict[str, Run]) -> None:
    run = run_of(world, runs, "encrypted")
    first, second = run.sessions[0].site, run.sessions[1].site
    keys = [letter for reply in run.grid.seen for letter in reply.content.letters if letter.kind == KEY]
    others = {(first.name, session.site.name) for session in run.sessions[1:]}
    assert {(letter.sender, letter.recipient) for letter in keys} == others
    contents = [reply.content for reply in run.grid.seen]
    parts = [part for content in contents if PARTS in content.values for part in unpacked(content)]
    letters = [letter.body for content in contents for letter in content.letters]
    received = [value.numpy().tobytes() for content in contents for value in content.tensors.values()]
    received += [*letters, *(body[STAMP_BYTES:] for body in letters), *(part.body for part in parts)]
    received += [json.dumps(dict(content.values)).encode() for content in contents]
    # Nothing that it got is a key, or has one in it.
    for text in received:
        with pytest.raises(WireError):
            Holder(text)
    # Who opens a letter as its recipient does get the key, and with it reads single parts: the attack would succeed.
    letter = next(letter for letter in keys if letter.recipient == second.name)
    stamp, sender = letter_stamp(letter, run.grid.seen[0].run), Identity.at(first.keys).public
    opened = opened_letter(Identity.at(second.keys), sender, second.name, letter, stamp, 1e9)
    key = opened.tensors[KEY].numpy().tobytes()
    largest = max(parts, key=lambda part: len(part.body))
    read = Holder(key).deciphered(largest.body, size_of(largest.body))
    assert np.abs(read).max() < 1e3
    secret = (
        tenseal()
        .context_from(key)
        .serialize(save_public_key=False, save_galois_keys=False, save_relin_keys=False)
    )
    pieces = [secret[start : start + 32] for start in range(256, len(secret) - 32, 4096)]
    assert all(piece in secret for piece in pieces)
    assert not any(piece in text for piece in pieces for text in received)
    # A key of the server's own gives numbers that have nothing to do with it.
    try:
        guess = Holder(fresh_key()).deciphered(largest.body, len(read))
    except WireError:
        guess = np.full(len(read), np.inf)
    assert np.abs(guess - read).max() > 1e3
    # Nor is the key left at the sites once they have their sums.
    for session in run.sessions:
        assert not list(session.site.secrets.rglob("*.key"))


def size_of(body: bytes) -> int:
    """Numbers in a body, by TenSEAL itself."""
    library = tenseal()
    context = library.context(
        library.SCHEME_TYPE.CKKS, poly_modulus_degree=4096, coeff_mod_bit_sizes=[60, 49]
    )
    total, start = 0, 0
    while start < len(body):
        length = int.from_bytes(body[start : start + 4], "big")
        total += library.ckks_vector_from(context, body[start + 4 : start + 4 + length]).size()
        start += 4 + length
    return total


def test_disclosures_say_what_the_shared_key_means(world: World, runs: dict[str, Run]) -> None:
    run = run_of(world, runs, "encrypted")
    by_kind = {row["kind"]: row for row in crossings(run.directory.path)}
    assert "works together with the server" in by_kind[KEY]["reveals"]
    assert by_kind[REQUEST]["protected"] == "encrypted"
    assert "neighbour-exchange.min-neighbours" in by_kind[PARTS]["reveals"]
    assert by_kind[PARTS]["protected"] == "encrypted"


@pytest.mark.parametrize("way", WAYS)
def test_a_peer_that_vanishes_takes_only_the_sums_that_it_has_part_in(world: World, way: str) -> None:
    if way == "encrypted":
        pytest.importorskip("tenseal", reason="the extra he (TenSEAL) is not installed")
    absent = frozenset({"neighbours-give 3"})
    run = world.train(f"vanished {way}", absent, **{"neighbour-exchange.mode": way})
    agree(run.features(), world.expected(3, missing=frozenset({1})), rtol=1e-3, atol=1e-6)
    assert run.told()["total"]["missing"] > 0
    assert len(run.directory.read_rounds()) == 2


def test_who_misses_the_sums_goes_on_with_its_own_nodes(world: World) -> None:
    run = world.train("late", frozenset({"neighbours-take 3"}), **{"neighbour-exchange.mode": "summed"})
    found, alone = run.features(), world.expected(10**6)
    np.testing.assert_allclose(found["client-01"], alone["client-01"], rtol=1e-4, atol=1e-6)
    whole = world.expected(3)
    np.testing.assert_allclose(found["client-00"], whole["client-00"], rtol=1e-4, atol=1e-6)
    assert "client-01" not in run.told()["clients"]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("how", ["noise", "cut", "table"])
def test_spoilt_parts_cost_sums_and_no_run(world: World, way: str, how: str) -> None:
    if way == "encrypted":
        pytest.importorskip("tenseal", reason="the extra he (TenSEAL) is not installed")

    def spoil(reply: Reply) -> Reply:
        if (
            reply.phase != "neighbours-give"
            or reply.client != "client-02"
            or BYTES not in reply.content.tensors
        ):
            return reply
        tensors, values = dict(reply.content.tensors), dict(reply.content.values)
        if how == "noise":
            tensors[BYTES] = torch.randint(256, tensors[BYTES].shape, dtype=torch.uint8)
        elif how == "cut":
            tensors[BYTES] = tensors[BYTES][:-8]
        else:
            values[PARTS] = [
                [recipient, slot, owners + 1, size] for recipient, slot, owners, size in values[PARTS]
            ]
        return replace(reply, content=replace(reply.content, tensors=tensors, values=values))

    run = world.train(f"{how} {way}", spoil=spoil, **{"neighbour-exchange.mode": way})
    agree(run.features(), world.expected(3, missing=frozenset({2})), rtol=1e-3, atol=1e-6)


def test_a_resumed_run_keeps_its_features(world: World) -> None:
    settings = {"neighbour-exchange.mode": "summed"}
    whole = world.train("whole", **settings)
    with pytest.raises(Killed):
        world.train("resumed", dies_after="condense", **settings)
    resumed = world.train("resumed", **settings)
    assert not any(reply.phase.startswith("neighbours") for reply in resumed.grid.seen)
    assert [row.val_accuracy for row in resumed.directory.read_rounds()] == [
        row.val_accuracy for row in whole.directory.read_rounds()
    ]
    agree(resumed.features(), world.expected(3), rtol=1e-5, atol=1e-6)


def test_without_tenseal_nothing_begins(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tenseal", None)
    with pytest.raises(ConfigError, match=r"fedtag\[he\]"):
        world.train("bare", **{"neighbour-exchange.mode": "encrypted"})


def test_off_is_off(world: World) -> None:
    run = world.train("off")
    assert not run.features()
    assert not (run.directory.path / "neighbours.json").exists()
    assert not any(reply.phase.startswith("neighbours") for reply in run.grid.seen)


def test_a_site_predicts_with_what_others_added_to_its_features(
    world: World, runs: dict[str, Run], tmp_path: Path
) -> None:
    run = run_of(world, runs, "summed")
    out = run.directory.path

    def right(name: str, *options: object) -> int:
        file = tmp_path / f"{name}.parquet"
        arguments = ["predict", out, world.sites[name], "--out", file, *options]
        result = CliRunner().invoke(app, [str(one) for one in arguments])
        assert result.exit_code == 0, result.output
        table = parquet.read_table(file, columns=["prediction", "label", "split"]).to_pylist()
        return sum(row["prediction"] == row["label"] for row in table if row["split"] == "test")

    workspaces = {session.site.name: session.site.workspace for session in run.sessions}
    found = sum(right(name, "--workspace", workspaces[name]) for name in world.sites)
    tested = sum(session.data.sizes["test_nodes"] for session in run.sessions)
    assert found / tested == pytest.approx(json.loads((out / "summary.json").read_text())["test_accuracy"])
    first = next(iter(world.sites))
    for name, workspace, said in (
        (first, tmp_path, "keeps no 'exchanged' of any run"),
        (first, workspaces[list(world.sites)[-1]], "give the folder with which the run was made"),
    ):
        arguments = [
            "predict",
            out,
            world.sites[name],
            "--out",
            tmp_path / "no.parquet",
            "--workspace",
            workspace,
        ]
        result = CliRunner().invoke(app, [str(one) for one in arguments])
        assert (result.exit_code, said in result.output.replace("\n", " ")) == (2, True), result.output
        assert not (tmp_path / "no.parquet").exists()


class TwiceAsking(Grid):
    """A grid that asks every site a second time for its parts, with numbers of another size on the way."""

    def __init__(self, sessions: list[SiteRun], coarse: RunConfig) -> None:
        super().__init__(sessions, frozenset(), lambda reply: reply)
        self.sites = {session.site.name: session.site for session in sessions}
        self.coarse = coarse
        self.read: dict[tuple[str, str], np.ndarray] = {}
        self.same, self.refusals = 0, list[str]()

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        sent = list(messages)
        asked = [decode_instruction(message.content) for message in sent]
        keys = super().push_messages(sent)
        for key, instruction in zip(keys, asked, strict=True):
            if instruction.phase != GIVE_PHASE:
                continue
            first = decode_reply(self.replies[key].content, 1e9)
            try:
                again = SiteRun(self.sites[first.client], self.coarse).respond(instruction)
            except ProtocolError as refusal:
                self.refusals.append(str(refusal))
                continue
            bodies = {part.slot: np.frombuffer(part.body, "<u8") for part in unpacked(first.content)}
            for part in unpacked(again.content):
                difference = (bodies[part.slot] - np.frombuffer(part.body, "<u8")).view(np.int64)
                self.same += not difference.any()
                self.read[first.client, part.slot] = difference / (2.0**FINE - 2.0**COARSE)
        return keys


FINE, COARSE = 40, 20
"""privacy.scale-bits of the run, and those that come with the second instruction."""


@pytest.mark.parametrize("defence", ["settings", "parts", "none"])
def test_a_mask_serves_once(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, defence: str
) -> None:
    """Asked a second time under other settings a site refuses; without that check it gives the same bytes; without
    these the server reads every sum, some of them a single node's features."""
    settings = {**SETTINGS, "neighbour-exchange.mode": "summed", "out": str(tmp_path / "run")}
    config, coarse = (
        RunConfig.from_flat({**settings, "privacy.scale-bits": bits}) for bits in (FINE, COARSE)
    )
    sessions = [
        SiteRun(Site(name, data, tmp_path / "work" / name, tmp_path / "cache", "cpu"), config)
        for name, data in world.sites.items()
    ]
    true: dict[tuple[str, str], np.ndarray] = {}
    part = Exchange._part

    def noted(exchange: Exchange, x: Any, bundle: Bundle, edges: Any) -> np.ndarray:
        values = part(exchange, x, bundle, edges)
        true.setdefault((exchange.name, bundle.slot), values)
        return values

    monkeypatch.setattr(Exchange, "_part", noted)
    if defence != "settings":
        monkeypatch.setattr("fedtag.client.run.site_run.fix_settings", lambda *arguments: None)
    if defence == "none":
        monkeypatch.setattr(Given, "before", lambda *arguments: None)
    grid = TwiceAsking(sessions, coarse)
    Rounds(grid, config, RunDirectory(tmp_path / "run"), LineProgress()).run()
    if defence == "settings":
        assert not grid.read
        assert len(grid.refusals) == len(sessions)
        assert all("privacy.scale-bits = 40, now 20" in refusal for refusal in grid.refusals)
        return
    assert grid.read
    if defence == "parts":
        assert grid.same == len(grid.read)
        return
    assert max(np.abs(values - true[key]).max() for key, values in grid.read.items()) < 1e-6
    rows = np.concatenate([values.reshape(-1, DIM + 1) for values in grid.read.values()])
    assert (rows[:, -1].round() == 1).any()
