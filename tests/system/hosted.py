"""A running federation on hosts of its own, started by the commands of deploy/README.md."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from fedtag.deploy.certificates.folder import CertificateFolder
from fedtag.deploy.federation.processes import Program, ProgramGroup
from tests.system.images import environment_variables
from tests.system.namespaces import Hosts
from tests.system.runbook import block

REPOSITORY = Path(__file__).resolve().parents[2]
_KNOCK = """
import socket, sys
try:
    socket.create_connection((sys.argv[1], int(sys.argv[2])), 2).close()
    print("open")
except ConnectionRefusedError:
    print("refused")
except OSError:
    print("silent")
"""


@dataclass
class Federation:
    """Hosts with their files, and programs on them."""

    folder: Path
    hosts: Hosts
    group: ProgramGroup
    programs: dict[str, Program] = field(default_factory=dict)
    heard: str = ""
    training: dict[str, bytes] = field(default_factory=dict)

    @property
    def keys(self) -> CertificateFolder:
        return CertificateFolder(self.folder / "keys")

    def wire(self, institution: str) -> Path:
        """Every frame that went over an institution's wire."""
        return self.folder / f"{institution}.raw"

    def paths(self, host: str) -> dict[str, Path]:
        """Where the runbook's places of a host are on this machine."""
        own = self.keys.server if host == "server" else self.keys.institution(host)
        return {
            "/etc/fedtag": own,
            "/var/lib/fedtag": self.folder / host / "state",
            "/srv/fedtag/graph": self.folder / "graphs" / host,
            "~/.flwr": self.folder / host / "flwr",
        }

    def environment(self, host: str) -> dict[str, str]:
        side = "server" if host == "server" else "client"
        return {
            **environment_variables(side),
            "PATH": os.pathsep.join([str(self.folder / side / "bin"), "/usr/sbin:/usr/bin:/sbin:/bin"]),
            "HOME": str(self.folder / host),
            "FLWR_HOME": str(self.folder / host / "flwr"),
            "COLUMNS": "500",
            "NO_COLOR": "1",
            "OMP_NUM_THREADS": "1",
        }

    def start(self, host: str, name: str, *command: str) -> Program:
        program = self.group.launch(name, self.hosts.inside(host, *command), self.environment(host))
        self.programs[name] = program
        return program

    def ask(self, host: str, *command: str) -> str:
        return self.hosts.command(host, *command, environment=self.environment(host))

    def script(self, host: str, title: str, before: str = "") -> tuple[str, ...]:
        """A block of the runbook on a host, as a person types it."""
        place = self.folder if title.startswith("coordinator") else self.folder / "checkout"
        lines = [f"cd {place}", before, block("everywhere: environment", {}), block(title, self.paths(host))]
        return "bash", "-ec", "\n".join(lines)

    def shell(self, host: str, title: str, before: str = "") -> str:
        return self.ask(host, *self.script(host, title, before))

    def health(self, host: str, *arguments: str) -> str:
        return self.ask(host, "python", str(REPOSITORY / "deploy" / "health.py"), *arguments)

    def start_superlink(self) -> None:
        superlink = self.start("server", "superlink", *self.script("server", "server: start"))
        wait_for(lambda: self.knock("server", "127.0.0.1", 8000) == "open", superlink)

    def knock(self, host: str, address: str, port: int) -> str:
        """What a connection meets there, as seen from a host: `open`, `refused`, or `silent` if nothing comes back."""
        words = [sys.executable, "-c", _KNOCK, address, str(port)]
        return self.hosts.command(host, *words).strip()

    def nodes(self) -> list[dict[str, str]]:
        """What the SuperLink says of all registered nodes."""
        answer = self.ask("server", "flwr", "supernode", "list", "fedtag", "--format", "json")
        found: list[dict[str, str]] = json.loads(answer[answer.index("{") :])["nodes"]
        return found


def wait_for(condition: Callable[[], bool], program: Program, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, program.log_tail(40)
        time.sleep(0.2)


def said(program: Program, text: str) -> Callable[[], bool]:
    return lambda: text in program.log_tail(1000)
