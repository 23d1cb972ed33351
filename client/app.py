"""The Flower ClientApp: messages in, messages out; everything else is imported when a message comes."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from flwr.app import Context, Error, Message
from flwr.clientapp import ClientApp

if TYPE_CHECKING:
    from client.session import Session

LOGGER = logging.getLogger("fedtag")
CLIENT_EXCEPTION = 2

OpenSession = Callable[[Context], "Session"]


def open_session(context: Context) -> Session:
    """The session of the site that this SuperNode serves: its own folder, or its part of a simulation."""
    from client.session import Session
    from client.simulated import simulated_site
    from client.site import site_from_node_config
    from common.config import RunConfig

    config = RunConfig.from_flat(context.run_config)
    if "data" in context.node_config:
        return Session(site_from_node_config(context.node_config, config.device), config)
    return Session(simulated_site(context.node_config, config), config)


def client_app(opener: OpenSession) -> ClientApp:
    """A ClientApp over the sessions that `opener` gives."""
    app = ClientApp()

    def answer(message: Message, context: Context) -> Message:
        from common.errors import FedtagError, ProtocolError
        from common.wire.codec import decode_instruction, encode

        try:
            content = encode(opener(context).respond(decode_instruction(message.content)))
        except Exception as error:
            # An error's text may quote the institution's data: it stays in the local log.
            LOGGER.error("%s", error, exc_info=not isinstance(error, FedtagError))
            told = f": {error}" if isinstance(error, ProtocolError) else "; the site's own log says more"
            reason = f"{type(error).__name__}{told}"
            return Message(Error(CLIENT_EXCEPTION, reason), reply_to=message)
        return Message(content, reply_to=message)

    app.train()(answer)
    app.evaluate()(answer)
    app.query()(answer)
    return app


app = client_app(open_session)
