"""Centralised training on the server: FedAvg over the one client that holds everything."""

from __future__ import annotations

from fedtag.server.methods.fedavg import FedAvg

METHOD = FedAvg()
