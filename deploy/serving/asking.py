"""What a service on this machine says of itself."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from dataclasses import dataclass

from fedtag.common.errors import DeploymentError
from fedtag.deploy.federation.ports import LOOPBACK
from fedtag.deploy.serving.page import ProgramState

_SECONDS = 5.0


@dataclass(frozen=True)
class ServiceState:
    """A service and its programs.

    Args:
        service: `link` or `site`.
        name: of the site; empty for a link.
        live: whether its supervisor looks after it.
        ready: whether all of its programs can take work, or are at it.
        programs: of the service.
    """

    service: str
    name: str
    live: bool
    ready: bool
    programs: tuple[ProgramState, ...]

    @property
    def trouble(self) -> str | None:
        """What is stuck, and why; None if nothing is."""
        if not self.live:
            return (
                "the supervisor of the service does not answer for its programs any more: restart the service"
            )
        stuck = [f"{one.name}: {one.detail or one.state}" for one in self.programs if not one.ready]
        return "; ".join(stuck) or None


def ask_service(port: int) -> ServiceState:
    """Ask a service by the port of its pages.

    Raises:
        DeploymentError: nothing answers there as a service does.
    """
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(f"http://{LOOPBACK}:{port}/status", timeout=_SECONDS) as answer:
            told = json.loads(answer.read())
        programs = tuple(ProgramState(**one) for one in told.pop("programs"))
        return ServiceState(**told, programs=programs)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise DeploymentError(
            f"no service answers on port {port} of this machine ({error}): start fedtag serve, or name the port "
            "that its --watch gives"
        ) from error
