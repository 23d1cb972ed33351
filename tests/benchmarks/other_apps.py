"""Two Flower apps for comparison: one that only sends back what it gets, and Flower's own loop."""

from __future__ import annotations

from pathlib import Path

PROJECT = """
[project]
name = "{name}"
version = "0.0.1"
description = "For comparison."
license = "Apache-2.0"

[tool.flwr.app]
publisher = "fedtag"

[tool.flwr.app.components]
serverapp = "{name}server:app"
clientapp = "{name}client:app"

[tool.flwr.app.config]
floats = 1000
rounds = 3
nodes = {nodes}
"""

# The loop of server/rounds.py without anything around it.
ECHO_SERVER = """
import time

import numpy as np
from flwr.app import ArrayRecord, Message, RecordDict
from flwr.serverapp import ServerApp

app = ServerApp()


@app.main()
def main(grid, context):
    arrays = ArrayRecord([np.zeros(context.run_config["floats"], np.float32)])
    while len(nodes := list(grid.get_node_ids())) < context.run_config["nodes"]:
        time.sleep(0.05)
    for number in range(context.run_config["rounds"]):
        start = time.monotonic()
        content = RecordDict({"arrays": arrays})
        messages = [Message(content, dst_node_id=node, message_type="train", ttl=600) for node in nodes]
        waiting = set(grid.push_messages(messages))
        while waiting:
            for reply in grid.pull_messages(waiting):
                assert not reply.has_error()
                waiting.discard(reply.metadata.reply_to_message_id)
            if waiting:
                time.sleep(0.05)
        print(f"SECONDS {time.monotonic() - start}", flush=True)
"""

ECHO_CLIENT = """
import numpy
from flwr.app import Message
from flwr.clientapp import ClientApp

app = ClientApp()


@app.train()
def train(message, context):
    return Message(message.content, reply_to=message)
"""

STOCK_SERVER = """
import time

import numpy as np
from flwr.app import ArrayRecord
from flwr.serverapp import ServerApp
from flwr.serverapp.strategy import FedAvg

app = ServerApp()


class Timed(FedAvg):
    began = time.monotonic()

    def aggregate_evaluate(self, server_round, replies):
        result = super().aggregate_evaluate(server_round, replies)
        print(f"SECONDS {time.monotonic() - self.began}", flush=True)
        self.began = time.monotonic()
        return result


@app.main()
def main(grid, context):
    arrays = ArrayRecord([np.zeros(context.run_config["floats"], np.float32)])
    strategy = Timed(min_available_nodes=3, min_train_nodes=3, min_evaluate_nodes=3)
    strategy.start(grid, arrays, num_rounds=context.run_config["rounds"])
"""

STOCK_CLIENT = """
import torch
from flwr.app import Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()


@app.train()
def train(message, context):
    metrics = MetricRecord({"num-examples": 1})
    return Message(RecordDict({"arrays": message.content["arrays"], "metrics": metrics}), reply_to=message)


@app.evaluate()
def evaluate(message, context):
    return Message(RecordDict({"metrics": MetricRecord({"num-examples": 1, "loss": 0.0})}), reply_to=message)
"""


def write_echo(folder: Path, nodes: int = 3) -> Path:
    """An app whose clients import NumPy alone and send back what they get, once all nodes are there."""
    return _write(folder, "echo", ECHO_SERVER, ECHO_CLIENT, nodes)


def write_stock(folder: Path) -> Path:
    """An app with Flower's FedAvg, whose clients import torch for each message and compute nothing."""
    return _write(folder, "stock", STOCK_SERVER, STOCK_CLIENT)


def _write(folder: Path, name: str, server: str, client: str, nodes: int = 3) -> Path:
    folder.mkdir()
    files = {
        "pyproject.toml": PROJECT.format(name=name, nodes=nodes),
        f"{name}server.py": server,
        f"{name}client.py": client,
    }
    for file, text in files.items():
        (folder / file).write_text(text, encoding="utf-8")
    return folder
