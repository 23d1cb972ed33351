"""What secure summation adds to a real round, beside the same sum by the SecAgg+ that Flower ships.

CPU seconds are of this process. A client's are those of its answers, without the wire: for fedtag what a
round adds to that of the same run in clear, files on disk included; for SecAgg+ what its mod takes.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import numpy as np
import pytest
from flwr.common.secure_aggregation.secaggplus_utils import pseudo_rand_gen
from numpy.typing import NDArray

from fedtag.client.data.text_graph import TEST, TRAIN, VAL, TextGraph, canonical_edges
from fedtag.client.data.writing import write_folder
from fedtag.client.run.simulated import simulate_sites
from fedtag.client.run.site_run import SiteRun
from fedtag.client.site.site import Site
from fedtag.common.config import RunConfig
from fedtag.common.secure.phases import KEYS, PROTOCOL, SHARES
from fedtag.common.secure.shares import threshold
from fedtag.common.wire.codec import Parcel, decode_reply
from fedtag.common.wire.records import Instruction, Reply
from fedtag.runs.grid import SERVER_NODE, InProcessGrid
from fedtag.server.run.rounds import Rounds
from fedtag.server.state.progress import LineProgress
from fedtag.server.strategies.secure import open_sum
from fedtag.server.tracking.run_directory import RunDirectory
from tests.benchmarks.flower_secagg import SecAggCost, secagg_plus

pytestmark = pytest.mark.benchmark

CLIENTS, ROUNDS = 10, 4
WIDTH, HIDDEN, CLASSES = 1000, 1000, 3
MOST_SECONDS_A_ROUND = 0.5
MOST_BYTES_OF_PLAIN = 2.2
EXCHANGES = {"plain": 1, "masked": 2, "roster": 3}
SETTINGS: Mapping[str, Mapping[str, object]] = {
    "plain": {},
    "masked": {"privacy.secure-aggregation": True},
    "roster": {"privacy.secure-aggregation": True, "privacy.roster": True},
}


class TimedSession(SiteRun):
    """A session that notes the CPU seconds of its answers, by round and phase."""

    def __init__(self, site: Site, config: RunConfig) -> None:
        super().__init__(site, config)
        self.cpu: dict[tuple[int, str], float] = {}

    def respond(self, instruction: Instruction) -> Reply:
        before = time.process_time()
        reply = super().respond(instruction)
        self.cpu[instruction.round, instruction.phase] = time.process_time() - before
        return reply


@dataclass
class Federated:
    """What a run cost and said.

    Args:
        clients: CPU seconds of each client's answers, by round and phase.
        servers: CPU seconds of opening a sum, by round.
        sums: the opened coordinates, by round.
        bytes_up: of all clients, by round; as in metrics.jsonl.
        exchanges: phases in the order in which the grid saw them, by round.
        updates: of the first round, where they crossed in clear; names in alphabetical order.
        train_nodes: by client, where they crossed in clear.
    """

    clients: list[dict[tuple[int, str], float]] = field(default_factory=list)
    servers: list[float] = field(default_factory=list)
    sums: list[NDArray[np.float64]] = field(default_factory=list)
    bytes_up: list[int] = field(default_factory=list)
    exchanges: dict[int, list[str]] = field(default_factory=dict)
    updates: dict[str, NDArray[np.float32]] = field(default_factory=dict)
    train_nodes: dict[str, int] = field(default_factory=dict)

    @property
    def set_up(self) -> list[int]:
        """Rounds in which a block is prepared; the first one of a run in any case."""
        return [n for n, phases in self.exchanges.items() if n == 1 or {KEYS, SHARES} & set(phases)]

    @property
    def steady(self) -> list[int]:
        """All others."""
        return [number for number in self.exchanges if number not in self.set_up]

    def answering(self, rounds: Sequence[int], *phases: str) -> float:
        """CPU seconds of a typical client in a typical one of these rounds."""
        return sum(
            median(cpu.get((number, phase), 0.0) for cpu in self.clients for number in rounds)
            for phase in phases
        )

    def opening(self, rounds: Sequence[int]) -> float:
        """CPU seconds of the server to open a typical sum of these rounds."""
        return median(self.servers[number - 1] for number in rounds) if self.servers else 0.0

    def sent(self, rounds: Sequence[int]) -> float:
        """Bytes that all clients send in a typical one of these rounds."""
        return median(self.bytes_up[number - 1] for number in rounds)

    def note(self, parcel: Parcel) -> None:
        """A tap: what crosses the network."""
        message = parcel.open()
        if message.metadata.dst_node_id != SERVER_NODE:
            return
        reply = decode_reply(message.content, 1e12)
        if reply.round > ROUNDS:
            return
        phases = self.exchanges.setdefault(reply.round, [])
        if reply.phase not in phases:
            phases.append(reply.phase)
        if "sizes" in reply.content.values:
            self.train_nodes[reply.client] = reply.content.values["sizes"]["train_nodes"]
        update = reply.content.section("update")
        if update and reply.round == 1:
            parts = [update[name].numpy().ravel() for name in sorted(update)]
            self.updates[reply.client] = np.concatenate(parts)

    def opened(self, *arguments: Any) -> NDArray[np.float64]:
        """`open_sum`, timed."""
        before = time.process_time()
        total = open_sum(*arguments)
        self.servers.append(time.process_time() - before)
        self.sums.append(total)
        return total


def wide_graph(nodes: int) -> TextGraph:
    """Few nodes with features so wide that the model on them has a million parameters."""
    rng = np.random.default_rng(0)
    labels = np.arange(nodes) % CLASSES
    edges, weights, _, _ = canonical_edges(
        rng.integers(0, nodes, (4 * nodes, 2)), np.ones(4 * nodes, np.float32), False
    )
    return TextGraph(
        name="wide",
        node_ids=tuple(range(nodes)),
        texts=tuple(f"text of node {row}" for row in range(nodes)),
        labels=labels.astype(np.int64),
        split=np.array([TRAIN, TRAIN, TRAIN, VAL, TEST], np.int8)[(np.arange(nodes) // CLASSES) % 5],
        edges=edges,
        edge_weights=weights,
        classes=tuple("abc"[:CLASSES]),
        features=rng.standard_normal((nodes, WIDTH)).astype(np.float32),
    )


@pytest.fixture(scope="module")
def federated(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Federated]:
    """The same federation in clear, under masks, and under masks with a roster; the first round warms up."""
    place = tmp_path_factory.mktemp("secure-rounds")
    folder = write_folder(wide_graph(40 * CLIENTS), place / "wide")

    def run(name: str, changes: Mapping[str, object], rounds: int) -> Federated:
        config = RunConfig.from_flat(
            {
                "method": "fedavg",
                "rounds": rounds,
                "clients": CLIENTS,
                "device": "cpu",
                "data.source": str(folder),
                "data.partition": "random",
                "model.hidden": HIDDEN,
                "exchange.poll": 0.001,
                **changes,
            }
        )
        sessions = [TimedSession(site, config) for site in simulate_sites(config, place / name / "sites")]
        for session in sessions:
            assert session.data.graph.num_nodes
        seen = Federated()
        directory = RunDirectory(place / name / "run")
        grid = InProcessGrid(sessions, seen.note)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("fedtag.server.sums.opening.open_sum", seen.opened)
            patch.setattr("fedtag.server.run.conclusion.write_report", lambda runs, out: None)
            Rounds(grid, config, directory, LineProgress()).run()
        seen.clients = [session.cpu for session in sessions]
        seen.bytes_up = [row.bytes_up for row in directory.read_rounds()]
        return seen

    run("warm", SETTINGS["masked"], 1)
    return {name: run(name, changes, ROUNDS) for name, changes in SETTINGS.items()}


def security(plain: Federated, secured: Federated, rounds: Sequence[int]) -> float:
    """CPU seconds that masks, signatures and shares add to a client's round, whatever of it was trained."""
    training = secured.answering(rounds, "train") - plain.answering(rounds, "train")
    return training + secured.answering(rounds, *sorted(PROTOCOL))


def error_of(mean: NDArray[np.float64], plain: Federated) -> float:
    """The largest distance of a coordinate from the weighted mean of the updates that crossed in clear."""
    weights = [plain.train_nodes[name] for name in plain.updates]
    exact = np.average(np.stack([update.astype(np.float64) for update in plain.updates.values()]), 0, weights)
    return float(np.abs(mean - exact).max())


def show(title: str, columns: Sequence[str], rows: Mapping[str, Sequence[str]]) -> None:
    lines = [title, f"  {'':<38}" + "".join(f"{column:>18}" for column in columns)]
    lines += [f"  {what:<38}" + "".join(f"{cell:>18}" for cell in cells) for what, cells in rows.items()]
    print("\n" + "\n".join(lines))  # noqa: T201


@pytest.mark.parametrize("kind", ["masked", "roster"])
def test_masks_cost_a_round_little(federated: dict[str, Federated], kind: str) -> None:
    plain, secured = federated["plain"], federated[kind]
    parameters = secured.sums[0].size - 2
    cases = [(plain, [1]), (secured, [1]), (plain, plain.steady), (secured, secured.steady)]
    phases = dict.fromkeys(phase for phases in secured.exchanges.values() for phase in phases)
    show(
        f"a round of FedAvg, {CLIENTS} clients, {parameters} parameters, {kind}",
        ["plain, 1st", f"{kind}, set-up", "plain, steady", f"{kind}, steady"],
        {
            f"client CPU s, {phase}": [f"{run.answering(rounds, phase):.3f}" for run, rounds in cases]
            for phase in phases
        }
        | {
            "client CPU s for security": [f"{security(plain, run, rounds):.3f}" for run, rounds in cases],
            "server CPU s, opening": [f"{run.opening(rounds):.3f}" for run, rounds in cases],
            "bytes up, all clients": [f"{run.sent(rounds):.0f}" for run, rounds in cases],
            "  times plain": [f"{run.sent(rounds) / plain.sent(rounds):.3f}" for run, rounds in cases],
            "exchanges": [f"{len(run.exchanges[rounds[-1]])}" for run, rounds in cases],
        },
    )
    assert 0.9e6 < parameters < 1.1e6
    assert secured.set_up == [1]
    assert len(secured.updates) == 0
    assert len(plain.updates) == CLIENTS
    assert security(plain, secured, secured.steady) <= MOST_SECONDS_A_ROUND
    for number in secured.steady:
        assert len(secured.exchanges[number]) == EXCHANGES[kind]
        assert secured.bytes_up[number - 1] <= MOST_BYTES_OF_PLAIN * plain.bytes_up[number - 1]


def test_the_same_sum_by_flowers_secagg_plus(
    federated: dict[str, Federated], caplog: pytest.LogCaptureFixture
) -> None:
    """SecAgg+ sets up in every round, so its round is compared with a steady one and with one of set-up."""
    caplog.set_level(logging.WARNING, logger="flwr")
    plain = federated["plain"]
    vectors = [plain.updates[name] for name in sorted(plain.updates)]
    counts = [plain.train_nodes[name] for name in sorted(plain.updates)]
    needed = threshold(CLIENTS)
    largest = float(max(np.abs(vector).max() for vector in vectors))
    flowers = {
        "SecAgg+": secagg_plus(vectors, counts, needed, 2),
        # As exact as it can be: nobody knows these two numbers before.
        "SecAgg+, fitted": secagg_plus(
            vectors, counts, needed, 2, max_weight=float(max(counts)), clipping_range=largest
        ),
    }
    ours = {name: federated[name] for name in ("masked", "roster")}
    errors = {name: error_of(run.sums[0][:-2], plain) for name, run in ours.items()}
    errors |= {name: error_of(run.mean, plain) for name, run in flowers.items()}
    clear = vectors[0].nbytes

    def cells(our: Callable[[Federated], str], flower: Callable[[SecAggCost], str]) -> list[str]:
        return [our(run) for run in ours.values()] + [flower(run) for run in flowers.values()]

    show(
        f"one sum, {CLIENTS} clients, {vectors[0].size} float32 parameters, {needed} of {CLIENTS} shares",
        ["fedtag", "fedtag, roster", *flowers],
        {
            "client CPU s a round": cells(
                lambda run: f"{security(plain, run, run.steady):.3f}", lambda run: f"{run.client:.3f}"
            ),
            "  more in a round of set-up": cells(
                lambda run: f"{security(plain, run, [1]) - security(plain, run, run.steady):.3f}",
                lambda run: "every round",
            ),
            "server CPU s a round": cells(
                lambda run: f"{run.opening(run.steady):.3f}", lambda run: f"{median(run.servers):.3f}"
            ),
            "bytes up a client and round": cells(
                lambda run: f"{run.sent(run.steady) / CLIENTS:.0f}", lambda run: f"{run.bytes_up:.0f}"
            ),
            "  times the update in clear": cells(
                lambda run: f"{run.sent(run.steady) / CLIENTS / clear:.3f}",
                lambda run: f"{run.bytes_up / clear:.3f}",
            ),
            "exchanges a round": cells(
                lambda run: f"{len(run.exchanges[ROUNDS])}", lambda run: f"{run.exchanges:.0f}"
            ),
            "  in a round of set-up": cells(
                lambda run: f"{len(run.exchanges[1])}", lambda run: f"{run.exchanges:.0f}"
            ),
            "largest error of the mean": [f"{error:.1e}" for error in errors.values()],
            "bits of a mask's seed": cells(lambda run: "128", lambda run: "32"),
            "example counts in clear": cells(
                lambda run: "yes" if run.train_nodes else "no", lambda run: "yes" if run.examples else "no"
            ),
        },
    )
    for name, run in flowers.items():
        assert run.exchanges == 4
        assert errors[name] < 1e-3, "its sum is not the sum, so its costs say nothing"
        assert run.examples == set(counts)
    assert max(errors["masked"], errors["roster"]) < min(errors[name] for name in flowers)


def test_secagg_plus_folds_its_mask_seeds_to_32_bits() -> None:
    """Any seed of 32 bytes gives the mask of one of 4 bytes: 2^32 tries find it."""
    seed = np.random.default_rng(0).bytes(32)
    folded = np.bitwise_xor.reduce(np.frombuffer(seed, "<u4")).tobytes()
    of_seed, of_folded = (pseudo_rand_gen(one, 1 << 32, [(1000,)])[0] for one in (seed, folded))
    assert np.array_equal(of_seed, of_folded)
