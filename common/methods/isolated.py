"""Isolated training: every client trains a model of its own."""

from __future__ import annotations

from fedtag.common.methods.spec import MethodSpec, Traits
from fedtag.common.settings.registry import INTERFACE

SPEC = MethodSpec(
    name="isolated",
    title="No federation: every client trains a model of its own, and only its scores leave it",
    interface=INTERFACE,
    traits=Traits(sums=False, ordered=True, together=True, releases="nothing"),
    client="fedtag.client.methods.isolated:METHOD",
    server="fedtag.server.methods.isolated:METHOD",
)
