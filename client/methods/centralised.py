"""Centralised training: the one client holds the whole graph, cross-client edges included, and trains as any other."""

from __future__ import annotations

from fedtag.client.methods.base import ClientMethod

METHOD = ClientMethod[None]()
