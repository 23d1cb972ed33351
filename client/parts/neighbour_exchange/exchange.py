"""The one-step exchange of neighbour sums at a client (FedGC, section 3.1), once, before everything else.

`neighbours-ask`: sealed letters tell the owners of neighbours for which nodes sums are wanted. `neighbours-give`:
owners encipher their parts, which the server adds without being able to read them. `neighbours-take`: the sums come
back, and ÂX takes the place of X. With two hops, `neighbours-again` stands between: ÂX is made, and its sums are given.

A sum comes whole or not at all: where an owner is missing or refuses, the node goes without its foreign neighbours, as
it does where these are fewer than `min-neighbours`. What is hidden by a sum over few nodes is limited all the same:
where features are mostly zero and degrees differ, an entry may tell by its size whose it is.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from fedtag.client.parts.neighbour_exchange.bundles import Bundle, Crossings, asked, check_requests
from fedtag.client.parts.neighbour_exchange.ciphers import Cipher, Homomorphic, Masks
from fedtag.client.parts.neighbour_exchange.sums import Propagation
from fedtag.client.site.state import Remembered, StateStore
from fedtag.common.errors import WireError
from fedtag.common.parts.neighbour_exchange.homomorphic import fresh_key, tenseal
from fedtag.common.parts.neighbour_exchange.messages import Part, packed, unpacked
from fedtag.common.parts.neighbour_exchange.names import (
    AGAIN_PHASE,
    ASK_PHASE,
    COUNTS,
    KEY,
    NEIGHBOURS,
    REQUEST,
    TAKE_PHASE,
)
from fedtag.common.parts.neighbour_exchange.settings import exchange_settings
from fedtag.common.secure.fixed_point import FixedPoint
from fedtag.common.secure.private_file import private_folder, replace_private
from fedtag.common.wire.records import Content, Instruction

if TYPE_CHECKING:
    from pathlib import Path

    from fedtag.client.context.session import Session

LOGGER = logging.getLogger("fedtag")

NAME = "exchanged"
"""Of the features after the exchange, among what a site keeps."""

KEY_FILE = "neighbours.key"


def take_part(instruction: Instruction, session: Session) -> Content:
    """Carry out a phase of the exchange."""
    StateStore(session.site.state, instruction.run)  # a run whose name is no name has no place on disk
    with session.timed(NEIGHBOURS):
        exchange = Exchange(session)
        if instruction.phase == ASK_PHASE:
            content = exchange.ask()
        elif instruction.phase == TAKE_PHASE:
            content = exchange.take(instruction)
        else:
            content = exchange.give(instruction)
    return Content(content.tensors, {"sizes": session.sizes, **content.values})


class Exchange:
    """One site in one phase of the exchange."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.settings = exchange_settings(session.config)
        self.name = session.site.name
        self.crossings = Crossings.of(session.data)
        graph = session.graph
        self.source = torch.from_numpy(self.crossings.source).to(session.device)
        self.weight = torch.from_numpy(self.crossings.weight).to(graph.x)
        self.propagation = Propagation.of(graph, self.source, self.weight)

    def alone(self) -> Tensor:
        """ÂX, or Â²X, of own nodes."""
        x = self.session.graph.x
        for _ in range(self.settings.hops):
            x = self.propagation.local(x)
        return x

    def ask(self) -> Content:
        """Requests to the owners of neighbours and, from the first client by name, the shared key to everybody.

        Raises:
            ConfigError: TenSEAL is needed and not installed.
        """
        mailbox, data = self.session.mailbox, self.session.data
        if self.settings.mode == "encrypted":
            tenseal()
        wanted = asked(self.crossings, data.node_ids, self.name, mailbox.peers, self.settings.min_neighbours)
        for owner in mailbox.peers:
            requests = [bundle.as_json() for bundle in wanted.bundles if owner in bundle.owners]
            if requests:
                mailbox.send(owner, REQUEST, Content({}, {REQUEST: requests}))
        if self.settings.mode == "encrypted" and self.name == min((self.name, *mailbox.peers)):
            key = self._own_key()
            for peer in mailbox.peers:
                tensor = torch.frombuffer(bytearray(key), dtype=torch.uint8)
                mailbox.send(peer, KEY, Content({KEY: tensor}))
        asking = [
            [bundle.as_json(), rows.tolist()]
            for bundle, rows in zip(wanted.bundles, wanted.rows, strict=True)
        ]
        self.session.remember(
            {}, {"asked": asking, "boundary": wanted.boundary, "small": wanted.small, "requests": {}}
        )
        return Content()

    def give(self, instruction: Instruction) -> Content:
        """Parts of others' sums: of X, then, when its sums have come, of ÂX."""
        again = instruction.phase == AGAIN_PHASE
        memory = dict(self._memory().values)
        x, tensors = self.session.graph.x, {}
        if again:
            x, _ = self._completed(x, instruction, 1, memory)
            tensors = {"x": x}
        # Letters wait for a site that missed the exchange before.
        memory["requests"] = {**memory["requests"], **self._requests()}
        parts = []
        cipher = self._cipher()
        for recipient, requests in sorted(memory["requests"].items()):
            bundles = [Bundle.from_json(recipient, request) for request in requests]
            if cipher is None or recipient not in self.session.mailbox.peers:
                continue
            edges = self.crossings.of_peer(recipient)
            for bundle in bundles:
                values = self._part(x, bundle, edges)
                body = cipher.enciphered(bundle, 2 if again else 1, values)
                parts.append(Part(recipient, bundle.slot, len(bundle.owners), body))
        self.session.remember(tensors, memory)
        return packed(parts)

    def take(self, instruction: Instruction) -> Content:
        """The last sums; ÂX stays on disk for the run, and the key goes."""
        made = self.session.derived(NAME, lambda: self._taken(instruction))
        self._key_path().unlink(missing_ok=True)
        told = {name: made.values[name] for name in COUNTS}
        if told["small"] or told["missing"]:
            LOGGER.warning(
                "of %(boundary)d nodes of %(name)s with neighbours at other institutions, %(small)d have fewer than "
                "neighbour-exchange.min-neighbours there and go without, and so do %(missing)d whose sum did not come "
                "whole",
                {**told, "name": self.name},
            )
        return Content({}, {NEIGHBOURS: told})

    def _taken(self, instruction: Instruction) -> Remembered:
        memory = self._memory()
        two = self.settings.hops == 2
        if two and "x" in memory.tensors:
            x = memory.tensors["x"].to(self.session.device)
        else:
            x = self.propagation.local(self.session.graph.x) if two else self.session.graph.x
        x, added = self._completed(x, instruction, self.settings.hops, memory.values)
        counts = {name: memory.values[name] for name in ("boundary", "small")}
        missing = counts["boundary"] - counts["small"] - added
        return Remembered({"x": x}, {**counts, "added": added, "missing": missing})

    def _memory(self) -> Remembered:
        """What the phases before have left; a site that missed the first one has asked for nothing."""
        found = self.session.remembered()
        if found is not None and "asked" in found.values:
            return found
        boundary = len(np.unique(self.crossings.source))
        return Remembered({}, {"asked": [], "boundary": boundary, "small": 0, "requests": {}})

    def _requests(self) -> dict[str, Any]:
        """What peers ask for, those left out with which the site must not help."""
        mailbox, found = self.session.mailbox, {}
        for peer, letter in mailbox.latest(REQUEST).items():
            try:
                told = letter.values.get(REQUEST)
                if not isinstance(told, list):
                    raise WireError("it holds no list of requests")
                bundles = [Bundle.from_json(peer, value) for value in told]
                edges = self.crossings.of_peer(peer)
                check_requests(bundles, edges, self.name, mailbox.peers, self.settings.min_neighbours)
            except WireError as error:
                mailbox.complain(peer, str(error))
                continue
            found[peer] = told
        return found

    def _part(self, x: Tensor, bundle: Bundle, edges: Mapping[str, np.ndarray]) -> np.ndarray:
        """Rows of own sums for the nodes of a bundle, and in a last column over how many neighbours each is."""
        groups = [edges[node] for node in bundle.nodes]
        positions = torch.from_numpy(np.concatenate(groups)).to(x.device)
        sizes = torch.tensor([len(group) for group in groups], device=x.device)
        place = torch.repeat_interleave(torch.arange(len(groups), device=x.device), sizes)
        sums = self.propagation.given(x, self.source[positions], self.weight[positions], place, len(groups))
        numbers: np.ndarray = torch.cat([sums, sizes.double()[:, None]], 1).cpu().numpy()
        return numbers.ravel()

    def _completed(
        self, x: Tensor, instruction: Instruction, hop: int, memory: Mapping[str, Any]
    ) -> tuple[Tensor, int]:
        """Âx, and how many nodes got their sum."""
        arrived = {part.slot: part.body for part in unpacked(instruction.content)}
        local, width = self.propagation.local(x), x.shape[1] + 1
        cipher, rows, sums = self._cipher(), [], []
        for request, own in memory["asked"]:
            bundle = Bundle.from_json(self.name, request)
            body = arrived.get(bundle.slot)
            if body is None or cipher is None:
                continue
            try:
                table = cipher.deciphered(bundle, hop, body, len(own) * width).reshape(len(own), width)
                _check_sum(table, bundle)
            except WireError as error:
                LOGGER.warning("sums of %d nodes of %s are left out: %s", len(own), self.name, error)
                continue
            rows += own
            sums.append(torch.from_numpy(table[:, :-1].copy()))
        if not rows:
            return local, 0
        where = torch.tensor(rows, device=x.device)
        return self.propagation.completed(local, where, torch.cat(sums).to(x.device)), len(rows)

    def _cipher(self) -> Cipher | None:
        """None where the shared key did not come."""
        if self.settings.mode == "encrypted":
            self._keep_key()
        else:
            privacy = self.session.config.privacy
            return Masks(self.session.mailbox, FixedPoint(privacy.scale_bits, privacy.limit))
        path = self._key_path()
        try:
            return Homomorphic(path.read_bytes()) if path.exists() else None
        except WireError as error:
            LOGGER.warning("%s takes no part in the exchange of neighbours: %s", self.name, error)
            return None

    def _key_path(self) -> Path:
        return self.session.site.secrets / self.session.run / KEY_FILE

    def _own_key(self) -> bytes:
        path = self._key_path()
        if not path.exists():
            private_folder(path.parent)
            replace_private(path, fresh_key())
        return path.read_bytes()

    def _keep_key(self) -> None:
        """Of several clients that took themselves for the first one, the first counts."""
        letters = self.session.mailbox.latest(KEY)
        if not letters or (self._key_path().exists() and min(letters) > self.name):
            return
        key = letters[min(letters)].tensors.get(KEY)
        if key is None or key.dtype != torch.uint8:
            self.session.mailbox.complain(min(letters), "it holds no key")
            return
        private_folder(self._key_path().parent)
        replace_private(self._key_path(), key.numpy().tobytes())


def _check_sum(table: np.ndarray, bundle: Bundle) -> None:
    """Refuse a sum over other numbers of neighbours than asked for, as where a part was spoilt."""
    if not np.isfinite(table).all() or np.abs(table[:, -1] - bundle.totals).max() > 0.5:
        raise WireError("it is not over the neighbours that were asked for")
