"""Sites whose clients are trained at once: what each brings, and what each keeps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from torch import Tensor

from fedtag.client.context.memory import RunMemory
from fedtag.client.context.run_context import RunContext
from fedtag.client.methods.base import ClientMethod
from fedtag.client.run.site_run import SiteRun
from fedtag.client.train.optimisation import Training
from fedtag.client.train.stacked.shares import Share
from fedtag.common.methods.spec import METHODS
from fedtag.common.wire.records import Content, Instruction


def share_of(client: SiteRun, instruction: Instruction) -> Share:
    """What a site brings into a training of all at once; it has answered an exchange of the run before."""
    return _method(client).train_together(client.data, _context(client, instruction))


def concluded(
    client: SiteRun, instruction: Instruction, trained: Mapping[str, Tensor], training: Training
) -> Content:
    """What a site says, and keeps, after a round in which its own model was trained beside those of others.

    Args:
        client: whose it is.
        instruction: of the round.
        trained: its model's parameters.
        training: what was done.
    """
    method, context = _method(client), _context(client, instruction)
    data = method.placed(client.data, context)
    start = method.start(data, context)
    model = method.with_parameters(trained, data, context)
    return method.after_training(model, start, training, data, context)


def _method(client: SiteRun) -> ClientMethod[Any]:
    spec = client.config.spec
    return cast(ClientMethod[Any], METHODS.resolved(spec, spec.client))


def _context(client: SiteRun, instruction: Instruction) -> RunContext[Any]:
    return RunContext(client.site, client.config, RunMemory(client.site, instruction), instruction)
