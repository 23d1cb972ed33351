"""Sites that pin each other's keys, and a server that does not keep to the protocol."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch

from fedtag.common.secure.identity import Identity
from fedtag.common.wire.records import Content, Instruction, Reply

if TYPE_CHECKING:
    from tests.tiny import Tiny, Tried

SECURE: dict[str, object] = {"privacy.secure-aggregation": True, "rounds": 2}
PINNED = {**SECURE, "privacy.roster": True}
Values = dict[str, Any]


def told_otherwise(told: Instruction, **values: object) -> Instruction:
    return replace(told, content=replace(told.content, values={**told.content.values, **values}))


def asked(told: Instruction, phase: str) -> Values | None:
    """What a phase of the protocol asks; None in any other phase."""
    request = told.content.values.get(phase)
    return request if told.phase == phase else None


def survivors_for(some: set[str], survivors: Callable[[list[str]], list[str]]) -> Callable[..., Instruction]:
    """Some sites are told another list of survivors, in both exchanges that name it."""

    def tell(client: str, told: Instruction) -> Instruction:
        for phase in ("sign", "unmask"):
            request = asked(told, phase)
            if request is not None and client in some:
                return told_otherwise(
                    told, **{phase: {**request, "survivors": survivors(request["survivors"])}}
                )
        return told

    return tell


def test_a_run_with_rosters_takes_three_exchanges_a_round(tiny: Tiny) -> None:
    run = tiny(PINNED, rosters=True)
    assert run.error is None
    assert run.phases == ["keys", "shares", *["train", "sign", "unmask"] * 2, "close"]
    plain = tiny({"rounds": 2})
    for name, value in plain.state.items():
        assert torch.allclose(value, run.state[name], rtol=0, atol=1e-6)
    kinds = {row["kind"]: row["reveals"] for row in run.disclosures}
    assert "signatures" in kinds["sign"]


@pytest.mark.parametrize("phase", ["train", "sign", "unmask"])
def test_who_vanishes_is_done_without(tiny: Tiny, phase: str) -> None:
    def vanish(client: str, told: Instruction, reply: Reply) -> Reply | Exception:
        return ValueError() if client == "site-3" and told.phase == phase else reply

    run = tiny({**PINNED, "rounds": 1}, clients=4, rosters=True, answer=vanish)
    assert run.error is None
    assert run.phases == ["keys", "shares", "train", "sign", "unmask", "close"]


class Server:
    """Ways in which a server may cheat, each with what the sites say to it."""

    def __init__(self, folder: Path) -> None:
        self.keys = Identity.at(folder).public.as_json()
        self.first: dict[str, Instruction] = {}

    def swapped(self, client: str, told: Instruction) -> Instruction:
        """In the plan, the key of one site is the server's."""
        request = asked(told, "shares")
        if request is None or client == "site-1":
            return told
        members = {**request["members"], "site-1": self.keys}
        return told_otherwise(told, shares={**request, "members": members})

    def own_swapped(self, client: str, told: Instruction) -> Instruction:
        """In the plan, a site finds another key of its own."""
        request = asked(told, "shares")
        if request is None:
            return told
        return told_otherwise(told, shares={**request, "members": {**request["members"], client: self.keys}})

    def stranger(self, client: str, told: Instruction) -> Instruction:
        """A member that the server made up has a place in the plan."""
        request = asked(told, "shares")
        if request is None:
            return told
        return told_otherwise(
            told, shares={**request, "members": {**request["members"], "site-9": self.keys}}
        )

    def replayed(self, client: str, told: Instruction) -> Instruction:
        """A sum is asked for twice, with other contributions."""
        request = told.content.values.get("sum")
        if request is None or told.round < 2:
            return told
        return told_otherwise(told, sum={**request, "index": 0})

    def unsigned(self, client: str, told: Instruction) -> Instruction:
        request = asked(told, "unmask")
        return told if request is None else told_otherwise(told, unmask={**request, "signatures": None})

    def badly_signed(self, client: str, told: Instruction) -> Instruction:
        """All but one signature are those of somebody else."""
        request = asked(told, "unmask")
        if request is None:
            return told
        signatures = request["signatures"]
        wrong = dict.fromkeys(signatures, signatures["site-0"])
        return told_otherwise(told, unmask={**request, "signatures": wrong})

    def in_clear(self, client: str, told: Instruction) -> Instruction:
        """Updates are asked for without a sum."""
        if "sum" not in told.content.values:
            return told
        values = {key: value for key, value in told.content.values.items() if key != "sum"}
        return replace(told, content=Content(told.content.tensors, values))

    def other_weights(self, client: str, told: Instruction) -> Instruction:
        """Some sites weigh their updates by other weights than the others."""
        request = told.content.values.get("sum")
        if request is None or client in ("site-2", "site-3"):
            return told
        weights = {name: 0.46 if name == "site-0" else 0.18 for name in request["weights"]}
        return told_otherwise(told, sum={**request, "weights": weights})

    def isolating(self, client: str, told: Instruction) -> Instruction:
        """Nearly all weight is on one site, whose update the sum would show."""
        request = told.content.values.get("sum")
        if request is None:
            return told
        weights = {name: 0.97 if name == "site-0" else 0.01 for name in request["weights"]}
        return told_otherwise(told, sum={**request, "weights": weights})


CHEATS: Mapping[str, str] = {
    "swapped": "the keys of site-1 are not those in the roster of site-0",
    "own_swapped": "the block has other keys of site-0 than its own",
    "stranger": "the keys of site-9 are not those in the roster of site-0",
    "replayed": "sum 0 was masked or passed over before",
    "unsigned": "releases shares only with signatures of the survivors",
    "badly_signed": "1 survivor signed what this site was told, 3 are needed",
    "in_clear": "site-0 has a roster, so its updates leave under masks only",
    "other_weights": "2 survivors signed what this site was told, 3 are needed",
    "isolating": "site-0 has 0.970 of the weight",
}


def assert_refused(run: Tried, reason: str) -> None:
    assert run.summary is None
    assert reason in str(run.error)
    assert "ProtocolError: " in str(run.error)


@pytest.mark.parametrize("cheat", CHEATS)
def test_a_server_that_cheats_is_refused(tiny: Tiny, tmp_path: Path, cheat: str) -> None:
    # A second attempt would be with another block, in which the replayed number is a new one.
    settings = {**PINNED, "exchange.retries": 0}
    run = tiny(settings, clients=4, rosters=True, tell=getattr(Server(tmp_path), cheat))
    assert_refused(run, CHEATS[cheat])
    # What was opened before, if anything, was opened over everybody; nothing came in clear.
    assert not any(name.startswith("update/") for reply in run.replies() for name in reply.content.tensors)
    if cheat != "replayed":
        assert not run.replies("unmask")


@pytest.mark.parametrize(
    ("some", "survivors", "reason"),
    [
        (
            {"site-0", "site-1"},
            lambda names: names[:3],
            "2 survivors signed what this site was told, 3 are needed",
        ),
        ({"site-0"}, lambda names: names[:2], "2 survivors cannot open a sum, 3 are needed"),
        (
            {"site-0", "site-1", "site-2", "site-3"},
            lambda names: ["site-9", *names],
            "survivors must be members of the block",
        ),
        ({"site-0", "site-1", "site-2", "site-3"}, lambda names: [*names, names[0]], "each once"),
        ({"site-3"}, lambda names: names[:3], ""),
    ],
    ids=["two lists", "too few", "a stranger", "one twice", "one left out"],
)
def test_lies_about_survivors_open_nothing_but_one_list(
    tiny: Tiny, some: set[str], survivors: Callable[[list[str]], list[str]], reason: str
) -> None:
    run = tiny({**PINNED, "rounds": 1}, clients=4, rosters=True, tell=survivors_for(some, survivors))
    if len(some) == 1:
        # One site does not help; three agree, and that is enough.
        assert run.error is None
        assert not any(reply.client in some for reply in run.replies("unmask"))
        assert not reason or reason in run.notes
        return
    assert_refused(run, reason)
    assert not run.replies("unmask")


def test_a_second_list_is_not_signed(tiny: Tiny) -> None:
    """The release names other survivors than the signature before."""

    def tell(client: str, told: Instruction) -> Instruction:
        request = asked(told, "unmask")
        if request is None:
            return told
        return told_otherwise(told, unmask={**request, "survivors": request["survivors"][:3]})

    run = tiny(PINNED, clients=4, rosters=True, tell=tell)
    assert_refused(run, "site-0 was told other survivors of sum 0 before: one list a sum")


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"rounds": 2}, "site-0 has a roster, so its updates leave under masks only"),
        (SECURE, "a site with a roster releases shares only with signatures of the survivors"),
    ],
    ids=["in clear", "without roster"],
)
def test_a_site_with_a_roster_insists(tiny: Tiny, settings: dict[str, object], reason: str) -> None:
    run = tiny(settings, clients=4, rosters=True)
    assert_refused(run, reason)
    assert "set privacy.secure-aggregation = true" in str(run.error) or "signatures" in str(run.error)


def test_without_a_roster_the_settings_alone_keep_updates_under_masks(tiny: Tiny, tmp_path: Path) -> None:
    run = tiny(SECURE, clients=4, tell=Server(tmp_path).in_clear)
    assert_refused(run, "site-0 was promised secure aggregation, so its updates leave under masks only")


def test_an_institution_that_is_missing_in_a_roster_has_no_part(tiny: Tiny) -> None:
    """The roster of one site knows nothing of the newest one: it refuses the block, and the run says so."""
    place = tiny.new_place()

    def forget(client: str, told: Instruction) -> Instruction:
        if told.phase == "shares" and client == "site-0":
            roster = place / "roster.toml"
            tables = roster.read_text(encoding="utf-8").split("[site-3]")[0]
            roster.write_text(tables, encoding="utf-8")
        return told

    run = tiny(PINNED, clients=4, rosters=True, place=place, tell=forget)
    assert_refused(run, "the keys of site-3 are not those in the roster of site-0")


def test_rosters_that_differ_from_the_keys_of_a_new_installation(tiny: Tiny) -> None:
    """A site that lost its keys draws new ones, which its peers do not know."""
    place = tiny.new_place()

    def lose(client: str, told: Instruction) -> Instruction:
        if told.phase == "keys" and client == "site-2":
            (place / client / "keys" / "identity.key").unlink()
        return told

    run = tiny(PINNED, rosters=True, place=place, tell=lose)
    assert_refused(run, "the keys of site-2 are not those in the roster")
