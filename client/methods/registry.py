"""Methods on the client's side, found by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, cast

from fedtag.common.methods.spec import METHODS
from fedtag.common.settings.registry import resolved
from fedtag.common.wire.records import Content, Instruction

if TYPE_CHECKING:
    from fedtag.client.context.session import Session
    from fedtag.client.prediction.outcome import Prediction, ReleasedModel


class ClientMethod(Protocol):
    """What a client does when an instruction of a phase arrives.

    It is a plain object without memory: what must last from one message to the next goes through
    `session.remembered` and `session.remember`.
    """

    def respond(self, instruction: Instruction, session: Session) -> Content:
        """Carry out the phase and return the contribution."""
        ...

    def predict(self, released: ReleasedModel, session: Session, evidence: bool) -> Prediction:
        """What a released model says of every node of the site, with evidence if asked for and the method has any.

        Nothing is written but the cache of encoded texts.
        """
        ...


def client_method(name: str) -> ClientMethod:
    """The client's side of a method.

    Raises:
        ConfigError: the method is not installed, or cannot be used.
    """
    return cast(ClientMethod, resolved(METHODS.get(name).client, METHODS.origin(name).package))
