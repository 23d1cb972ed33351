"""Faithfulness of the evidence at one site: chunks are masked in the texts, and predictions made anew."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

import numpy as np
import torch
from torch import Tensor

from fedtag.client.context.run_context import RunContext
from fedtag.client.context.site_data import SiteData
from fedtag.client.evidence.faithfulness import EVIDENCE, RANDOM, SELECTED, Outcomes, Readings, pooled
from fedtag.client.evidence.keeper import Measured
from fedtag.client.evidence.measured import NodeFaithfulness
from fedtag.client.evidence.packs import NodeId
from fedtag.client.methods.dance.condensation import chosen_views, forward
from fedtag.client.methods.dance.guarantees import guarantees
from fedtag.client.methods.dance.local_graph import LocalGraph, local_graph
from fedtag.client.methods.dance.masking import (
    Action,
    EncodedMasks,
    MaskedTexts,
    Said,
    evidence_path,
    reach_of,
)
from fedtag.client.methods.dance.rankings import Rankings, rankings
from fedtag.client.prediction.outcome import ReleasedModel, load_released
from fedtag.client.train.threads import limited_threads
from fedtag.common.methods.dance.model import DanceModel, initial_dance_model
from fedtag.common.methods.dance.settings import DanceConfig
from fedtag.common.randomness import numpy_generator

Context = RunContext[DanceConfig]

TARGETS_PER_BLOCK = 128
ACTIONS: tuple[Action, ...] = get_args(Action)


def chosen_targets(data: SiteData, count: int, seed: int) -> tuple[int, ...]:
    """Test nodes drawn by seed, at most `count`, ascending."""
    test = data.graph.test_mask.nonzero().squeeze(1).cpu().numpy()
    generator = numpy_generator(seed, "faithfulness", data.site.name, "targets")
    drawn = generator.permutation(test.size)[:count]
    return tuple(sorted(test[drawn].tolist()))


def measure(
    released: ReleasedModel, targets: Sequence[int], seed: int, data: SiteData, context: Context
) -> Measured:
    """Read off the prediction of each target under every condition.

    Args:
        released: the model.
        targets: positions of labelled nodes, at least one.
        seed: of the random controls.
        data: of the site.
        context: of a prediction.

    Raises:
        ConfigError: the site's vectors come from features.npy.
        RunError: the model is not of these settings.
    """
    graph = data.graph
    fresh = initial_dance_model(context.config, graph.x.shape[1], graph.num_classes)
    model = load_released(fresh, released).to(data.device)
    return Measurement(model, local_graph(data, context), seed, data, context).of(targets)


@dataclass(frozen=True)
class Condition:
    """One change of the texts for one target: what is done with the first `count` chunks of an order."""

    target: int
    action: Action
    order: str
    count: int


@dataclass(frozen=True)
class Prepared:
    """A block of targets with all of its conditions, and the texts that they need, encoded."""

    block: range
    masked: MaskedTexts
    conditions: tuple[Condition, ...]
    encoded: EncodedMasks


class Measurement:
    """One model on one site's graph."""

    def __init__(
        self, model: DanceModel, local: LocalGraph, seed: int, data: SiteData, context: Context
    ) -> None:
        self.model = model
        self.local = local
        self.seed = seed
        self.data = data
        self.context = context
        self.steps = local.config.chunk_budget

    def of(self, targets: Sequence[int]) -> Measured:
        """Measure in blocks of targets, so that memory does not grow with their number."""
        data, model, local = self.data, self.model, self.local
        nodes = torch.arange(local.graph.num_nodes, device=local.graph.x.device)
        rows = torch.tensor(targets, device=nodes.device)
        # Encoding, which needs all threads, stays outside.
        with limited_threads(local.graph.x.numel()), torch.no_grad():
            passed = forward(model, local)
            everywhere, _, _ = chosen_views(model, local, passed, nodes)
            checked, margins = guarantees(model, local, passed.g, everywhere)
            evidence, _, found = chosen_views(model, local, passed, rows)
            ranked = rankings(
                model, local, passed.g, evidence, found, data.bank.tokens, self.seed, data.site.name
            )
            reach = reach_of(model)
            full = evidence_path(model, local, rows, None)
        parts = []
        for first in range(0, len(targets), TARGETS_PER_BLOCK):
            block = range(first, min(first + TARGETS_PER_BLOCK, len(targets)))
            prepared = self._prepared(ranked, block)
            with limited_threads(local.graph.x.numel()):
                parts.append(self._read(rows, ranked, prepared, full, reach))
        plain = [part for _, part in parts if part is not None]
        return Measured(
            tuple(targets),
            pooled([part for part, _ in parts]),
            pooled(plain) if plain else None,
            {name: size.cpu().numpy() for name, size in ranked.sizes.items()},
            checked,
            margins.double().cpu().numpy(),
        )

    def _prepared(self, ranked: Rankings, block: range) -> Prepared:
        masked = MaskedTexts(self.local, self.data, self.context)
        conditions = [condition for target in block for condition in self._conditions(ranked, target)]
        for condition in conditions:
            masked.request(self._mask(masked, ranked, condition)[0])
        return Prepared(block, masked, tuple(conditions), masked.encoded())

    def _read(
        self, rows: Tensor, ranked: Rankings, prepared: Prepared, full: Said, reach: int | None
    ) -> tuple[Outcomes, Outcomes | None]:
        """Predict under every condition, one graph at a time."""
        block, conditions = prepared.block, prepared.conditions
        targets = rows[block.start : block.stop]
        empty = evidence_path(self.model, prepared.encoded.graph({}, others=False), targets, None)
        labels = self.local.graph.y[rows].tolist()
        whole = Recorder(labels, block, self.steps, full.whole, empty.whole)
        plain = None
        if full.without_bypass is not None and empty.without_bypass is not None:
            plain = Recorder(labels, block, self.steps, full.without_bypass, empty.without_bypass)
        progress = self.context.progress("predicting from masked texts")
        for done, condition in enumerate(conditions, start=1):
            graph = prepared.encoded.graph(*self._mask(prepared.masked, ranked, condition))
            said = evidence_path(self.model, graph, rows[condition.target].view(1), reach)
            whole.record(condition, said.whole[0])
            if plain is not None and said.without_bypass is not None:
                plain.record(condition, said.without_bypass[0])
            if progress is not None:
                progress(done, len(conditions))
        return whole.outcomes(ranked), None if plain is None else plain.outcomes(ranked)

    def _conditions(self, ranked: Rankings, target: int) -> Iterator[Condition]:
        """Every change for one target; the curve of the draw among selected nodes has its ends only."""
        for name, orders in ranked.orders.items():
            size = len(orders[target])
            for action in ACTIONS:
                short = name == SELECTED or action == "kept_near"
                for count in range(size if short else 1, size + 1):
                    if count or action == "kept_near":
                        yield Condition(target, action, name, count)

    def _mask(
        self, masked: MaskedTexts, ranked: Rankings, condition: Condition
    ) -> tuple[Mapping[int, tuple[int, ...]], bool]:
        chunks = ranked.orders[condition.order][condition.target][: condition.count]
        return masked.masks(condition.action, chunks, ranked.neighbourhoods[condition.target])


class Recorder:
    """What one predictor said of a block of targets; a step that does not exist repeats the one before it."""

    def __init__(self, labels: Sequence[int], block: range, steps: int, full: Tensor, empty: Tensor) -> None:
        self.labels = labels
        self.block = block
        self.steps = steps
        self.predicted = full.argmax(1).tolist()
        self.full = {target: self._reading(target, full[target]) for target in block}
        self.empty = {target: self._reading(target, row) for target, row in zip(block, empty, strict=True)}
        self.found: dict[Condition, tuple[float, bool]] = {}

    def record(self, condition: Condition, logits: Tensor) -> None:
        """Keep the probability of the first prediction, and whether the new one is right."""
        self.found[condition] = self._reading(condition.target, logits)

    def outcomes(self, ranked: Rankings) -> Outcomes:
        """Everything recorded, by action and order."""
        return Outcomes(
            self._readings([[self.full[target]] for target in self.block]),
            {name: self._curve(ranked, "removed", name, self.full) for name in ranked.orders},
            {name: self._curve(ranked, "kept", name, self.empty) for name in ranked.orders},
            {
                name: self._readings(
                    [
                        [self.found[Condition(target, "kept_near", name, len(orders[target]))]]
                        for target in self.block
                    ]
                )
                for name, orders in ranked.orders.items()
            },
        )

    def _curve(
        self, ranked: Rankings, action: Action, name: str, start: Mapping[int, tuple[float, bool]]
    ) -> Readings:
        orders = ranked.orders[name]
        lines = []
        for target in self.block:
            size = len(orders[target])
            counts = [size] if name == SELECTED else [min(k, size) for k in range(1, self.steps + 1)]
            lines.append(
                [start[target], *(self._step(Condition(target, action, name, k), start) for k in counts)]
            )
        return self._readings(lines)

    def _step(self, condition: Condition, start: Mapping[int, tuple[float, bool]]) -> tuple[float, bool]:
        return self.found[condition] if condition.count else start[condition.target]

    def _reading(self, target: int, logits: Tensor) -> tuple[float, bool]:
        probability = float(logits.double().softmax(0)[self.predicted[target]])
        return probability, int(logits.argmax()) == self.labels[target]

    def _readings(self, lines: Sequence[Sequence[tuple[float, bool]]]) -> Readings:
        return Readings(
            np.array([[p for p, _ in line] for line in lines], np.float64),
            np.array([[right for _, right in line] for line in lines], np.bool_),
        )


def node_faithfulness(measured: Measured, node_ids: Sequence[NodeId]) -> dict[NodeId, NodeFaithfulness]:
    """What was read off for each target, for readers inside the institution."""
    outcomes = measured.outcomes
    removed = outcomes.removed
    columns = (
        outcomes.full.probability[:, 0],
        removed[EVIDENCE].probability[:, 1],
        removed[EVIDENCE].probability[:, -1],
        removed[RANDOM].probability[:, -1],
        outcomes.kept[EVIDENCE].probability[:, -1],
    )
    return {
        node_ids[node]: NodeFaithfulness(*(round(float(column[row]), 6) for column in columns))
        for row, node in enumerate(measured.targets)
    }
