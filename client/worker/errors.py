"""How a hand-over to the worker can fail."""

from __future__ import annotations

from fedtag.common.errors import DeploymentError, FedtagError


class WorkerUnavailableError(DeploymentError):
    """No worker took the message, which can be carried out without one."""


class WorkerLostError(DeploymentError):
    """The worker ended while it carried out the message, and so did the next one."""


class CarriedOutError(FedtagError):
    """The worker carried out the message and failed.

    Args:
        text: of the error, for the site's own log.
        reason: what the server may be told.
    """

    def __init__(self, text: str, reason: str) -> None:
        self.reason = reason
        super().__init__(text)
