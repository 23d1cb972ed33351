"""What a site lets out: what is declared; of updates, clipped, noised, weighed and masked ones, as settings demand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from fedtag.client.context.clock import Clock
from fedtag.client.context.site_data import SiteData
from fedtag.client.run.declared import check_declared, sums_alone
from fedtag.client.secure.member import Member
from fedtag.client.site.site import Site
from fedtag.common.config import RunConfig
from fedtag.common.errors import ProtocolError
from fedtag.common.methods.told import told_digest
from fedtag.common.models.parameters import moved_by_steps
from fedtag.common.numerics.clipping import clipped
from fedtag.common.numerics.noise import entropy_generator, gaussian, share_of_noise
from fedtag.common.numerics.robust_rules import GROUP_RULES
from fedtag.common.parts.spec import declared_records
from fedtag.common.secure.fixed_point import FixedPoint
from fedtag.common.secure.groups import parsed_groups
from fedtag.common.secure.identity import Identity
from fedtag.common.secure.names import DRAW, JOIN, UNREAD
from fedtag.common.secure.phases import KEYS, SHARES, SIGN, UNMASK, USE
from fedtag.common.secure.roster import read_roster
from fedtag.common.secure.upload import MASKED, SIZES, VECTOR, Layout
from fedtag.common.wire.records import Content, Instruction, prefixed

MayLack = Callable[[str], bool]


def site_member(site: Site, config: RunConfig, run: str) -> Member:
    """The site in the secure sums of a run."""
    privacy = config.privacy
    return Member(
        site.name,
        run,
        site.secrets,
        Identity.at(site.keys),
        read_roster(site.roster) if site.roster is not None else None,
        FixedPoint(privacy.scale_bits, privacy.limit),
        site.seed,
    )


class Guard:
    """Between a method, with its parts, and the server.

    Args:
        config: of the run.
        data: of the site, whose counts of nodes may have to be hidden.
        clock: told how long masks take.
    """

    def __init__(self, config: RunConfig, data: SiteData, clock: Clock) -> None:
        self.config = config
        self.data = data
        self.site = data.site
        self.clock = clock
        self.declared = declared_records(config)

    def answered(self, instruction: Instruction) -> Content:
        """The answer to an exchange that carries no part of a method: keys, or the protocol of secure summation.

        Raises:
            ProtocolError: the request breaks the protocol.
        """
        privacy, member = self.config.privacy, site_member(self.site, self.config, instruction.run)
        phase, request = instruction.phase, instruction.content.values.get(instruction.phase)
        if phase == KEYS:
            # A sum in which one site alone has an update must be known before it is opened.
            trains = bool(self.data.graph.train_mask.any())
            known = {"trains": trains} if privacy.hide_statistics else {"sizes": self.data.sizes}
            draw = {DRAW: member.draw()} if self.config.aggregation.rule in GROUP_RULES else {}
            return Content({}, {KEYS: member.keys(), **known, **draw})
        if not privacy.secure_aggregation:
            raise ProtocolError("this run has no secure aggregation: set privacy.secure-aggregation = true")
        if phase == SHARES:
            published, letters = member.set_up(request)
            return Content({}, {SHARES: published}, letters)
        if phase == SIGN:
            return Content({}, {SIGN: member.sign(request)})
        if phase == UNMASK:
            return Content({}, {UNMASK: member.release(request)})
        raise ProtocolError(f"exchange '{phase}' is unknown here: install the same fedtag")

    def let_out(
        self, content: Content, instruction: Instruction, may_lack: MayLack = lambda name: False
    ) -> Content:
        """A contribution as it may leave the site, of which nothing is undeclared.

        Without privacy settings it is what it was. With hidden statistics what is no sum stays with the site. With
        central differential privacy its update is clipped. Under secure aggregation it becomes one masked vector, in
        which a site without an update has zeros, and one with some of the tensors only has zeros in place of the
        others: nothing but sums says who has which.

        Args:
            content: of the method with its parts.
            instruction: that asked for it.
            may_lack: whether an update of another site may have no tensor of a name.

        Raises:
            RunError: something is not declared.
            ProtocolError: an update was asked for in clear, against the settings of the run or those of the site,
                which has a roster; or the request breaks the protocol.
            DivergenceError: a coordinate is not finite or beyond the limit.
        """
        check_declared(content, self.declared, self.site.name)
        privacy, site = self.config.privacy, self.site
        update = content.section("update")
        request = instruction.content.values.get("sum")
        if request is not None:
            return self._masked(content, request, instruction, may_lack)
        if update and (site.roster is not None or privacy.secure_aggregation):
            why = "has a roster" if site.roster is not None else "was promised secure aggregation"
            raise ProtocolError(
                f"{site.name} {why}, so its updates leave under masks only: "
                "set privacy.secure-aggregation = true, and privacy.roster = true where sites have rosters"
            )
        if privacy.hide_statistics:
            return sums_alone(content)
        if privacy.dp.mode == "central" and update:
            bounded, _ = clipped(update, privacy.dp.clip)
            return Content(
                {**content.tensors, **prefixed("update", bounded)}, content.values, content.letters
            )
        return content

    def _masked(self, content: Content, request: Any, instruction: Instruction, may_lack: MayLack) -> Content:
        config = self.config
        if not isinstance(request, dict) or request.keys() != {
            "index",
            "layout",
            "weights",
            "gathers",
            "groups",
        }:
            raise ProtocolError(
                "a request to upload has index, layout, weights, gathers and groups; the server needs the same fedtag"
            )
        groups = parsed_groups(request["groups"])
        if groups and (config.aggregation.rule not in GROUP_RULES or request["gathers"] != "step"):
            raise ProtocolError(
                f"{self.site.name} was asked for a sum over a group, but the run promised sums over all: set "
                "aggregation.rule = group-median"
            )
        member = site_member(self.site, config, instruction.run)
        unread: tuple[str, ...] = ()
        join = instruction.content.values.get(JOIN)
        if join is not None:
            shares = [letter for letter in instruction.content.letters if letter.kind == SHARES]
            unread = member.join(join, shares)
        layout, weights = Layout.from_json(request["layout"]), request["weights"]
        training = content.values.get("training") or {}
        weight = _own_weight(weights, self.site.name)
        own = content.section("update")
        _check_layout(layout, own, may_lack, instruction.phase == USE, self.site.name)
        if layout.update:
            normaliser = training.get("normaliser", 0.0)
            update, scalars = weighed(own, weight, normaliser, layout, config, member.threshold)
            takes_part = scalars[1] > 0
        else:
            update, scalars, takes_part = {}, (0.0, 0.0), weight > 0
        hidden = config.privacy.hide_statistics
        scores = content.section("scores")
        vector = layout.vector(
            update,
            scalars,
            {name: self.data.sizes[name] for name in SIZES} if hidden else None,
            training.get("loss") if hidden else None,
            scores if hidden else None,
            own.keys() if takes_part else (),
        )
        with self.clock.timed("mask"):
            masked = member.mask(
                request["index"],
                vector,
                weights,
                told_digest(instruction, self.declared, config.digest()),
                f"round {instruction.round}, {instruction.phase}",
                config.aggregation.max_share if request["gathers"] == "step" else 1.0,
                groups,
                layout.open_size,
            )
        upload = {f"{MASKED}/{VECTOR}": torch.from_numpy(masked.view("int64"))}
        values = {**content.values, UNREAD: list(unread)} if unread else content.values
        open_content = Content({**upload, **prefixed("scores", scores)}, values, content.letters)
        return sums_alone(open_content) if hidden else open_content


def _check_layout(
    layout: Layout, own: Mapping[str, Tensor], may_lack: MayLack, counts: bool, name: str
) -> None:
    """Refuse a layout with other tensors than the site's update has, but for what some sites may lack.

    Args:
        layout: that the site is asked for.
        own: its update; one without an update fills any layout with zeros.
        may_lack: whether another site's update may have no tensor of a name. One that too few have may be missing in
            a layout.
        counts: what is summed is who has which of these, each by its name; none of them is left out.
        name: of the site.
    """
    if not own:
        return
    summed = {one for one, value in own.items() if value.is_floating_point()}
    if counts:
        asked, has = {*layout.used}, {one for one in summed if may_lack(one)}
        unknown = {*layout.update}
    else:
        asked, has = {*layout.update}, {one for one in summed if not may_lack(one)}
        unknown = {one for one in asked - summed if not may_lack(one)}
    partial = {one for one in layout.used if not may_lack(one)}
    for others, fault in (
        (unknown, "has {}, which its update does not have"),
        (partial, "has {} as what only some sites have"),
        (has - asked, "lacks {}"),
    ):
        if others:
            listed = fault.format(", ".join(sorted(others)[:5]))
            raise ProtocolError(f"the layout of {name} {listed}: the server needs the same fedtag")


def _own_weight(weights: Any, name: str) -> float:
    """The site's weight in a table that anybody may have written; the member checks the whole of it."""
    own = weights.get(name) if isinstance(weights, dict) else None
    if isinstance(own, bool) or not isinstance(own, int | float):
        raise ProtocolError(f"the weights of a sum must be a table by member, with a number for {name}")
    return float(own)


def weighed(
    update: Mapping[str, Tensor],
    weight: float,
    normaliser: float,
    layout: Layout,
    config: RunConfig,
    threshold: int,
) -> tuple[dict[str, Tensor], tuple[float, float]]:
    """What a site adds to the sum, and its two scalars w_i a_i and w_i.

    With differential privacy it is the clipped update plus the site's share of the noise, unweighed, and both
    scalars are zero: the denominator is a public number. A site without an update adds its noise all the same,
    because a sum must carry enough whoever had something to add.

    Args:
        update: Δ_i; empty if the site did not train.
        weight: w_i.
        normaliser: a_i.
        layout: names and shapes of the update.
        config: of the run.
        threshold: the fewest members whose sum is ever opened.
    """
    dp = config.privacy.dp
    if dp.mode == "distributed":
        bounded, _ = clipped(update, dp.clip) if update else ({}, 0.0)
        deviation = share_of_noise(dp.noise, dp.clip, threshold, dp.colluders)
        like = {name: torch.zeros(shape, dtype=torch.float64) for name, shape in layout.update.items()}
        noise = gaussian(like, deviation, entropy_generator())
        return {
            name: noise[name] + (bounded[name].cpu().double() if name in bounded else 0.0) for name in like
        }, (0.0, 0.0)
    fednova = config.aggregation.normalise == "fednova"
    if not update or (fednova and normaliser <= 0):
        return {}, (0.0, 0.0)
    scaled = {
        name: value.detach().cpu().double()
        * (weight / normaliser if fednova and moved_by_steps(name) else weight)
        for name, value in update.items()
    }
    return scaled, (weight * normaliser, weight)
