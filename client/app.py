"""The Flower ClientApp: messages in, messages out; everything else is imported when a message comes.

At an institution a message is handed to the site's worker, which has torch, data and models ready. Without one,
and in simulations, it is carried out in this process.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from flwr.app import Context, Error, Message, RecordDict
from flwr.clientapp import ClientApp

if TYPE_CHECKING:
    from fedtag.client.run.site_run import SiteRun

LOGGER = logging.getLogger("fedtag")

OpenSite = Callable[[Context], "SiteRun"]
CarryOut = Callable[[RecordDict, Context], RecordDict]


def open_site(context: Context) -> SiteRun:
    """The site that this SuperNode serves, in the run: its own folder, or its part of a simulation."""
    from fedtag.client.run.simulated import simulated_site
    from fedtag.client.run.site_run import SiteRun
    from fedtag.client.site.site import site_from_node_config
    from fedtag.common.config import RunConfig
    from fedtag.common.wire.protocol import app_settings

    settings, _ = app_settings(context.run_config)
    config = RunConfig.from_flat(settings)
    if "data" in context.node_config:
        return SiteRun(site_from_node_config(context.node_config, config.device), config)
    return SiteRun(simulated_site(context.node_config, config), config)


def in_this_process(opener: OpenSite) -> CarryOut:
    """Carries messages out by the sites that `opener` gives."""

    def carry_out(content: RecordDict, context: Context) -> RecordDict:
        from fedtag.client.run.agreement import lacking_explained
        from fedtag.common.wire.codec import decode_instruction, encode
        from fedtag.common.wire.envelope import opened, sealed
        from fedtag.common.wire.signs import collect_of, lost, serialised_sign

        # First of all the message says whether this release understands it.
        asked = collect_of(opened(content))
        if asked is not None:
            # This process does all that it takes on before it answers: what is asked for was another one's.
            return sealed(serialised_sign(lost(asked)))
        instruction = decode_instruction(content)
        with lacking_explained(instruction):
            site = opener(context)
        return encode(site.respond(instruction))

    return carry_out


def at_the_site(content: RecordDict, context: Context) -> RecordDict:
    """Have the site's worker carry out a message; do so here if there is none, or this is a simulation."""
    from fedtag.client.worker.errors import WorkerUnavailableError
    from fedtag.client.worker.settings import worker_settings
    from fedtag.common.logs import Event, fields, start_log

    start_log()
    settings = worker_settings(context.node_config)
    if settings.on and "data" in context.node_config:
        from fedtag.client.worker.handover import hand_over
        from fedtag.common.wire.envelope import opened, sealed
        from fedtag.common.wire.protocol import app_settings

        try:
            record, (run_config, _) = opened(content), app_settings(context.run_config)
            return sealed(hand_over(record, settings, context.node_config, run_config))
        except WorkerUnavailableError as error:
            event = fields(Event.WITHOUT_WORKER, error=type(error).__name__)
            LOGGER.warning("%s; the message is carried out without a worker", error, extra=event)
    return in_this_process(open_site)(content, context)


def client_app(carry_out: CarryOut) -> ClientApp:
    """A ClientApp that answers each message with what `carry_out` returns, or with an error."""
    app = ClientApp()

    def answer(message: Message, context: Context) -> Message:
        from fedtag.client.run.refusal import CLIENT_EXCEPTION, reason, signed
        from fedtag.client.worker.errors import CarriedOutError
        from fedtag.common.errors import FedtagError
        from fedtag.common.logs import Event, fields

        try:
            content = carry_out(message.content, context)
        except Exception as error:
            # An error's text may quote the institution's data: it stays in the local log.
            refusal = error.reason if isinstance(error, CarriedOutError) else reason(error)
            site = {"client": context.node_config["name"]} if "name" in context.node_config else {}
            event = fields(Event.INSTRUCTION_FAILED, error=refusal.split(":")[0].split(";")[0], **site)
            LOGGER.error("%s", error, exc_info=not isinstance(error, FedtagError), extra=event)
            return Message(Error(CLIENT_EXCEPTION, signed(refusal, context.node_config)), reply_to=message)
        return Message(content, reply_to=message)

    app.train()(answer)
    app.evaluate()(answer)
    app.query()(answer)
    return app


app = client_app(at_the_site)
