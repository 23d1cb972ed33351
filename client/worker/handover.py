"""Handing a message to the site's worker, which is started where there is none or another one.

Nothing here imports torch: the process that Flower starts for each message has little else to do.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from fedtag.client.site.site import site_from_node_config
from fedtag.client.worker.errors import CarriedOutError, WorkerLostError, WorkerUnavailableError
from fedtag.client.worker.frames import Frame, receive, record_frame, record_of, send
from fedtag.client.worker.identity import Identity, settings_digest
from fedtag.client.worker.place import Place, check_peer, place_of
from fedtag.client.worker.settings import WorkerSettings
from fedtag.common.errors import WireError
from fedtag.common.secure.lock import locked
from fedtag.common.wire.serialised import Serialised

START_SECONDS = 60.0
"""Until a worker that was started listens, or another one that starts it has finished."""
WELCOME_SECONDS = 60.0
"""Until a worker says what it is, however busy it is."""
QUEUE_SECONDS = 600.0
"""Until a worker that is to stop has finished what it carries out."""
ATTEMPTS = 2


def hand_over(
    record: Serialised, settings: WorkerSettings, node: Mapping[str, Any], run_config: Mapping[str, Any]
) -> Serialised:
    """Let the site's worker carry out a message.

    Args:
        record: the instruction, or a request for the answer to one that is in work.
        settings: of the site's worker.
        node: the site's --node-config.
        run_config: of the run.

    Returns:
        The reply; what takes longer than the site's patience stays in work, and this is a sign that says so.

    Raises:
        WorkerUnavailableError: no worker took the message.
        WorkerLostError: two workers ended over it.
        CarriedOutError: it was carried out and failed.
        ConfigError: the site's --node-config is wrong.
    """
    site = site_from_node_config(node, str(run_config.get("device", "auto")))
    place, own = place_of(site.workspace), Identity.own()
    place.prepare()
    hello = Frame("hello", {**vars(own), "settings": settings_digest(run_config, node)})
    whole = {
        "node_config": dict(node),
        "run_config": dict(run_config),
        "idle": settings.idle,
        "patience": settings.patience,
    }
    for _ in range(ATTEMPTS):
        with closing(_connected(place, site.workspace, hello, settings.idle)) as connection:
            try:
                send(connection, record_frame("instruct", record, whole))
                # The worker keeps the time; one that ends closes the connection.
                connection.settimeout(None)
                answer = receive(connection)
            except OSError:
                continue
        if answer.kind == "error":
            raise CarriedOutError(answer.text("text"), answer.text("reason"))
        return record_of(answer)
    raise WorkerLostError(
        f"{ATTEMPTS} workers ended while they carried out the message: see {place.log}, and the memory that is left"
    )


def ask(workspace: Path, request: str, seconds: float) -> bool:
    """Ask a site's worker to `stop`, or to `release` memory; what it carries out is finished first.

    Returns:
        False if there is none, or it does not answer in time.
    """
    try:
        found = _greeted(place_of(workspace), Frame("hello", {}), seconds)
        if found is None:
            return False
        with closing(found[0]) as connection:
            _request(connection, request)
    except (OSError, WireError, WorkerUnavailableError):
        return False
    return True


def _connected(place: Place, workspace: Path, hello: Frame, idle: float) -> socket.socket:
    """A connection to a worker that runs the code of this process."""
    own = Identity.told(hello)
    found = _greeted(place, hello, WELCOME_SECONDS)
    if found is not None and found[1] == own:
        return found[0]
    if found is not None:
        found[0].close()
    with locked(place.starting, START_SECONDS, WorkerUnavailableError):
        # Meanwhile another process may have started one.
        found = _greeted(place, hello, WELCOME_SECONDS)
        if found is not None and found[1] == own:
            return found[0]
        if found is not None:
            with closing(found[0]) as connection:
                _stop(connection, place)
        _start(place, workspace, idle)
        found = _greeted(place, hello, START_SECONDS)
    if found is None:
        raise WorkerUnavailableError(f"the worker at {place.socket} ended at once: see {place.log}")
    if found[1] != own:
        found[0].close()
        raise WorkerUnavailableError(
            f"the worker at {place.socket} runs fedtag {found[1].version} with other code than is installed here: "
            "restart it"
        )
    return found[0]


def _greeted(place: Place, hello: Frame, seconds: float) -> tuple[socket.socket, Identity] | None:
    """A connection to the worker and what it runs; None if there is no worker."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(seconds)
    try:
        connection.connect(str(place.socket))
        check_peer(connection, os.getuid())
        send(connection, hello)
        welcome = receive(connection)
        return connection, Identity.told(welcome)
    except TimeoutError as error:
        connection.close()
        raise WorkerUnavailableError(
            f"the worker at {place.socket} is busy for over {seconds:g} s"
        ) from error
    except (FileNotFoundError, ConnectionError):
        connection.close()
        return None
    except (OSError, WireError) as error:
        connection.close()
        raise WorkerUnavailableError(f"{place.socket} is no worker's: {error}") from error


def _stop(connection: socket.socket, place: Place) -> None:
    """End a worker of other code, which finishes first what it carries out."""
    connection.settimeout(QUEUE_SECONDS)
    try:
        _request(connection, "stop")
    except TimeoutError as error:
        raise WorkerUnavailableError(
            f"the worker at {place.socket} has other code and is busy for over {QUEUE_SECONDS:g} s"
        ) from error
    except ConnectionError:
        # It is gone already.
        pass


def _request(connection: socket.socket, kind: str) -> None:
    send(connection, Frame(kind))
    receive(connection)


def _start(place: Place, workspace: Path, idle: float) -> None:
    """Start a worker from the installed packages; it listens when this returns."""
    # -P: the working directory, to which the site's paths may be relative, lends no modules.
    command = [sys.executable, "-P", "-m", "fedtag.client.worker.service", str(workspace), str(idle)]
    log = place.open_log()
    try:
        finished = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            timeout=START_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise WorkerUnavailableError(f"the worker did not start: {error}") from error
    finally:
        os.close(log)
    if finished.returncode:
        raise WorkerUnavailableError(f"the worker did not start: see {place.log}")
