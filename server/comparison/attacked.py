"""What an audit of one run found.

`fedtag privacy-audit RUN` leaves a record in a run directory; a comparison shows those of its runs that have one.
"""

from __future__ import annotations

from dataclasses import dataclass

from fedtag.common.wording.privacy import strongest_on_first
from fedtag.server.tracking.membership_audit import read_audit
from fedtag.server.tracking.run_directory import RunDirectory

NAMES = {
    "released": "released model",
    "self-trained": "self-trained model",
    "condensed": "condensed graph, raw features",
    "insider": "condensed graph, sites' features",
    "transcript": "what the server saw",
}
"""What was attacked, by kind; in the order of the columns."""


@dataclass(frozen=True)
class Attacked:
    """What the strongest attack on a target of one run reached.

    Args:
        kind: one of `NAMES`.
        attack: its name.
        auc, low, high: area, and its 95% interval over nodes and models.
        accuracy: of the attacked models on test nodes; None where no model was attacked.
    """

    kind: str
    attack: str
    auc: float
    low: float
    high: float
    accuracy: float | None


def read_attacked(run: RunDirectory) -> tuple[Attacked, ...]:
    """The strongest attack on each kind of target of a run; empty where it was not audited.

    Raises:
        RunError: the record is damaged or of another schema.
    """
    record = read_audit(run)
    if record is None:
        return ()
    found: dict[str, Attacked] = {}
    for target in record["targets"]:
        kind, best = target["kind"], strongest_on_first(target)
        if kind in NAMES and (kind not in found or best.auc > found[kind].auc):
            found[kind] = Attacked(kind, best.attack, best.auc, best.low, best.high, target["test_accuracy"])
    return tuple(found.values())
