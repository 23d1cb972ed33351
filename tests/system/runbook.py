"""The shell blocks of deploy/README.md by their titles, the remark in their first lines."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

RUNBOOK = Path(__file__).resolve().parents[2] / "deploy" / "README.md"
NEEDS_MACHINES = {
    "institution: service": "an init system, and users of its own",
    "compose: start": "a container engine",
    "kubernetes: start": "a cluster",
}
"""Blocks that no test carries out; what they name is tested in tests/unit/deploy/test_deployments.py."""
CARRIED_OUT = {
    "everywhere: environment": "tests/system/hosted.py",
    "server: start": "tests/system/hosted.py",
    "coordinator: keys": "tests/system/test_hosts.py",
    "server: register": "tests/system/test_hosts.py",
    "institution: start": "tests/system/test_hosts.py",
    "server: train": "tests/system/test_hosts.py",
    "server: status": "tests/system/test_hosts.py",
    "coordinator: renew": "tests/system/test_hosts.py",
    "server: revoke": "tests/system/test_hosts.py",
    "server: metrics": "tests/integration/test_watching.py",
    "kubernetes: secrets": "tests/unit/deploy/test_deployments.py",
}
"""The other blocks, and where they are carried out."""
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_TITLE = re.compile(r"# (\w+: \w+)\n")


def blocks() -> dict[str, str]:
    found: dict[str, str] = {}
    for language, text in _BLOCK.findall(RUNBOOK.read_text(encoding="utf-8")):
        title = _TITLE.match(text)
        assert language == "sh", text
        assert title, f"a block without a title: {text}"
        assert title[1] not in found, f"two blocks are called {title[1]}"
        found[title[1]] = text
    return found


def block(title: str, paths: Mapping[str, Path]) -> str:
    """A block with paths of this machine in place of those of a host."""
    return placed(blocks()[title], paths)


def placed(text: str, paths: Mapping[str, Path]) -> str:
    """The text with each of the paths replaced, in one go."""
    if not paths:
        return text
    pattern = "|".join(re.escape(path) for path in sorted(paths, key=len, reverse=True))
    return re.sub(pattern, lambda found: str(paths[found[0]]), text)
