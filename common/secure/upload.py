"""What a masked upload is made of: the update as one vector, two scalars, who uses what, statistics where hidden."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeGuard

import numpy as np
import torch
from jaxtyping import Float64
from torch import Tensor

from fedtag.common.errors import WireError
from fedtag.common.numerics.scores import count_forms

MASKED = "masked"
VECTOR = "vector"
"""The upload travels as the tensor "masked/vector", int64."""

SUBSETS = ("val", "test")
SIZES = ("nodes", "train_nodes", "val_nodes", "test_nodes")
# The loss is weighed by training nodes, so that the quotient of the sums is the pooled loss.
TRAINING = ("trained_nodes", "trained_nodes times loss")
# A power of two, so that counts stay exact, by which they keep below the limit of a coordinate.
UNIT = 2.0**-20

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Layout:
    """The order of coordinates in a masked upload, the same at all sites.

    Args:
        update: shape of each floating-point tensor of the update, by name.
        scores: ways of scoring whose counts are hidden in the sum; empty if scores travel in clear.
        classes: number of classes.
        statistics: whether counts of nodes and losses are hidden in the sum.
        used: names of the tensors that only some clients have: their users are counted, and the weights of these
            are summed for those of them that are in the update.
    """

    update: Mapping[str, Shape]
    scores: tuple[str, ...] = ()
    classes: int = 0
    statistics: bool = False
    used: tuple[str, ...] = ()

    @property
    def update_size(self) -> int:
        """Coordinates of the update, in the order of names."""
        return sum(math.prod(shape) for shape in self.update.values())

    @property
    def divided(self) -> tuple[str, ...]:
        """The tensors of the update that are divided by the weight of their users, not of all clients."""
        return tuple(name for name in self.used if name in self.update)

    @property
    def open_size(self) -> int:
        """Coordinates before the statistics: update, Σ w a, Σ w, users, weights of users."""
        return self.update_size + 2 + len(self.used) + len(self.divided)

    @property
    def statistics_size(self) -> int:
        """Coordinates of what is hidden beside the update."""
        counts = sum(math.prod(shape) for shape, _ in self._count_forms().values())
        return counts + (len(SIZES) + len(TRAINING) if self.statistics else 0)

    @property
    def size(self) -> int:
        """All coordinates, statistics included."""
        return self.open_size + self.statistics_size

    def vector(
        self,
        update: Mapping[str, Tensor],
        scalars: tuple[float, float],
        sizes: Mapping[str, int] | None = None,
        loss: float | None = None,
        scores: Mapping[str, Tensor] | None = None,
        users: Collection[str] = (),
    ) -> Float64[np.ndarray, " size"]:
        """One client's coordinates, before they are masked.

        Args:
            update: already weighed; zeros stand where a tensor, or all of them, are missing.
            scalars: w_i a_i and w_i.
            sizes: counts of nodes.
            loss: of the last local step; None if the client did not train.
            scores: counts by path/subset/field; a way of scoring that is missing counts nothing.
            users: names of the tensors of which the client is a user.

        Raises:
            WireError: a tensor has another shape than the layout.
        """
        parts = [_coordinates(update.get(name), name, shape) for name, shape in sorted(self.update.items())]
        parts.append(np.array(scalars, dtype=np.float64))
        parts.append(np.array([name in users for name in self.used], dtype=np.float64))
        parts.append(np.array([scalars[1] * (name in users) for name in self.divided], dtype=np.float64))
        if self.statistics:
            told = sizes or {}
            nodes = told.get("train_nodes", 0) if loss is not None else 0
            parts.append(np.array([told.get(name, 0) for name in SIZES], dtype=np.float64))
            parts.append(np.array([nodes, nodes * (loss or 0.0)]))
        counts = scores or {}
        parts += [
            _coordinates(counts.get(name), name, shape) for name, (shape, _) in self._count_forms().items()
        ]
        vector = np.concatenate(parts)
        vector[self.open_size :] *= UNIT
        return vector

    def opened(self, total: Float64[np.ndarray, " size"]) -> Opened:
        """What a sum of vectors of this layout says."""
        total = total.copy()
        total[self.open_size :] /= UNIT
        place = 0
        update: dict[str, Tensor] = {}
        for name, shape in sorted(self.update.items()):
            length = math.prod(shape)
            update[name] = torch.from_numpy(total[place : place + length].copy()).view(shape)
            place += length
        steps, weight = (float(value) for value in total[place : place + 2])
        place += 2
        counts = total[place : place + len(self.used)]
        users = {name: round(float(count)) for name, count in zip(self.used, counts, strict=True)}
        place += len(self.used)
        sums = total[place : place + len(self.divided)]
        shares = {name: float(share) for name, share in zip(self.divided, sums, strict=True)}
        place += len(self.divided)
        sizes: dict[str, int] = {}
        loss = None
        if self.statistics:
            sizes = {name: round(float(total[place + k])) for k, name in enumerate(SIZES)}
            place += len(SIZES)
            trained, losses = (float(value) for value in total[place : place + len(TRAINING)])
            loss = losses / trained if round(trained) else None
            place += len(TRAINING)
        scores: dict[str, Tensor] = {}
        for name, (shape, dtype) in self._count_forms().items():
            length = math.prod(shape)
            value = torch.from_numpy(total[place : place + length].copy()).view(shape)
            scores[name] = value.to(dtype) if dtype.is_floating_point else _counts(value, dtype)
            place += length
        return Opened(update, steps, weight, sizes, loss, scores, users, shares)

    def as_json(self) -> dict[str, object]:
        """The layout in an instruction."""
        return {
            "update": {name: list(shape) for name, shape in self.update.items()},
            "scores": list(self.scores),
            "classes": self.classes,
            "statistics": self.statistics,
            "used": list(self.used),
        }

    @classmethod
    def from_json(cls, told: Any) -> Layout:
        """The inverse of `as_json`, of a table that anybody may have written.

        Raises:
            WireError: it is something else.
        """
        table = told if isinstance(told, dict) else {}
        update, scores = table.get("update"), table.get("scores")
        classes, statistics, used = table.get("classes"), table.get("statistics"), table.get("used")
        if not (
            table.keys() == {"update", "scores", "classes", "statistics", "used"}
            and isinstance(update, dict)
            and all(isinstance(shape, list) and all(map(_is_length, shape)) for shape in update.values())
            and isinstance(scores, list)
            and all(isinstance(path, str) for path in scores)
            and _is_length(classes)
            and isinstance(statistics, bool)
            and isinstance(used, list)
            and all(isinstance(name, str) for name in used)
        ):
            raise WireError("the layout of a masked upload is malformed: install the same fedtag")
        shapes = {name: tuple(shape) for name, shape in update.items()}
        return cls(shapes, tuple(scores), classes, statistics, tuple(used))

    def _count_forms(self) -> dict[str, tuple[Shape, torch.dtype]]:
        return {
            f"{path}/{subset}/{field}": form
            for path in self.scores
            for subset in SUBSETS
            for field, form in count_forms(path, self.classes).items()
        }


def _counts(value: Tensor, dtype: torch.dtype) -> Tensor:
    """Whole numbers; one beyond the type, which no honest sum comes to, is its largest."""
    most = torch.iinfo(dtype).max
    return value.round().clamp(-most, most).to(dtype)


def _is_length(value: Any) -> TypeGuard[int]:
    return type(value) is int and value >= 0


def _coordinates(value: Tensor | None, name: str, shape: Shape) -> Float64[np.ndarray, " length"]:
    if value is None:
        return np.zeros(math.prod(shape))
    if tuple(value.shape) != shape:
        raise WireError(f"'{name}' has shape {tuple(value.shape)}, agreed is {shape}")
    return value.detach().cpu().double().numpy().reshape(-1)


@dataclass(frozen=True)
class Opened:
    """The sums over the survivors.

    Args:
        update: Σ w_i Δ_i / a_i (or without a_i), float64.
        steps: Σ w_i a_i.
        weight: Σ w_i.
        sizes: counts of nodes, where hidden.
        loss: mean over training nodes, where hidden; None if nobody trained.
        scores: counts by path/subset/field, where hidden.
        users: how many clients use each tensor that only some have.
        shares: Σ w_i over the users of each of those that are in the update.
    """

    update: Mapping[str, Tensor]
    steps: float
    weight: float
    sizes: Mapping[str, int]
    loss: float | None
    scores: Mapping[str, Tensor]
    users: Mapping[str, int] = field(default_factory=dict)
    shares: Mapping[str, float] = field(default_factory=dict)
