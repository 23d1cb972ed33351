"""The two services: a link with its SuperLink, a site with its SuperNode, each with the executor beside it."""

from __future__ import annotations

import logging
import secrets
import sys
import tempfile
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedtag.client.site.audit import site_log
from fedtag.client.site.site import site_from_node_config
from fedtag.client.worker.handover import ask
from fedtag.common.errors import ConfigError
from fedtag.common.logs import start_log
from fedtag.deploy.federation.control import flower_environment
from fedtag.deploy.federation.ports import LOOPBACK
from fedtag.deploy.serving.page import Page, served, state_of
from fedtag.deploy.serving.supervisor import Part, Supervisor, ending_held

LOGGER = logging.getLogger("fedtag")
STOP_SECONDS = 2.0
SUPERNODE_PAUSE = 5.0
"""The SuperLink takes a SuperNode that ended in order back after 5 s, not earlier."""


@dataclass(frozen=True)
class Ports:
    """Where a service listens on loopback.

    Args:
        runtime: Flower's own HTTP port.
        watch: of the pages about the service.
    """

    runtime: int
    watch: int


@dataclass(frozen=True)
class LinkService:
    """A coordinator's service.

    Args:
        fleet: HOST:PORT where institutions dial.
        ports: on loopback.
        keys: folder of ca.crt, server.crt and server.key; None in clear.
        key: the private key, where it lies elsewhere.
        database: file of the SuperLink's state; None keeps it in memory.
        plain: let Flower's own executor carry out runs.
    """

    fleet: str
    ports: Ports
    keys: Path | None
    key: Path | None = None
    database: Path | None = None
    plain: bool = False

    def parts(self, secret: Path) -> list[Part]:
        """The programs, given a file with a secret between them."""
        runtime = f"{LOOPBACK}:{self.ports.runtime}"
        command = ["flower-superlink"] if self.plain else _module("superlink")
        command += ["--host", LOOPBACK, "--port", str(self.ports.runtime), "--fleet-api-address", self.fleet]
        if self.keys is None:
            command += ["--insecure"]
        else:
            files = {"ca-certfile": "ca.crt", "certfile": "server.crt", "keyfile": "server.key"}
            named = {option: self.keys / file for option, file in files.items()}
            if self.key is not None:
                named["keyfile"] = self.key
            for option, path in named.items():
                command += [f"--ssl-{option}", str(_present(path))]
            command += ["--enable-supernode-auth"]
        if self.database is not None:
            command += ["--database", str(self.database)]
        environment = flower_environment({})
        if self.plain:
            return [Part("SuperLink", tuple(command), environment, beats=False)]
        command += ["--isolation", "process", "--superexec-auth-secret-file", str(secret)]
        executor = _module("service", "link", "--runtime", runtime, "--secret", str(secret))
        if self.keys is not None:
            executor += ["--authority", str(self.keys / "ca.crt")]
        return [
            Part("SuperLink", tuple(command), environment, beats=False),
            Part("executor", tuple(executor), environment),
        ]

    def serve(self) -> None:
        """Run until SIGTERM.

        Raises:
            ConfigError: a key is missing.
            DeploymentError: a port is taken, or a program cannot be started.
        """
        _serve(self, Page("link", "", self.ports.watch))


@dataclass(frozen=True)
class SiteService:
    """An institution's service.

    Args:
        superlink: HOST:PORT of the coordinator.
        node_file: TOML: what Flower calls --node-config, the site's folders and name.
        ports: on loopback.
        keys: folder of ca.crt and node.key; None in clear.
        key: the private key, where it lies elsewhere.
        plain: let Flower's own executor carry out messages, which runs what the server sends.
    """

    superlink: str
    node_file: Path
    ports: Ports
    keys: Path | None
    key: Path | None = None
    plain: bool = False

    def node(self) -> Mapping[str, Any]:
        """The site's settings.

        Raises:
            ConfigError: the file is missing or no TOML.
        """
        try:
            return tomllib.loads(self.node_file.read_text(encoding="utf-8"))
        except OSError as error:
            raise ConfigError(
                f'{self.node_file} cannot be read: {error.strerror}; it holds, as TOML, data = "/path/to/folder" '
                "and, if they are others than usual, name, workspace, cache, device, roster, models and policy"
            ) from error
        except ValueError as error:
            raise ConfigError(f"{self.node_file} is no TOML: {error}") from error

    def parts(self, secret: Path) -> list[Part]:
        """The programs, given a file with a secret between them."""
        runtime = f"{LOOPBACK}:{self.ports.runtime}"
        options = ["--superlink", self.superlink, "--host", LOOPBACK, "--port", str(self.ports.runtime)]
        options += ["--node-config", str(self.node_file)]
        if self.keys is None:
            options += ["--insecure"]
        else:
            key = self.keys / "node.key" if self.key is None else self.key
            options += ["--root-certificates", str(_present(self.keys / "ca.crt"))]
            options += ["--auth-supernode-private-key", str(_present(key))]
        environment = flower_environment({})
        if self.plain:
            command = ("flower-supernode", *options)
            return [Part("SuperNode", command, environment, beats=False, pause=SUPERNODE_PAUSE)]
        options += ["--isolation", "process", "--superexec-auth-secret-file", str(secret)]
        name = site_from_node_config(self.node(), "auto").name
        executor = _module("service", "site", "--runtime", runtime, "--secret", str(secret), "--name", name)
        return [
            Part(
                "SuperNode",
                tuple(_module("supernode", *options)),
                environment,
                pause=SUPERNODE_PAUSE,
                passes_on=True,
            ),
            Part("executor", tuple(executor), environment),
        ]

    def serve(self) -> None:
        """Run until SIGTERM; the site's worker ends with it.

        Raises:
            ConfigError: the site's settings or its policy are wrong, or a key is missing.
            DeploymentError: a port is taken, or a program cannot be started.
        """
        site = site_from_node_config(self.node(), "auto")
        if site.policy is not None:
            # Rules take a moment to load, and no other service needs them.
            from fedtag.client.policy.rules import read_policy

            read_policy(site.policy)
            if self.plain:
                raise ConfigError(
                    f"{site.name} has a policy, which code that a server sends need not keep: leave --plain-executors "
                    f"out, or policy out of {self.node_file}"
                )
        if self.plain:
            LOGGER.warning(
                "--plain-executors: whoever controls the SuperLink can run code at %s, beside its data",
                site.name,
            )
        try:
            _serve(self, Page("site", site.name, self.ports.watch))
        finally:
            ask(site.workspace, "stop", STOP_SECONDS)
            if site_log(site).has_lines:
                site_log(site).seal()


def _serve(service: LinkService | SiteService, page: Page) -> None:
    start_log()
    with tempfile.TemporaryDirectory(prefix="fedtag-") as private:
        secret = Path(private) / "secret"
        secret.write_bytes(secrets.token_bytes(32))
        supervisor: Supervisor

        def show() -> None:
            page.show([state_of(one) for one in supervisor.watched])

        supervisor = Supervisor(service.parts(secret), show)
        with ending_held(), served(page):
            supervisor.run()


def _module(name: str, *arguments: str) -> list[str]:
    # -P: the working directory lends no modules.
    return [sys.executable, "-P", "-m", f"fedtag.deploy.executor.{name}", *arguments]


def _present(path: Path) -> Path:
    if not path.is_file():
        raise ConfigError(f"there is no {path}: fedtag certificates makes it, and --keys names its folder")
    return path
