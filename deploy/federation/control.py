"""Flower's command line, driven from Python: submit a run, follow its log, learn how it ended."""

from __future__ import annotations

import json
import os
import re
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import tomli_w

from fedtag.common.errors import DeploymentError
from fedtag.deploy.federation.processes import Program

_CONNECTION = "fedtag"
_STARTED = re.compile(r"Successfully started run (\d+)")
_REGISTERED = re.compile(r"SuperNode (\d+) registered successfully")
_BOX = "╭╮╰╯─│ "
EXEMPT = ("NO_PROXY", "no_proxy", "no_grpc_proxy")
"""Variables that name what is reached without a proxy."""
LOOPBACK_NAMES = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class RunOutcome:
    """How a run ended: Flower's run id, its status (`finished:completed`), and the reason of a failure."""

    run_id: str
    status: str
    details: str

    @property
    def succeeded(self) -> bool:
        return self.status == "finished:completed"


def flower_environment(extra: Mapping[str, str]) -> dict[str, str]:
    """The environment of every Flower process: this one's, private, offline and prompt.

    The folder of this Python's scripts leads PATH, because Flower finds its own programs there, even
    where the virtual environment is not activated. Loopback never goes through a proxy.
    """
    scripts = str(Path(sys.executable).parent)
    return {
        **beside_proxies(os.environ),
        "PATH": os.pathsep.join([scripts, os.environ.get("PATH", os.defpath)]),
        "PYTHONUNBUFFERED": "1",
        "FLWR_TELEMETRY_ENABLED": "0",
        "FLWR_DISABLE_UPDATE_CHECK": "1",
        "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
        "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.05",
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
        **extra,
    }


def beside_proxies(environment: Mapping[str, str]) -> dict[str, str]:
    """An environment in which no proxy stands before loopback.

    gRPC asks its own variable first for what is exempt, and others none but theirs. httpx, through which Flower's
    programs speak on loopback, does not even start with a SOCKS proxy that it lacks the package for; it, and gRPC,
    could not use that one anywhere.
    """
    own = [value for name in EXEMPT for value in environment.get(name, "").split(",") if value.strip()]
    exempt = ",".join(dict.fromkeys([*own, *LOOPBACK_NAMES]))
    strange = {
        name
        for name, value in environment.items()
        if name.lower().endswith("_proxy")
        and value.lower().startswith("socks")
        and find_spec("socksio") is None
    }
    kept = {name: value for name, value in environment.items() if name not in strange}
    return {**kept, **dict.fromkeys(EXEMPT, exempt)}


def flower_answer(arguments: Sequence[str], environment: Mapping[str, str], folder: Path) -> str:
    """All that a command of Flower's prints.

    Args:
        arguments: after `flwr`.
        environment: what `flower_environment` gives, with FLWR_HOME where it is not the user's own.
        folder: the working directory.
    """
    program = Program(f"flwr {arguments[0]}", ["flwr", *arguments], environment, folder)
    try:
        return "\n".join(program.output())
    finally:
        program.kill()


class Control:
    """Commands to one SuperLink on loopback.

    Args:
        app: the folder of the Flower app, with its pyproject.toml.
        home: a private FLWR_HOME for the commands.
        port: the SuperLink's HTTP port.
        environment: what `flower_environment` gives.
        options: further arguments of `flwr run`.
        authority: the certificate that vouches for the SuperLink; None where it speaks in clear.
    """

    def __init__(
        self,
        app: Path,
        home: Path,
        port: int,
        environment: Mapping[str, str],
        options: Sequence[str] = (),
        authority: Path | None = None,
    ) -> None:
        self._app = app.resolve()
        self._home = home
        # Messages of Flower's command line are broken at the width of the terminal.
        self._environment = {**environment, "FLWR_HOME": str(home), "COLUMNS": "1000", "NO_COLOR": "1"}
        self._options = tuple(options)
        trust = {"insecure": True} if authority is None else {"root-certificates": str(authority.resolve())}
        connection = {"address": f"127.0.0.1:{port}", **trust}
        settings = {"superlink": {"default": _CONNECTION, _CONNECTION: connection}}
        (home / "config.toml").write_text(tomli_w.dumps(settings), encoding="utf-8")

    def run(
        self, run_config: Mapping[str, bool | int | float | str], on_line: Callable[[str], None]
    ) -> RunOutcome:
        """Submit a run and follow it to its end.

        Args:
            run_config: values for dotted keys that have a default in the app's `[tool.flwr.app.config]`.
            on_line: gets each line of the log, without colours, while the run goes on.

        Returns:
            How the run ended, a failed run included.

        Raises:
            DeploymentError: the run was refused, or the SuperLink went away.
        """
        self._check_keys(run_config)
        path = self._home / "run-config.toml"
        path.write_text(tomli_w.dumps(dict(run_config)), encoding="utf-8")
        command = ["run", str(self._app), _CONNECTION, "--stream", "-c", str(path), *self._options]
        run_id: str | None = None
        heard: list[str] = []
        program = self._start(command)
        try:
            for line in program.output():
                if run_id is not None:
                    on_line(line)
                elif found := _STARTED.search(line):
                    run_id = found[1]
                else:
                    heard.append(line)
            program.close()
        except BaseException:
            program.kill()
            if run_id is not None:
                self.stop(run_id)
            raise
        if run_id is None:
            raise DeploymentError(f"Flower refused the run: {plain(heard)}.")
        outcome = self.outcome(run_id)
        if not outcome.status.startswith("finished"):
            self.stop(run_id)
            raise DeploymentError(
                f"the log of run {run_id} broke off while the run was {outcome.status}, so it was stopped: "
                "see the SuperLink's log."
            )
        return outcome

    def outcome(self, run_id: str) -> RunOutcome:
        """The state of a run; `flwr run` itself reports success even for a run that failed.

        Raises:
            DeploymentError: the SuperLink does not answer.
        """
        text = self._answer(["list", _CONNECTION, "--run-id", run_id, "--format", "json"])
        try:
            (run,) = json.loads(text)["runs"]
            return RunOutcome(run["run-id"], run["status"], run["status-details"])
        except (ValueError, KeyError, TypeError) as error:
            raise DeploymentError(
                f"the state of run {run_id} is unknown, the SuperLink may have ended: {plain([text])}; "
                "see its log."
            ) from error

    def stop(self, run_id: str) -> None:
        """Ask the SuperLink to end a run; a run that has ended stays as it is."""
        self._answer(["stop", run_id, _CONNECTION])

    def register(self, public_key: Path) -> str:
        """Let the SuperNode with this key take part, on a SuperLink that asks nodes for their keys.

        Args:
            public_key: a file as `ssh-keygen` writes it.

        Returns:
            its node id.

        Raises:
            DeploymentError: the key was refused, or the SuperLink does not answer.
        """
        text = self._answer(["supernode", "register", str(public_key), _CONNECTION])
        if found := _REGISTERED.search(text):
            return found[1]
        raise DeploymentError(f"Flower refused the key {public_key}: {plain([text])}.")

    def _start(self, arguments: Sequence[str]) -> Program:
        return Program(f"flwr {arguments[0]}", ["flwr", *arguments], self._environment, self._home)

    def _answer(self, arguments: Sequence[str]) -> str:
        return flower_answer(arguments, self._environment, self._home)

    def _check_keys(self, run_config: Mapping[str, bool | int | float | str]) -> None:
        """Flower refuses a key without a default, but does not say which."""
        path = self._app / "pyproject.toml"
        try:
            project = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise DeploymentError(f"{path} is not a Flower app's pyproject.toml: {error}") from error
        app = project.get("tool", {}).get("flwr", {}).get("app", {})
        unknown = sorted(set(run_config) - set(_dotted(app.get("config", {}))))
        if unknown:
            raise DeploymentError(
                f"run settings {', '.join(unknown)} have no default in {path}: "
                "add them to [tool.flwr.app.config] or correct the names."
            )


def _dotted(table: Mapping[str, object], prefix: str = "") -> list[str]:
    keys: list[str] = []
    for name, value in table.items():
        keys += _dotted(value, f"{prefix}{name}.") if isinstance(value, Mapping) else [prefix + name]
    return keys


def plain(lines: Sequence[str]) -> str:
    """Flower's framed error message as one line."""
    stripped = (line.strip(_BOX) for line in "\n".join(lines).splitlines())
    return " ".join(line for line in stripped if line and line != "Error").rstrip(".") or "no reason given"
