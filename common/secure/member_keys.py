"""What a member of a block publishes, and the tables in which it arrives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fedtag.common.errors import ProtocolError
from fedtag.common.secure.agreement import KEY_BYTES
from fedtag.common.secure.canonical import from_hex
from fedtag.common.secure.identity import PublicIdentity
from fedtag.common.wire.names import CLIENT_NAME

DIGEST_BYTES = 32
DRAW_BYTES = 16


@dataclass(frozen=True)
class MemberKeys:
    """What a member publishes for a block: who it is and, by sum, its mask key and its commitment to b.

    `draw` is its part of the seed that draws groups, 16 bytes; nothing where there are none.
    """

    identity: PublicIdentity
    mask_keys: tuple[bytes, ...]
    commitments: tuple[bytes, ...]
    draw: bytes = b""

    def published(self) -> dict[str, Any]:
        """The part of the table that the member draws for the block."""
        return {
            "mask_keys": [key.hex() for key in self.mask_keys],
            "commitments": [value.hex() for value in self.commitments],
            "draw": self.draw.hex(),
        }

    def as_json(self) -> dict[str, Any]:
        """Everything, as it stands in the request to join."""
        return {**self.identity.as_json(), **self.published()}

    @classmethod
    def from_reply(cls, identity: PublicIdentity, value: Any, sums: int, owner: str) -> MemberKeys:
        """The keys of a member whose identity is known, from what it published.

        Raises:
            ProtocolError: the table has another form, or not one key and commitment a sum.
        """
        if not isinstance(value, dict) or set(value) != {"mask_keys", "commitments", "draw"}:
            raise ProtocolError(
                f"{owner} must publish mask_keys, commitments and draw; it needs the same fedtag"
            )
        return cls(
            identity,
            _column(value["mask_keys"], sums, KEY_BYTES, "mask key", owner),
            _column(value["commitments"], sums, DIGEST_BYTES, "commitment", owner),
            from_hex(value["draw"], DRAW_BYTES if value["draw"] else 0, f"the draw of {owner}"),
        )

    @classmethod
    def from_json(cls, value: Any, sums: int, owner: str) -> MemberKeys:
        """The inverse of `as_json`, of a table that anybody may have written.

        Raises:
            ProtocolError: see `from_reply`.
        """
        if not isinstance(value, dict):
            raise ProtocolError(f"the keys of {owner} must be a table; the server needs the same fedtag")
        table = dict(value)
        identity = {name: table.pop(name, None) for name in ("seal", "sign")}
        return cls.from_reply(PublicIdentity.from_json(identity, owner), table, sums, owner)


def member_table(value: Any) -> dict[str, Any]:
    """A table by names of members.

    Raises:
        ProtocolError: it is something else.
    """
    if not isinstance(value, dict):
        raise ProtocolError("members must be a table by name; the server needs the same fedtag")
    for name in value:
        check_name(name)
    return value


def check_name(name: Any) -> None:
    """Refuse what no client may be called.

    Raises:
        ProtocolError: the name breaks the rule of `CLIENT_NAME`.
    """
    if not isinstance(name, str) or not CLIENT_NAME.fullmatch(name):
        raise ProtocolError(f"{name!r:.80} is no name of a member: rename the client")


def _column(value: Any, sums: int, size: int, what: str, owner: str) -> tuple[bytes, ...]:
    if not isinstance(value, list) or len(value) != sums:
        raise ProtocolError(
            f"the {what}s of {owner} must be a list of {sums}, one a sum; it needs the same fedtag"
        )
    return tuple(from_hex(entry, size, f"a {what} of {owner}") for entry in value)
