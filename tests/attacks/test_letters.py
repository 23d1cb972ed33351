"""A server gives its own keys for those of the peers, to read what clients write to each other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fedtag.common.errors import ProtocolError
from fedtag.common.secure.identity import Identity, PublicIdentity
from fedtag.common.secure.letters import letter_stamp, opened_letter
from fedtag.common.secure.names import PEERS
from fedtag.common.secure.phases import SHARES
from fedtag.common.wire.records import Content, Instruction, Reply
from tests.tiny import Tiny

SETTINGS: dict[str, object] = {
    "method": "fedc4",
    "rounds": 2,
    "exchange.retries": 0,
    "condenser.outer-loops": 1,
}
SITES = 3


@pytest.mark.parametrize("rosters", [True, False], ids=["repelled", "control"])
def test_keys_in_the_middle_open_no_letter(tiny: Tiny, rosters: bool, tmp_path: Path) -> None:
    """With a roster a site writes to nobody whose keys are not in it; without one the server is trusted to relay."""
    spy = Identity.at(tmp_path / "spy")
    public: dict[str, PublicIdentity] = {}
    read: dict[tuple[str, str], Content] = {}
    written: list[str] = []

    def tell(client: str, told: Instruction) -> Instruction:
        table = told.content.values.get(PEERS)
        if not isinstance(table, dict):
            return told
        public.update({name: PublicIdentity.from_json(entry, name) for name, entry in table.items()})
        forged = {
            name: entry if name == client else {**spy.public.as_json(), "sign": entry["sign"]}
            for name, entry in table.items()
        }
        return replace(told, content=replace(told.content, values={**told.content.values, PEERS: forged}))

    def answer(client: str, told: Instruction, reply: Reply) -> Reply:
        for letter in (one for one in reply.content.letters if one.kind != SHARES):
            written.append(letter.kind)
            try:
                stamp = letter_stamp(letter, reply.run)
                read[client, letter.kind] = opened_letter(
                    spy, public[client], letter.recipient, letter, stamp, 1e9
                )
            except ProtocolError:
                continue
        return reply

    masked = {"privacy.secure-aggregation": rosters, "privacy.roster": rosters}
    tiny({**SETTINGS, **masked}, SITES, rosters=rosters, tell=tell, answer=answer)
    assert public, "no client was told of peers, so that nothing was tried"
    if rosters:
        assert not written
        assert not read
    else:
        assert {client for client, _ in read} == {f"site-{k}" for k in range(SITES)}
        assert any(content.tensors for content in read.values())
