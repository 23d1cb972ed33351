"""Sums by SecAgg+ as Flower ships it, over clients in this process, with what they cost each side.

Messages are serialised and opened again by the grid, as in a federation. The clients' state stays in memory;
a SuperNode would also write it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

import numpy as np
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.client.mod import secaggplus_mod
from flwr.clientapp import ClientApp
from flwr.common import Code, FitRes, Parameters, Status, ndarrays_to_parameters, parameters_to_ndarrays
from flwr.common.secure_aggregation.secaggplus_constants import RECORD_KEY_CONFIGS, Key
from flwr.compat.common import recorddict_compat
from flwr.server.client_manager import SimpleClientManager
from flwr.server.client_proxy import ClientProxy
from flwr.server.compat.grid_client_proxy import GridClientProxy
from flwr.server.compat.legacy_context import LegacyContext
from flwr.server.strategy import FedAvg
from flwr.server.workflow import SecAggPlusWorkflow
from flwr.server.workflow.constant import MAIN_CONFIGS_RECORD, MAIN_PARAMS_RECORD
from flwr.server.workflow.constant import Key as WorkflowKey
from numpy.typing import NDArray

from fedtag.common.wire.codec import Parcel
from fedtag.runs.grid import SERVER_NODE, InProcessGrid


@dataclass(frozen=True)
class Traffic:
    """One message: whether it goes to the server, its bytes, and the example count that it says openly."""

    up: bool
    size: int
    examples: int | None


@dataclass
class SecAggCost:
    """What rounds of SecAgg+ took.

    Args:
        mean: the weighted mean that came out last.
        clients: CPU seconds by stage, of all rounds and clients; the wire is left out.
        servers: CPU seconds by round, of everything that the workflow does between its exchanges.
        bytes_up: a round and client.
        exchanges: a round.
        examples: the example counts that the server read.
    """

    mean: NDArray[np.float64]
    clients: dict[str, list[float]]
    servers: list[float]
    bytes_up: float
    exchanges: float
    examples: set[int]

    @property
    def client(self) -> float:
        """CPU seconds of a typical client in a round."""
        return sum(median(seconds) for seconds in self.clients.values())


@dataclass
class Participants:
    """Clients behind Flower's mod; each adds the same vector in every round."""

    vectors: Sequence[NDArray[np.float32]]
    examples: Sequence[int]
    seconds: dict[str, list[float]] = field(default_factory=dict)

    def __call__(self, message: Message, context: Context) -> Message:
        stage = str(message.content.config_records[RECORD_KEY_CONFIGS][Key.STAGE])
        elsewhere = 0.0

        def trained(request: Message, own: Context) -> Message:
            nonlocal elsewhere
            start = time.process_time()
            reply = self._update(request, own)
            elsewhere = time.process_time() - start
            return reply

        start = time.process_time()
        reply = secaggplus_mod(message, context, trained)
        self.seconds.setdefault(stage, []).append(time.process_time() - start - elsewhere)
        return reply

    def _update(self, message: Message, context: Context) -> Message:
        place = context.node_id - SERVER_NODE - 1
        update = ndarrays_to_parameters([self.vectors[place]])
        result = FitRes(Status(Code.OK, ""), update, self.examples[place], {})
        return Message(recorddict_compat.fitres_to_recorddict(result, keep_input=True), reply_to=message)


class SecAggGrid(InProcessGrid):
    """The grid between Flower's workflow and the participants; CPU time spent behind it is noted."""

    def __init__(self, participants: Participants) -> None:
        super().__init__((), self._weigh)
        nodes = range(SERVER_NODE + 1, SERVER_NODE + 1 + len(participants.vectors))
        self.contexts = {node: Context(1, node, {}, RecordDict(), {}) for node in nodes}
        self.app = ClientApp()
        self.app.train()(participants)
        self.traffic: list[Traffic] = []
        self.exchanges = 0
        self.seconds = 0.0

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
        self.exchanges += 1
        start = time.process_time()
        replies = super().send_and_receive(messages, timeout=timeout)
        self.seconds += time.process_time() - start
        return replies

    def _weigh(self, parcel: Parcel) -> None:
        message = parcel.open()
        metrics = message.content.metric_records.values()
        told = [count for record in metrics if isinstance(count := record.get("num_examples"), int)]
        up = message.metadata.dst_node_id == SERVER_NODE
        self.traffic.append(Traffic(up, parcel.size, told[0] if told else None))


class SumOnly(FedAvg):
    """Takes the mean as the workflow hands it over, once for every client, without averaging the copies."""

    def aggregate_fit(
        self, server_round: int, results: list[tuple[ClientProxy, FitRes]], failures: list[Any]
    ) -> tuple[Parameters | None, dict[str, bool | bytes | float | int | str]]:
        return results[0][1].parameters, {}


def secagg_plus(
    vectors: Sequence[NDArray[np.float32]],
    examples: Sequence[int],
    threshold: int,
    rounds: int,
    max_weight: float = 1000.0,
    clipping_range: float = 8.0,
) -> SecAggCost:
    """The mean of the clients' vectors weighed by their example counts, and what it cost.

    Every client shares its secrets with all others.

    Args:
        vectors: one a client.
        examples: one count a client.
        threshold: shares that restore a secret.
        rounds: how often it is repeated.
        max_weight: the largest example count; the default is Flower's.
        clipping_range: the largest absolute value of a coordinate, likewise.
    """
    participants = Participants(vectors, examples)
    grid = SecAggGrid(participants)
    count = len(vectors)
    manager = SimpleClientManager()
    for node in grid.contexts:
        manager.register(GridClientProxy(node, grid, run_id=1))
    strategy = SumOnly(min_fit_clients=count, min_available_clients=count)
    context = LegacyContext(
        Context(1, SERVER_NODE, {}, RecordDict(), {}), strategy=strategy, client_manager=manager
    )
    workflow = SecAggPlusWorkflow(1.0, threshold, max_weight=max_weight, clipping_range=clipping_range)
    servers = []
    for number in range(1, rounds + 1):
        received = recorddict_compat.parameters_to_arrayrecord(
            ndarrays_to_parameters([np.zeros_like(vectors[0])]), keep_input=False
        )
        context.state.array_records[MAIN_PARAMS_RECORD] = received
        context.state.config_records[MAIN_CONFIGS_RECORD] = ConfigRecord({WorkflowKey.CURRENT_ROUND: number})
        before, behind = time.process_time(), grid.seconds
        workflow(grid, context)
        servers.append(time.process_time() - before - (grid.seconds - behind))
    total = recorddict_compat.arrayrecord_to_parameters(
        context.state.array_records[MAIN_PARAMS_RECORD], keep_input=True
    )
    return SecAggCost(
        parameters_to_ndarrays(total)[0],
        participants.seconds,
        servers,
        sum(message.size for message in grid.traffic if message.up) / rounds / count,
        grid.exchanges / rounds,
        {message.examples for message in grid.traffic if message.examples is not None},
    )
