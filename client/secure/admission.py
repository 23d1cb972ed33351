"""Which blocks a site takes part in."""

from __future__ import annotations

from collections.abc import Mapping

from common.errors import ProtocolError
from common.secure.block import Plan
from common.secure.fixed_point import FixedPoint
from common.secure.identity import PublicIdentity
from common.secure.shares import threshold


def admit(
    plan: Plan,
    name: str,
    own: PublicIdentity,
    roster: Mapping[str, PublicIdentity] | None,
    fixed: FixedPoint,
) -> None:
    """Refuse a block in which a site's updates would not be safe.

    Args:
        plan: what the server asks for.
        name: of the site.
        own: its keys.
        roster: the keys of all sites, as their operators exchanged them; None if the server is trusted.
        fixed: how vectors are encoded.

    Raises:
        ProtocolError: keys are not those of the site or of its roster, members are too few for the roster, or
            too many for the encoding.
    """
    if plan.asked.get(name) != own:
        raise ProtocolError(f"the block has other keys of {name} than its own: ask for its keys again")
    if len(plan.asked) > fixed.most_clients:
        raise ProtocolError(
            f"{len(plan.asked)} members could overflow 64 bits, {fixed.most_clients} cannot: "
            "lower privacy.scale-bits or privacy.limit"
        )
    if roster is None:
        return
    needed = threshold(len(roster)) if len(roster) > 1 else 2
    if len(plan.asked) < needed:
        raise ProtocolError(
            f"a block of {len(plan.asked)} members is too small for the roster of {name}, which has "
            f"{len(roster)} institutions: {needed} must take part"
        )
    for peer, identity in plan.asked.items():
        if roster.get(peer) != identity:
            raise ProtocolError(
                f"the keys of {peer} are not those in the roster of {name}: correct the roster if "
                f"{peer} confirms them, or leave {peer} out"
            )
