"""Which sums over foreign neighbours a site asks for, and which ones it helps with.

The sum over the neighbours of one node may have parts at several owners. Nodes whose neighbours have the same owners
are asked for together. A request tells each owner the whole list: every node, all owners, and how many neighbours each
of them has. An owner helps only where its own number is right, all numbers together are enough, and no node is asked
for twice; the fingerprint of the list is the slot under which parts come together, so that a recipient who tells two
owners different things gets parts that do not add up.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fedtag.client.data.text_graph import NodeId, Rows, TextGraph
from fedtag.common.errors import ConfigError, WireError
from fedtag.common.secure.canonical import canonical

NONCE_BYTES = 16


@dataclass(frozen=True)
class Bundle:
    """Nodes of one institution whose foreign neighbours have the same owners.

    Args:
        nonce: hexadecimal, without which nobody can guess the list from its fingerprint.
        recipient: the institution.
        owners: of the neighbours, in order of their names.
        nodes: ids of the nodes, as text.
        counts: of each node, how many neighbours each owner has.
    """

    nonce: str
    recipient: str
    owners: tuple[str, ...]
    nodes: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]

    @property
    def slot(self) -> str:
        """SHA-256 of everything."""
        numbers = [count for row in self.counts for count in row]
        named = canonical(self.nonce, self.recipient, len(self.owners), *self.owners, *self.nodes)
        return hashlib.sha256(canonical("neighbours", named, *numbers)).hexdigest()

    @property
    def totals(self) -> NDArray[np.int64]:
        """Foreign neighbours of each node."""
        return np.array(self.counts, np.int64).sum(1)

    def as_json(self) -> list[Any]:
        """Everything but the recipient, who is the letter's sender."""
        return [self.nonce, list(self.owners), list(self.nodes), [list(row) for row in self.counts]]

    @classmethod
    def from_json(cls, recipient: str, value: Any) -> Bundle:
        """The inverse, of what anybody may have written.

        Raises:
            WireError: it is none.
        """
        if not isinstance(value, list) or len(value) != 4:
            raise WireError("a request has a nonce, owners, nodes and counts")
        nonce, owners, nodes, counts = value
        named = isinstance(nonce, str) and _is_texts(owners) and _is_texts(nodes)
        if not named or not owners or owners != sorted(set(owners)) or not nodes:
            raise WireError("a request names owners in order and nodes")
        counted = isinstance(counts, list) and all(
            isinstance(row, list) and len(row) == len(owners) and all(type(n) is int and n > 0 for n in row)
            for row in counts
        )
        if not counted or len(counts) != len(nodes):
            raise WireError("a request counts the neighbours of every node at every owner")
        return cls(nonce, recipient, tuple(owners), tuple(nodes), tuple(map(tuple, counts)))


@dataclass(frozen=True, eq=False)
class Crossings:
    """The cross edges of a site, each once.

    Args:
        source: row of the own node.
        foreign: id of the other one, as text.
        peer: whose that is.
        weight: of the edge.
    """

    source: Rows
    foreign: NDArray[np.str_]
    peer: NDArray[np.str_]
    weight: NDArray[np.float32]

    @classmethod
    def of(cls, graph: TextGraph) -> Crossings:
        """Of a site's graph.

        Raises:
            ConfigError: the graph is directed.
        """
        cross = graph.cross_edges
        refuse_directed(graph.name, graph.directed)
        foreign = np.array([str(node) for node in cross.foreign], np.str_)
        peer = np.array(cross.peer, np.str_)
        ends = np.stack([cross.source.astype(np.str_), foreign, peer]) if len(cross) else foreign[None]
        kept = np.sort(np.unique(ends, axis=1, return_index=True)[1])
        return cls(cross.source[kept], foreign[kept], peer[kept], cross.weight[kept])

    def of_peer(self, peer: str) -> dict[str, NDArray[np.int64]]:
        """For each node of a peer that own nodes link to, the positions of these edges."""
        at = np.flatnonzero(self.peer == peer)
        names, inverse = np.unique(self.foreign[at], return_inverse=True)
        order = np.argsort(inverse, kind="stable")
        groups = np.split(at[order], np.cumsum(np.bincount(inverse, minlength=len(names)))[:-1])
        return {str(name): group for name, group in zip(names, groups, strict=False)}


@dataclass(frozen=True, eq=False)
class Asked:
    """What a site asks its peers for.

    Args:
        bundles: the requests.
        rows: own nodes of each request, in its order.
        boundary: own nodes with neighbours elsewhere.
        small: those that have too few.
    """

    bundles: tuple[Bundle, ...]
    rows: tuple[Rows, ...]
    boundary: int
    small: int


def asked(crossings: Crossings, ids: Sequence[NodeId], name: str, peers: Sequence[str], least: int) -> Asked:
    """The requests of a site.

    Args:
        crossings: its cross edges.
        ids: of its nodes.
        name: of the site.
        peers: who can be asked; neighbours at others do not count.
        least: neighbours that a sum must have.
    """
    columns = np.array(sorted(peers), np.str_)
    boundary = np.unique(crossings.source)
    known = np.isin(crossings.peer, columns)
    counts = np.zeros((len(boundary), len(columns)), np.int64)
    place = np.searchsorted(boundary, crossings.source[known])
    np.add.at(counts, (place, np.searchsorted(columns, crossings.peer[known])), 1)
    enough = counts.sum(1) >= least
    patterns, pattern = np.unique(counts[enough] > 0, axis=0, return_inverse=True)
    bundles, rows = [], []
    for number, owning in enumerate(patterns):
        members = pattern.reshape(-1) == number
        own = boundary[enough][members]
        table = counts[enough][members][:, owning]
        bundles.append(
            Bundle(
                os.urandom(NONCE_BYTES).hex(),
                name,
                tuple(map(str, columns[owning])),
                tuple(str(ids[row]) for row in own),
                tuple(map(tuple, table.tolist())),
            )
        )
        rows.append(own)
    return Asked(tuple(bundles), tuple(rows), len(boundary), int((~enough).sum()))


def check_requests(
    bundles: Sequence[Bundle],
    edges: Mapping[str, NDArray[np.int64]],
    name: str,
    peers: Sequence[str],
    least: int,
) -> None:
    """Refuse requests of a peer with which a site must not help.

    Args:
        bundles: all requests of the peer.
        edges: as of `Crossings.of_peer`.
        name: of the site.
        peers: whom it knows.
        least: neighbours that a sum must have.

    Raises:
        WireError: naming the first fault.
    """
    nodes = [node for bundle in bundles for node in bundle.nodes]
    if len(set(nodes)) < len(nodes):
        raise WireError("it asks for two sums of one node, whose difference would tell single neighbours")
    for bundle in bundles:
        if name not in bundle.owners or not set(bundle.owners) <= {name, *peers} - {bundle.recipient}:
            raise WireError("it names owners that are no peers, or not the one that it asks")
        own = bundle.owners.index(name)
        held = [len(edges.get(node, ())) for node in bundle.nodes]
        if held != [row[own] for row in bundle.counts]:
            raise WireError(f"it counts other neighbours here than {name} has")
        if int(bundle.totals.min()) < least:
            raise WireError(f"it asks for a sum over fewer than {least} neighbours")


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def refuse_directed(site: str, directed: bool) -> None:
    """Raise ConfigError where edges have one direction, so that one end of a cross edge does not know it."""
    if directed:
        raise ConfigError(
            f"{site} is directed, and the other end of a cross edge does not know it there: "
            "set neighbour-exchange.mode = off"
        )
