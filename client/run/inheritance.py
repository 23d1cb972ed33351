"""A run that extends another one takes over what the site kept of that."""

from __future__ import annotations

from fedtag.client.data.stamp import data_digest
from fedtag.client.run.agreement import SETTINGS
from fedtag.client.run.commitment import COUNTS
from fedtag.client.run.snapshot import DATA
from fedtag.client.site.site import Site
from fedtag.client.site.state import Remembered, StateStore
from fedtag.common.config import RunConfig
from fedtag.common.config.extension import changed
from fedtag.common.errors import ProtocolError
from fedtag.common.wire.records import Instruction

INHERITED = "inherited"
"""Under which a run keeps from which one it has taken over."""
EXTENDED = "extended"
"""Under which a run keeps which one has taken over from it."""
OWN = (SETTINGS, DATA, COUNTS, INHERITED, EXTENDED)
"""What is kept of one run alone, and of a longer one anew."""


def inherit(site: Site, instruction: Instruction, config: RunConfig) -> None:
    """Take over the state of the run that a new one extends, once; a run that extends none has nothing to take.

    Under masks one run alone may extend another, that one is then over, and its rounds are not done again: the same
    updates would be summed over other members, and the difference of two such sums is what masks hide.

    Raises:
        ProtocolError: the site keeps nothing of that run, its settings or data were others, or it was extended before;
            or this run was extended.
    """
    store, masked = StateStore(site.state, instruction.run), config.privacy.secure_aggregation
    if masked and (heir := store.find(EXTENDED)) is not None:
        raise ProtocolError(
            f"this run was extended at {site.name} by run {heir.values['run']}, and under masks its updates are summed "
            "once: go on with that one"
        )
    if not config.parent.run:
        return
    if masked and instruction.round <= config.parent.rounds:
        raise ProtocolError(
            f"round {instruction.round} is one of the {config.parent.rounds} of the run that this one extends, and "
            "under masks its updates are summed once: go on with the next round"
        )
    if store.find(INHERITED) is not None:
        return
    parent, name = StateStore(site.state, config.parent.run), config.parent.run
    settings, data = parent.find(SETTINGS), parent.find(DATA)
    if settings is None or data is None:
        raise ProtocolError(
            f"{site.name} keeps nothing of run {name}, which this one is to extend: begin anew, or train on from its "
            "released model"
        )
    if differing := changed(settings.values, config.decisive()):
        raise ProtocolError(
            f"run {name} came to {site.name} with other settings ({'; '.join(differing[:5])}): a run is extended with "
            "its own settings, begin anew with others"
        )
    if settings.values["rounds"] != config.parent.rounds:
        raise ProtocolError(
            f"run {name} came to {site.name} with rounds = {settings.values['rounds']}, and is to be extended after "
            f"{config.parent.rounds}: extend it after its own rounds"
        )
    if data.values["digest"] != data_digest(site.folder):
        raise ProtocolError(
            f"the data of {site.name} are not those of run {name}, which this one is to extend: restore them, or "
            "train on from its released model"
        )
    if masked:
        heir = parent.find(EXTENDED)
        if heir is not None and heir.values["run"] != instruction.run:
            raise ProtocolError(
                f"run {name} was extended at {site.name} by run {heir.values['run']}, and under masks its updates "
                "are summed once: go on with that one, or begin anew"
            )
        parent.keep(EXTENDED, Remembered({}, {"run": instruction.run}))
    store.take_over(parent, OWN)
    # Also where its first message is no introduction: what was compared with the parent's stays.
    store.keep(SETTINGS, Remembered({}, config.decisive()))
    store.keep(INHERITED, Remembered({}, {"run": name}))
