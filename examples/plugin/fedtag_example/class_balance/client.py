"""The client of class-balance: it tells how many labels each class has, then weighs them in its loss."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from fedtag.extension import ClientMethod, Content, Examples, Handler, RunContext, SiteData, prefixed
from fedtag_example.class_balance.names import BALANCE, COUNT, COUNTS, LABEL_WEIGHT, WEIGHTS, unit
from fedtag_example.settings import ClassBalanceConfig

Context = RunContext[ClassBalanceConfig]


class ClassBalance(ClientMethod[ClassBalanceConfig]):
    """Phases: `count`, and those of the base, in which each label weighs what the server says of its class.

    A plain object without memory: each exchange may find a new process.
    """

    def handlers(self) -> Mapping[str, Handler]:
        return {**super().handlers(), COUNT: self.count}

    def count(self, data: SiteData, context: Context) -> Content:
        """Training nodes of each class, in the unit in which the server averages them."""
        graph = data.graph
        labels = graph.y[graph.train_mask]
        if not labels.numel():
            # A client with nothing to count weighs nothing in the mean.
            return Content()
        counts = torch.bincount(labels, minlength=graph.num_classes).float()
        scaled = counts * unit(context.config.aggregation.weights, labels.numel())
        # What comes together in a sum is called an update, whatever it is; masks hide it as they hide a model's.
        return Content(prefixed("update", {COUNTS: scaled.cpu()}))

    def examples(
        self, model: Any, data: SiteData, context: Context
    ) -> tuple[Examples | None, dict[str, Any]]:
        """Those of the base, of the run's condenser or of the whole graph; a label that counts w there counts w w_c."""
        examples, reported = super().examples(model, data, context)
        if examples is None:
            return None, reported
        of_class = context.content.section(BALANCE)[WEIGHTS].to(data.device)
        # A node without a label has class -1, and is masked out.
        weight = of_class[examples.y.clamp(min=0)] * examples.mask
        reported[LABEL_WEIGHT] = float(weight.sum() / examples.mask.sum())
        if examples.weight is not None:
            weight = weight * examples.weight
        return replace(examples, weight=weight), reported


METHOD = ClassBalance()
