"""Centralised training: FedAvg with one client that holds the whole graph, cross-client edges included."""

from __future__ import annotations

from fedtag.client.methods.fedavg import FedAvg

METHOD = FedAvg()
