"""Centralised training: one client holds the whole graph, cross-client edges included."""

from __future__ import annotations

from fedtag.common.methods.base import averaged_records
from fedtag.common.methods.spec import MethodSpec, Traits
from fedtag.common.settings.registry import INTERFACE

SPEC = MethodSpec(
    name="centralised",
    title="No institutions: one model on the whole graph, cross-client edges included",
    interface=INTERFACE,
    traits=Traits(pooled=True, sums=False, ordered=True, together=True),
    records=averaged_records("the difference between the locally trained and the received model"),
    client="fedtag.client.methods.centralised:METHOD",
    server="fedtag.server.methods.centralised:METHOD",
)
