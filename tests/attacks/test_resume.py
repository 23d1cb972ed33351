"""A server goes back to an older state of a run, to have the sum of a round opened a second time over fewer members."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fedtag.client.secure.vault import Vault
from fedtag.common.wire.records import Instruction
from fedtag.server.strategies.secure import open_sum
from tests.tiny import Tiny

SITES, VICTIM, ROUNDS = 4, "site-0", 2
SETTINGS: dict[str, object] = {"rounds": ROUNDS, "exchange.retries": 0}
MASKED: dict[str, object] = {**SETTINGS, "privacy.secure-aggregation": True, "privacy.roster": True}


@pytest.mark.parametrize("remembers", [True, False], ids=["repelled", "control"])
def test_a_round_is_not_opened_again_without_a_member(
    tiny: Tiny, remembers: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sites train the same update again; the difference of the two sums is the update of whoever is missing."""
    sums: list[np.ndarray] = []

    def opened(*arguments: Any) -> np.ndarray:
        sums.append(open_sum(*arguments))
        return sums[-1]

    monkeypatch.setattr("fedtag.server.sums.opening.open_sum", opened)
    if not remembers:
        monkeypatch.setattr(Vault, "note_opened", lambda vault, occasion, parts: True)
    place, shares = tiny.new_place(), {}

    def keep(client: str, told: Instruction) -> Instruction:
        if told.round == ROUNDS and told.phase == "train":
            shares.update(told.content.values["sum"]["weights"])
            if not (place / "older").exists():
                shutil.copytree(place / "run" / "checkpoint", place / "older")
        return told

    first = tiny(MASKED, SITES, rosters=True, place=place, tell=keep)
    assert first.summary is not None
    share, (_, whole) = shares[VICTIM], sums
    go_back(place)

    def online(exchange: int) -> Iterable[str]:
        return [f"site-{k}" for k in range(SITES) if f"site-{k}" != VICTIM]

    again = tiny(MASKED, SITES, rosters=True, place=place, online=online)
    if remembers:
        assert len(sums) == 2
        assert "was opened over other members before" in str(again.error)
        return
    clear = tiny(SETTINGS, SITES)
    update = next(
        reply.content.section("update")
        for reply in clear.replies("train")
        if (reply.client, reply.round) == (VICTIM, ROUNDS)
    )
    true = torch.cat([update[name].double().flatten() for name in sorted(update)]).numpy()
    # The weights of the others have grown by what the victim leaves.
    read = (whole - sums[2] * (1 - share))[: len(true)] / share
    assert np.linalg.norm(read - true) < 1e-4 * np.linalg.norm(true)


def go_back(place: Path) -> None:
    """Put the older checkpoint in the place of the newest one, as if the run had stopped then."""
    shutil.rmtree(place / "run" / "checkpoint")
    shutil.move(place / "older", place / "run" / "checkpoint")
