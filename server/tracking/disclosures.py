"""What crossed the network, and how it is told: a row an exchange, direction and kind of record, clients as columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar, get_args

from fedtag.common.errors import RunError

SERVER = "server"
Protection = Literal["none", "masked", "encrypted", "noised"]
"""What hides a record from whoever receives or carries it."""
Entry = TypeVar("Entry", str, int)


@dataclass(frozen=True, order=True)
class Crossing:
    """Records of one kind that one side sent to another in an exchange.

    Args:
        sender, receiver: names of clients, or `server`.
        count: how many.
        bytes: of all of them, as sent.
    """

    sender: str
    receiver: str
    count: int
    bytes: int


@dataclass(frozen=True)
class Disclosure:
    """All records of one kind that went one way in an exchange: to the server, from it, or between clients.

    Args:
        round: 0 is before the first.
        phase: what the exchange was for, such as `train` or `close`.
        kind: of record, as its method, part or fedtag declares it.
        senders, receivers, counts, sizes: an entry each for every crossing; those of one entry hold for all. The server
            is one entry, and counts or sizes that are alike are.
        reveals: what a reader of the record learns, in words.
        protected: what hides it.

    Raises:
        RunError: the protection is unknown, or columns are of different lengths.
    """

    round: int
    phase: str
    kind: str
    senders: tuple[str, ...]
    receivers: tuple[str, ...]
    counts: tuple[int, ...]
    sizes: tuple[int, ...]
    reveals: str
    protected: Protection

    def __post_init__(self) -> None:
        if self.protected not in get_args(Protection):
            allowed = ", ".join(get_args(Protection))
            raise RunError(f"a disclosure's protection is {self.protected!r}; it must be one of {allowed}")
        lengths = {len(column) for column in (self.senders, self.receivers, self.counts, self.sizes)}
        if not lengths <= {1, len(self)}:
            raise RunError(
                f"columns of a disclosure have {sorted(lengths)} entries; each must have one, or one a crossing"
            )

    @classmethod
    def of(
        cls,
        round_number: int,
        phase: str,
        kind: str,
        crossings: Sequence[Crossing],
        reveals: str,
        protected: Protection,
    ) -> Disclosure:
        """The row of crossings that go one way; arguments as of the class.

        Args:
            crossings: at least one; all from the server, all to it, or none of either.
        """
        return cls(
            round_number,
            phase,
            kind,
            _side([one.sender for one in crossings]),
            _side([one.receiver for one in crossings]),
            _alike([one.count for one in crossings]),
            _alike([one.bytes for one in crossings]),
            reveals,
            protected,
        )

    def __len__(self) -> int:
        """The number of crossings."""
        return max(len(self.senders), len(self.receivers))

    @property
    def count(self) -> int:
        """Records in all."""
        return sum(self.every(self.counts))

    @property
    def bytes(self) -> int:
        """Their size as sent."""
        return sum(self.every(self.sizes))

    @property
    def from_server(self) -> bool:
        """Whether the server sent the records."""
        return self.senders == (SERVER,)

    @property
    def to_server(self) -> bool:
        """Whether the server received them."""
        return self.receivers == (SERVER,)

    @property
    def between_clients(self) -> bool:
        """Whether they passed the server sealed."""
        return not (self.from_server or self.to_server)

    @property
    def crossings(self) -> Iterator[Crossing]:
        """Who sent how much to whom."""
        ends = self.every(self.senders), self.every(self.receivers)
        return map(Crossing, *ends, self.every(self.counts), self.every(self.sizes))

    def every(self, column: tuple[Entry, ...]) -> tuple[Entry, ...]:
        """A column with an entry for every crossing."""
        return column if len(column) == len(self) else column * len(self)


def _side(names: Sequence[str]) -> tuple[str, ...]:
    return (SERVER,) if set(names) == {SERVER} else tuple(names)


def _alike(numbers: Sequence[int]) -> tuple[int, ...]:
    return tuple(numbers[:1] if len(set(numbers)) == 1 else numbers)
