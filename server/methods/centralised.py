"""Centralised training on the server: FedAvg over the one client that holds everything."""

from __future__ import annotations

from server.methods.fedavg import FedAvg


class Centralised(FedAvg):
    """FedAvg whose clients' graphs are pooled before the run."""

    pools_data = True


METHOD = Centralised()
