"""DA-DFGAS with architectures of clients' own under secure aggregation: what is summed, what stays, what is told."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import Tensor

import server.strategies.aggregation as aggregation
from client.methods.da_dfgas.networks import own_architecture
from client.session import Session
from common.models.parameters import Parameters
from common.models.supernet.architecture import Architecture
from common.models.supernet.logits import is_architecture
from common.models.supernet.network import used_names
from common.wire.records import Content

if TYPE_CHECKING:
    from tests.integration.conftest import Tiny, Tried

SETTINGS: dict[str, object] = {
    "method": "da_dfgas",
    "rounds": 4,
    "dadfgas.search-share": 0.5,
    "dadfgas.architecture-rate": 0.5,
    "train.epochs": 3,
    "aggregation.statistics": "previous",
}
SECURE = {"privacy.secure-aggregation": True}
CLIENTS = 5
UPLOAD = "masked/vector"


def test_try(tiny: Tiny) -> None:
    run = tiny({**SETTINGS, **SECURE}, clients=CLIENTS)
    print(run.error, run.phases, run.notes.texts)
    print(run.rounds.standing.users)
    print(run.summary)
    for s in run.sessions:
        print(list(s.site.state.rglob("*")))
    assert 0
