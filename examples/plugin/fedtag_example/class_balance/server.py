"""The server of class-balance: it learns the sum of the clients' label counts, and weighs classes by it."""

from __future__ import annotations

import json
from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor

from fedtag.extension import (
    Aggregate,
    Agreement,
    Content,
    Phase,
    Reply,
    ServerContext,
    ServerMethod,
    ServerState,
    TensorForm,
    prefixed,
)
from fedtag_example.class_balance.names import BALANCE, COUNT, COUNTS, FILE, SHARES, WEIGHTS
from fedtag_example.settings import ClassBalanceConfig

# `sum`: what clients send comes together in one sum, so that secure aggregation can hide the parts.
COUNTING = Phase(
    COUNT, "clients tell how many labels each class has; the server learns the sum", gathers="sum"
)


def class_weights(shares: Float[Tensor, " classes"], smoothing: float) -> Float[Tensor, " classes"]:
    """w_c ∝ 1 / (p_c + s) with Σ p_c w_c = 1; 0 for a class without a label.

    Args:
        shares: p_c, sum 1.
        smoothing: s, at least 0.
    """
    weights = torch.where(shares > 0, 1 / (shares + smoothing), 0.0)
    return weights / (shares * weights).sum()


class ClassBalance(ServerMethod):
    """Phases: `count` before round 1, then those of the base.

    State: "model/"; "balance/", the shares of the classes and their weights. In the values, the classes' names. It is
    passed in and comes back, and a checkpoint holds all of it: that is why a killed run goes on to the same model.
    """

    def preparation(self, context: ServerContext) -> tuple[Phase, ...]:
        return (COUNTING,)

    def begin(self, agreement: Agreement, context: ServerContext) -> ServerState:
        classes = len(agreement.classes)
        balance = {SHARES: torch.full((classes,), 1 / classes), WEIGHTS: torch.ones(classes)}
        tensors = {**super().begin(agreement, context).tensors, **prefixed(BALANCE, balance)}
        return ServerState(tensors, {"classes": list(agreement.classes)})

    def instruct(
        self, state: ServerState | None, phase: Phase, client: str | None, context: ServerContext
    ) -> Content:
        # Elsewhere clients get the whole state, with the weights of the classes.
        return Content() if phase == COUNTING else super().instruct(state, phase, client, context)

    def expected(self, state: ServerState, phase: Phase, context: ServerContext) -> Mapping[str, TensorForm]:
        if phase != COUNTING:
            return super().expected(state, phase, context)
        return {f"update/{COUNTS}": TensorForm((len(state.values["classes"]),), torch.float32)}

    def combine(
        self,
        state: ServerState,
        phase: Phase,
        replies: Mapping[str, Reply],
        aggregate: Aggregate,
        context: ServerContext,
    ) -> tuple[ServerState, Mapping[str, float]]:
        if phase != COUNTING:
            return super().combine(state, phase, replies, aggregate, context)
        if not aggregate.step:
            # Nobody has a label: all classes stay alike.
            return state, aggregate.weights
        counts = aggregate.step[COUNTS]
        shares = counts / counts.sum()
        weights = class_weights(shares, context.settings.own(ClassBalanceConfig).smoothing)
        balance = prefixed(BALANCE, {SHARES: shares, WEIGHTS: weights})
        return ServerState({**state.tensors, **balance}, state.values), aggregate.weights

    def documents(self, state: ServerState, context: ServerContext) -> Mapping[str, str]:
        """The share and the weight of each class, written beside the released model."""
        balance = {name: value.tolist() for name, value in state.section(BALANCE).items()}
        return {FILE: json.dumps({"classes": state.values["classes"], **balance}, indent=1) + "\n"}


METHOD = ClassBalance()
