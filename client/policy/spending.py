"""What has left a site: counted by run, and kept in a file that is on disk before the next thing leaves."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from fedtag.client.site.whole_file import write_whole
from fedtag.common.config import RunConfig
from fedtag.common.errors import RunError
from fedtag.common.numerics.accounting import distributed_sensitivity, epsilon
from fedtag.common.secure.upload import MASKED, Layout
from fedtag.common.wire.records import Instruction, Reply
from fedtag.common.wire.serialisation import serialised_text

FILE = "spent.json"
LOCK = ".lock"
"""In a policy's folder: one process at a time changes what is kept there."""
LOCK_SECONDS = 30.0
"""For what takes milliseconds: a process that is stopped meanwhile must not stop the site without a word."""


@dataclass(frozen=True)
class Spent:
    """What left.

    Args:
        replies: that left.
        updates: those of them that carried tensors other than scores: a step of a model, or a masked vector.
        size: bytes of these replies, without what Flower adds.
        noise: Σ (S / σ)² over sums with Gaussian noise of deviation σ, of which a contribution can change S. T sums
            with one noise are one sum with noise σ / √T (Dong et al., 2022, Corollary 3.3), so that these add up.
    """

    replies: int = 0
    updates: int = 0
    size: int = 0
    noise: float = 0.0

    def __add__(self, other: Spent) -> Spent:
        return Spent(
            self.replies + other.replies,
            self.updates + other.updates,
            self.size + other.size,
            self.noise + other.noise,
        )

    def epsilon(self, delta: float) -> float:
        """ε of all of it at a δ; 0 for nothing, infinite without noise.

        Raises:
            ConfigError: dp-accounting is not installed.
        """
        return 0.0 if self.noise == 0 else epsilon(self.noise**-0.5, 1, delta)


def noise_cost(config: RunConfig, sums: int, dimension: int) -> float:
    """What sums of a run cost of a DP budget, as `Spent.noise`.

    Args:
        config: of the run; only the noise of `privacy.dp` counts.
        sums: how many.
        dimension: coordinates of one.

    Returns:
        Infinite where nothing bounds it.
    """
    dp = config.privacy.dp
    if dp.mode == "off" or dp.noise == 0:
        return math.inf
    sensitivity = dp.clip
    if dp.mode == "distributed":
        sensitivity = distributed_sensitivity(dp.clip, dimension, config.privacy.scale_bits)
    return float(sums * (sensitivity / (dp.noise * dp.clip)) ** 2)


def cost_of(reply: Reply, instruction: Instruction, config: RunConfig) -> Spent:
    """What a reply costs if it leaves."""
    content = reply.content
    text = serialised_text(reply)
    size = len(text.header.encode()) + len((text.addresses or "").encode()) + sum(map(len, text.bodies))
    size += sum(value.nbytes for value in content.tensors.values())
    tells = bool(content.kinds - {"scores"})
    dimension = sum(value.numel() for value in content.section("update").values())
    if MASKED in content.kinds:
        dimension = Layout.from_json(instruction.content.values["sum"]["layout"]).update_size
    noisy = dimension > 0 and config.privacy.dp.mode != "off"
    return Spent(1, int(tells), size, noise_cost(config, 1, dimension) if noisy else 0.0)


def spent_by_run(folder: Path) -> dict[str, Spent]:
    """What left, by run; nothing where no file is.

    Raises:
        RunError: the file is damaged.
    """
    path = folder / FILE
    try:
        content: Mapping[str, Any] = json.loads(path.read_bytes())
        return {run: Spent(**entry) for run, entry in content.items()}
    except FileNotFoundError:
        return {}
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise RunError(
            f"{path} is damaged ({error}), and nothing leaves without it: restore it from a copy"
        ) from error


def write_spent(folder: Path, spent: Mapping[str, Spent]) -> None:
    """Write what left; the disk has it when this returns."""
    write_whole(
        folder / FILE, json.dumps({run: asdict(one) for run, one in spent.items()}, indent=1).encode()
    )
