"""The one-step exchange of neighbour sums at a client, once, before everything else.

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
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedtag.client.context.run_context import RunContext
from fedtag.client.context.site_data import SiteData
from fedtag.client.parts.neighbour_exchange.bundles import Bundle, Crossings, asked, check_requests
from fedtag.client.parts.neighbour_exchange.ciphers import Cipher, Homomorphic, Masks
from fedtag.client.parts.neighbour_exchange.given import Given
from fedtag.client.parts.neighbour_exchange.sums import Propagation
from fedtag.client.site.state import Remembered, check_run
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
from fedtag.common.parts.neighbour_exchange.settings import NeighbourExchangeConfig
from fedtag.common.secure.fixed_point import FixedPoint
from fedtag.common.secure.private_file import private_folder, replace_private
from fedtag.common.wire.records import Content

LOGGER = logging.getLogger("fedtag")

NAME = "exchanged"
"""Of the features after the exchange, among what a site keeps."""

PART = "neighbour-exchange"
"""Of what is remembered from one phase to the next."""

KEY_FILE = "neighbours.key"


def take_part(data: SiteData, context: RunContext[Any]) -> Content:
    """Carry out a phase of the exchange."""
    check_run(context.run)  # a run whose name is no name has no place on disk
    with context.timed(NEIGHBOURS):
        exchange = Exchange(data, context)
        if context.phase == ASK_PHASE:
            content = exchange.ask()
        elif context.phase == TAKE_PHASE:
            content = exchange.take()
        else:
            content = exchange.give()
    return Content(content.tensors, {"sizes": data.sizes, **content.values})


def propagation(data: SiteData) -> tuple[Propagation, Crossings]:
    """Of a site's own nodes, and its cross edges.

    Raises:
        ConfigError: the graph is directed.
    """
    crossings = Crossings.of(data.text_graph)
    source = torch.from_numpy(crossings.source).to(data.device)
    weight = torch.from_numpy(crossings.weight).to(data.graph.x)
    return Propagation.of(data.graph, source, weight), crossings


def alone(data: SiteData, hops: int) -> Tensor:
    """ÂX, or Â²X, of own nodes."""
    own, _ = propagation(data)
    x = data.graph.x
    for _ in range(hops):
        x = own.local(x)
    return x


class Exchange:
    """One site in one phase of the exchange."""

    def __init__(self, data: SiteData, context: RunContext[Any]) -> None:
        self.data = data
        self.context = context
        self.settings = context.config.own(NeighbourExchangeConfig)
        self.name = data.site.name
        self.propagation, self.crossings = propagation(data)
        self.source = torch.from_numpy(self.crossings.source).to(data.device)
        self.weight = torch.from_numpy(self.crossings.weight).to(data.graph.x)

    def ask(self) -> Content:
        """Requests to the owners of neighbours and, from the first client by name, the shared key to everybody.

        Raises:
            ConfigError: TenSEAL is needed and not installed.
        """
        messages, ids = self.context.messages, self.data.text_graph.node_ids
        if self.settings.mode == "encrypted":
            tenseal()
        wanted = asked(self.crossings, ids, self.name, messages.peers, self.settings.min_neighbours)
        for owner in messages.peers:
            requests = [bundle.as_json() for bundle in wanted.bundles if owner in bundle.owners]
            if requests:
                messages.send(owner, REQUEST, Content({}, {REQUEST: requests}))
        if self.settings.mode == "encrypted" and self.name == min((self.name, *messages.peers)):
            key = self._own_key()
            for peer in messages.peers:
                tensor = torch.frombuffer(bytearray(key), dtype=torch.uint8)
                messages.send(peer, KEY, Content({KEY: tensor}))
        asking = [
            [bundle.as_json(), rows.tolist()]
            for bundle, rows in zip(wanted.bundles, wanted.rows, strict=True)
        ]
        memory = {"asked": asking, "boundary": wanted.boundary, "small": wanted.small, "requests": {}}
        self.context.memory.remember({}, memory, PART)
        return Content()

    def give(self) -> Content:
        """Parts of others' sums: of X, then, when its sums have come, of ÂX."""
        again = self.context.phase == AGAIN_PHASE
        memory = dict(self._memory().values)
        x, tensors = self.data.graph.x, {}
        if again:
            x, _ = self._completed(x, 1, memory)
            tensors = {"x": x}
        # Letters wait for a site that missed the exchange before.
        memory["requests"] = {**memory["requests"], **self._requests()}
        parts = []
        cipher, given = self._cipher(), Given(self.context, 2 if again else 1)
        for recipient, requests in sorted(memory["requests"].items()):
            bundles = [Bundle.from_json(recipient, request) for request in requests]
            if cipher is None or recipient not in self.context.messages.peers:
                continue
            edges = self.crossings.of_peer(recipient)
            for bundle in bundles:
                body = given.before(bundle)
                if body is None:
                    body = cipher.enciphered(bundle, given.hop, self._part(x, bundle, edges))
                    given.note(bundle, body)
                parts.append(Part(recipient, bundle.slot, len(bundle.owners), body))
        given.keep()
        self.context.memory.remember(tensors, memory, PART)
        return packed(parts)

    def take(self) -> Content:
        """The last sums; ÂX stays on disk for the run, and the key goes."""
        made = self.context.memory.derived(NAME, self._taken)
        self._key_path().unlink(missing_ok=True)
        counts = {name: made.values[name] for name in COUNTS}
        if counts["small"] or counts["missing"]:
            LOGGER.warning(
                "of %(boundary)d nodes of %(name)s with neighbours at other institutions, %(small)d have fewer than "
                "neighbour-exchange.min-neighbours there and go without, and so do %(missing)d whose sum did not come "
                "whole",
                {**counts, "name": self.name},
            )
        return Content({}, {NEIGHBOURS: counts})

    def _taken(self) -> Remembered:
        memory = self._memory()
        two = self.settings.hops == 2
        if two and "x" in memory.tensors:
            x = memory.tensors["x"].to(self.data.device)
        else:
            x = self.propagation.local(self.data.graph.x) if two else self.data.graph.x
        x, added = self._completed(x, self.settings.hops, memory.values)
        counts = {name: memory.values[name] for name in ("boundary", "small")}
        missing = counts["boundary"] - counts["small"] - added
        return Remembered({"x": x}, {**counts, "added": added, "missing": missing})

    def _memory(self) -> Remembered:
        """What the phases before have left; a site that missed the first one has asked for nothing."""
        found = self.context.memory.remembered(PART)
        if found is not None:
            return found
        boundary = len(np.unique(self.crossings.source))
        return Remembered({}, {"asked": [], "boundary": boundary, "small": 0, "requests": {}})

    def _requests(self) -> dict[str, Any]:
        """What peers ask for, those left out with which the site must not help."""
        messages, found = self.context.messages, {}
        for peer, letter in messages.latest(REQUEST).items():
            try:
                requested = letter.values.get(REQUEST)
                if not isinstance(requested, list):
                    raise WireError("it holds no list of requests")
                bundles = [Bundle.from_json(peer, value) for value in requested]
                edges = self.crossings.of_peer(peer)
                check_requests(bundles, edges, self.name, messages.peers, self.settings.min_neighbours)
            except WireError as error:
                messages.complain(peer, str(error))
                continue
            found[peer] = requested
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

    def _completed(self, x: Tensor, hop: int, memory: Mapping[str, Any]) -> tuple[Tensor, int]:
        """Âx, and how many nodes got their sum."""
        arrived = {part.slot: part.body for part in unpacked(self.context.content)}
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
            privacy = self.context.config.privacy
            return Masks(self.context.messages, FixedPoint(privacy.scale_bits, privacy.limit))
        path = self._key_path()
        try:
            return Homomorphic(path.read_bytes()) if path.exists() else None
        except WireError as error:
            LOGGER.warning("%s takes no part in the exchange of neighbours: %s", self.name, error)
            return None

    def _key_path(self) -> Path:
        return self.data.site.secrets / self.context.run / KEY_FILE

    def _own_key(self) -> bytes:
        path = self._key_path()
        if not path.exists():
            private_folder(path.parent)
            replace_private(path, fresh_key())
        return path.read_bytes()

    def _keep_key(self) -> None:
        """Of several clients that took themselves for the first one, the first counts."""
        letters = self.context.messages.latest(KEY)
        if not letters or (self._key_path().exists() and min(letters) > self.name):
            return
        key = letters[min(letters)].tensors.get(KEY)
        if key is None or key.dtype != torch.uint8:
            self.context.messages.complain(min(letters), "it holds no key")
            return
        private_folder(self._key_path().parent)
        replace_private(self._key_path(), key.numpy().tobytes())


def _check_sum(table: np.ndarray, bundle: Bundle) -> None:
    """Refuse a sum over other numbers of neighbours than asked for, as where a part was spoilt."""
    if not np.isfinite(table).all() or np.abs(table[:, -1] - bundle.totals).max() > 0.5:
        raise WireError("it is not over the neighbours that were asked for")
