"""FedAvg on the server: the combined update moves the global model, as in every method's base."""

from __future__ import annotations

from fedtag.server.protocol.method import ServerMethod

METHOD = ServerMethod()
