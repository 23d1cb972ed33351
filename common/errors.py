"""Everything that fedtag raises on purpose.

    FedtagError
    ├── ConfigError        a setting is wrong or two settings exclude each other
    ├── DataError          a data folder breaks the contract; carries every problem found
    ├── WeightsError       an encoder or language model is missing or is not the file it claims to be
    ├── WireError          a message does not have the agreed form
    │   └── VersionError   it is of another protocol, that of another release
    ├── QuorumError        too few clients answered
    ├── ProtocolError      secure summation: a key, a list or a request breaks the protocol
    ├── PolicyError        a site's own policy does not allow what it was asked for
    │   └── ApprovalError  nobody at the site has approved the run yet
    ├── DivergenceError    local training left the finite numbers
    ├── CapacityError      a device has less memory than the work needs
    ├── RunError           a run directory or checkpoint cannot be used
    └── DeploymentError    a Flower process did not start or did not do what was asked

Each message names the value, the rule and the remedy in one sentence.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from fedtag.common.homes import moved_by


class FedtagError(Exception):
    """Base of all errors that a user can act upon. `exit_code` is what the command line returns."""

    exit_code = 1


class ConfigError(FedtagError):
    """A setting is wrong, unknown, or excluded by another one."""

    exit_code = 2


class DataError(FedtagError):
    """A data folder breaks the contract.

    Args:
        problems: one sentence each, with row numbers and the remedy; all that were found.
    """

    exit_code = 2

    def __init__(self, problems: Sequence[str] | str) -> None:
        self.problems = (problems,) if isinstance(problems, str) else tuple(problems)
        super().__init__("\n".join(self.problems))


class WeightsError(FedtagError):
    """Model weights are missing, or their SHA-256 is not the pinned one."""


class WireError(FedtagError):
    """A message does not have the agreed schema, keys, shapes, dtype, size or finite values."""


class VersionError(WireError):
    """Two sides have releases of different protocols; its text names versions only."""


class BundleError(WireError):
    """A run's bundle holds more than settings; its text names what the sender put there."""


class QuorumError(FedtagError):
    """Too few clients answered, even after the retries."""


class ProtocolError(FedtagError):
    """Secure summation: a key, a list or a request breaks the protocol; its text holds nothing private."""


class PolicyError(FedtagError):
    """A site's policy does not allow what it was asked for; its text holds nothing of the site's data.

    Args:
        text: what is refused, and why.
        rule: its name in the policy; None where a person decides.
    """

    def __init__(self, text: str, rule: str | None = None) -> None:
        self.rule = rule
        super().__init__(text)


class ApprovalError(PolicyError):
    """A run waits until somebody at the site approves it."""


class DivergenceError(FedtagError):
    """Local training left the finite numbers."""


class CapacityError(FedtagError):
    """The memory of a device ran out; its text names settings and the device, and nothing of the data."""


class RunError(FedtagError):
    """A run directory or its checkpoint is missing, unreadable, or belongs to other settings."""


class DeploymentError(FedtagError):
    """A Flower process did not start, or the run that it carried failed."""


def sentences(error: Exception, debug: bool) -> list[str]:
    """An error as a person reads it, a line each; `debug` leaves out how to learn more."""
    if isinstance(error, DataError):
        return list(error.problems)
    if isinstance(error, ConfigError):
        return str(error).splitlines()
    if isinstance(error, FedtagError):
        return [str(error)]
    if isinstance(error, OSError):
        return [of_place(error)]
    reason = " ".join(str(error).split())[:200]
    hint = "" if debug else "; run again with --debug to see where"
    return [f"unexpected {type(error).__name__}: {reason}{hint}"]


def of_place(error: OSError, place: Path | None = None) -> str:
    """What the system says of a file or folder, with the remedy and the variable that names another place.

    Args:
        error: names its file where one was opened, none where a write failed.
        place: what is named then.
    """
    if error.filename is None and "temporary directory" in str(error):
        return f"{error.strerror}; make room in one of them, or set TMPDIR to another folder"
    where = error.filename or (None if place is None else place.absolute())
    variable = moved_by(Path(os.fsdecode(where))) if isinstance(where, str | bytes | Path) else None
    elsewhere = f", or set {variable} to another folder" if variable else ""
    said = f"{error.strerror or error}; check the path, its permissions and the disk{elsewhere}"
    return f"{where}: {said}" if where else said
