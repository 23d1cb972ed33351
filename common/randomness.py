"""Random generators derived from what they are for, so that no draw depends on the order of others."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import TypeVar

import numpy as np
import torch
from torch import nn

M = TypeVar("M", bound=nn.Module)


def derive_seed(seed: int, *purpose: str | int) -> int:
    """A 63-bit seed from the run's seed and the purpose of the draw, e.g. (round, client, "dropout").

    The same arguments give the same seed on every machine and Python version; any other arguments
    give an independent one (SHA-256 of the length-prefixed parts).
    """
    digest = hashlib.sha256()
    for part in (seed, *purpose):
        encoded = f"{type(part).__name__}:{part}".encode()
        digest.update(len(encoded).to_bytes(4, "little") + encoded)
    return int.from_bytes(digest.digest()[:8], "little") >> 1


def torch_generator(seed: int, *purpose: str | int, device: torch.device | str = "cpu") -> torch.Generator:
    """A torch generator seeded by `derive_seed`."""
    generator = torch.Generator(device=device)
    generator.manual_seed(derive_seed(seed, *purpose))
    return generator


def numpy_generator(seed: int, *purpose: str | int) -> np.random.Generator:
    """A NumPy generator seeded by `derive_seed`."""
    return np.random.default_rng(derive_seed(seed, *purpose))


def seeded(build: Callable[[], M], seed: int) -> M:
    """Build a module whose initial values depend on `seed` alone, leaving the global generator as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return build()
