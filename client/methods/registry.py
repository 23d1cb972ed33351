"""Methods on the client's side, found by name."""

from __future__ import annotations

import importlib
import importlib.util
from typing import TYPE_CHECKING, Protocol, cast

from fedtag.common.errors import ConfigError
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
    """The method in the module `fedtag.client.methods.NAME`, under the name METHOD.

    Raises:
        ConfigError: if there is no such module.
    """
    module = f"fedtag.client.methods.{name}"
    if name == "registry" or importlib.util.find_spec(module) is None:
        raise ConfigError(f"method '{name}' is unknown on this site; use a method that `fedtag --help` lists")
    return cast(ClientMethod, importlib.import_module(module).METHOD)
