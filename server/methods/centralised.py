"""Centralised training on the server: one client holds everything, and its update moves the model."""

from __future__ import annotations

from fedtag.server.protocol.method import ServerMethod

METHOD = ServerMethod()
