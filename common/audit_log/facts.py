"""What each event of an audit log may say: numbers, digests, and names that no free text can pass for.

A log is kept for years and shown to others. Texts, labels and identifiers of nodes therefore have no fact to stand in.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from fedtag.common.errors import ConfigError
from fedtag.common.wire.names import CLIENT_NAME

Count = Annotated[int, Field(ge=0, lt=2**63)]
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Hex32 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
Signature = Annotated[str, Field(pattern=r"^[0-9a-f]{128}$")]
Run = Annotated[str, Field(pattern=r"^[0-9A-Za-z][0-9A-Za-z-]{0,63}$")]
Word = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_.-]{0,63}$")]
Release = Annotated[str, Field(pattern=r"^\d[\w.+!-]{0,39}$")]
Name = Annotated[str, Field(pattern=f"^{CLIENT_NAME.pattern}$", max_length=64)]
Protection = Literal["none", "masked", "encrypted", "noised"]

_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_.-]{0,63}")


class Facts(BaseModel):
    """Of one event, or a row of them."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Crossed(Facts):
    """Records of one kind in a message: bytes as `disclosures.jsonl` counts them, and how they were protected."""

    record: Word
    bytes: Count
    protected: Protection = "none"
    receiver: Name | None = None
    """Of a letter, which the server relays."""


class Answer(Facts):
    """What a coordinator sent to one node in an exchange, and what came back.

    `client` is absent as long as the node has not said who it is; `received` where no reply could be read.
    """

    node: Word
    client: Name | None = None
    sent: Hex32
    received: Hex32 | None = None
    records: tuple[Crossed, ...] = ()
    refused: Word | None = None


class TakenPart(Facts):
    """A run whose data a forgotten node was in."""

    run: Run
    trained: bool


class Exchange(Facts):
    """Which exchange of which run."""

    run: Run
    step: Count
    round: Count
    phase: Word


class Started(Facts):
    """A process or a run begins; `parent` is the run that it extends."""

    what: Literal["worker", "site", "coordinator", "run"]
    release: Release
    run: Run | None = None
    settings: Hex32 | None = None
    data: Hex32 | None = None
    parent: Run | None = None


class Instructed(Exchange):
    """An instruction came."""

    bytes: Count
    digest: Hex32


class Answered(Exchange):
    """What leaves, written before it does."""

    bytes: Count
    digest: Hex32
    records: tuple[Crossed, ...]


class Refused(Facts):
    """Something was not carried out, by the name of a policy's rule or of an error."""

    run: Run | None = None
    step: Count | None = None
    round: Count | None = None
    phase: Word | None = None
    rule: Word | None = None
    error: Word | None = None


class Decided(Facts):
    """A run waits for a person, or was approved by one."""

    run: Run
    rule: Word | None = None
    settings: Hex32 | None = None


class Budget(Facts):
    """What a run takes of a budget over all runs."""

    run: Run
    rule: Word | None = None
    spent: Amount
    total: Amount
    limit: Amount | None = None


class KeyChanged(Facts):
    """The identity signs with another key than the last seal's."""

    old: Hex32
    new: Hex32


class Exchanged(Exchange):
    """A coordinator's exchange with all nodes that it asked."""

    answers: tuple[Answer, ...]


class Released(Facts):
    """A run's release: the fingerprint of its parameters, and SHA-256 of its files as they were written."""

    run: Run
    round: Count | None = None
    fingerprint: Hex32 | None = None
    model: Hex32 | None = None
    card: Hex32 | None = None
    disclosures: Hex32 | None = None


class Ended(Facts):
    """A run is over, or stopped by an error."""

    run: Run
    error: Word | None = None


class Evidence(Facts):
    """An evidence store of a run: its files, and one digest of names and contents."""

    run: Run
    files: Count
    bytes: Count
    digest: Hex32


class Forgotten(Facts):
    """A node was removed: a digest under a key that stays at the site, and how much of what is gone."""

    receipt: Hex32
    rows: Count
    edges: Count
    packs: Count
    vectors: Count
    summaries: Count
    states: Count
    stays: Count
    runs: tuple[TakenPart, ...] = ()


class Swept(Facts):
    """What retention removed."""

    states: Count
    evidence: Count
    caches: Count


class Sealed(Facts):
    """A signature of all lines before."""

    owner: Name
    lines: Count
    head: Hex32
    key: Hex32
    signature: Signature


class Repaired(Facts):
    """The lines just before are what a killed process left of one."""

    lines: Annotated[int, Field(ge=1, lt=2**31)]
    bytes: Count
    digest: Hex32


EVENTS: Mapping[str, type[Facts]] = {
    "started": Started,
    "instructed": Instructed,
    "answered": Answered,
    "refused": Refused,
    "pending": Decided,
    "approved": Decided,
    "budget": Budget,
    "key-changed": KeyChanged,
    "exchanged": Exchanged,
    "released": Released,
    "ended": Ended,
    "evidence": Evidence,
    "forgotten": Forgotten,
    "swept": Swept,
    "sealed": Sealed,
    "repaired": Repaired,
}


def checked(event: str, facts: Mapping[str, Any]) -> Facts:
    """The facts of an event.

    Raises:
        ConfigError: the event is unknown, or a fact is not what it may be. The value itself is not repeated.
    """
    if event not in EVENTS:
        raise ConfigError(f"the audit log knows no event {event[:40]!r}: use one of {', '.join(EVENTS)}")
    try:
        return EVENTS[event].model_validate(dict(facts))
    except ValidationError as error:
        raise _refused(event, error) from None


def read(event: str, text: str) -> Facts:
    """The same from a line of a log.

    Raises:
        ConfigError: as of `checked`.
    """
    if event not in EVENTS:
        raise ConfigError(f"the audit log knows no event {event[:40]!r}: use one of {', '.join(EVENTS)}")
    try:
        return EVENTS[event].model_validate_json(text)
    except ValidationError as error:
        raise _refused(event, error) from None


def word(text: str) -> str:
    """A name that others chose, as a log may hold it; another one stands there by its digest."""
    if _WORD.fullmatch(text):
        return text
    return f"sha256.{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"


def _refused(event: str, error: ValidationError) -> ConfigError:
    places = sorted({".".join(map(str, fault["loc"])) for fault in error.errors()})
    return ConfigError(
        f"the event '{event}' of an audit log cannot hold {', '.join(places)}: facts are declared numbers, digests and "
        "names, and no text of anybody's data stands in a log"
    )
