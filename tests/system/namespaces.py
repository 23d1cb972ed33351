"""Hosts of a federation as network namespaces: a server, and institutions that each have a wire to it alone."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

SERVER_ADDRESS = "10.77.0.1"
HOST_FILES = Path("/etc/netns")


def why_not() -> str | None:
    """Why this machine cannot make network namespaces; None where it can."""
    if shutil.which("ip") is None:
        return "there is no ip (iproute2)"
    if os.geteuid() != 0:
        return "network namespaces need root"
    name = f"fedtag-{secrets.token_hex(3)}"
    done = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
    if done.returncode:
        return f"the kernel refuses network namespaces: {done.stderr.strip()}"
    subprocess.run(["ip", "netns", "delete", name], check=True)
    return None


class Hosts:
    """One namespace for the server, whose address is the same for all, and one for each institution.

    The server forwards nothing, so that no institution reaches another.

    Args:
        institutions: their names.
        server: the name under which they know the server.
    """

    def __init__(self, institutions: Sequence[str], server: str) -> None:
        self._prefix = f"ft{secrets.token_hex(3)}"
        self._institutions = tuple(institutions)
        self._server = server

    def __enter__(self) -> Self:
        try:
            self._make("server")
            self.command("server", "ip", "address", "add", f"{SERVER_ADDRESS}/32", "dev", "lo")
            self.command("server", "sysctl", "-qw", "net.ipv4.ip_forward=0")
            for number, name in enumerate(self._institutions, start=1):
                self._make(name)
                outer, inner = f"{self._prefix}s{number}", f"{self._prefix}c{number}"
                _ip(
                    "link",
                    "add",
                    outer,
                    "netns",
                    self.namespace("server"),
                    "type",
                    "veth",
                    "peer",
                    "name",
                    inner,
                )
                _ip("link", "set", inner, "netns", self.namespace(name))
                self.command(name, "ip", "link", "set", inner, "name", "wire")
                for host, device, end in (("server", outer, 1), (name, "wire", 2)):
                    self.command(host, "ip", "address", "add", f"10.77.{number}.{end}/30", "dev", device)
                    self.command(host, "ip", "link", "set", device, "up")
                self.command(name, "ip", "route", "add", "default", "via", f"10.77.{number}.1")
                self.knows(name, SERVER_ADDRESS)
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._remove()

    def namespace(self, host: str) -> str:
        return f"{self._prefix}-{host}"

    def address(self, institution: str) -> str:
        return f"10.77.{self._institutions.index(institution) + 1}.2"

    def knows(self, institution: str, address: str) -> None:
        """The institution's own hosts file: under which address it finds the server."""
        folder = HOST_FILES / self.namespace(institution)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "hosts").write_text(f"127.0.0.1 localhost\n{address} {self._server}\n", encoding="utf-8")

    def inside(self, host: str, *command: str) -> list[str]:
        """The command as it is started on a host."""
        return ["ip", "netns", "exec", self.namespace(host), *command]

    def command(self, host: str, *command: str, environment: Mapping[str, str] | None = None) -> str:
        """Run a command on a host; its output, or an error with it."""
        done = subprocess.run(
            self.inside(host, *command), capture_output=True, text=True, env=environment, check=False
        )
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def _make(self, host: str) -> None:
        _ip("netns", "add", self.namespace(host))
        self.command(host, "ip", "link", "set", "lo", "up")

    def _remove(self) -> None:
        for host in ("server", *self._institutions):
            subprocess.run(["ip", "netns", "delete", self.namespace(host)], capture_output=True, check=False)
            shutil.rmtree(HOST_FILES / self.namespace(host), ignore_errors=True)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)
