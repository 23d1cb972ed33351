"""Which nodes were in the data of which runs, by digests under a key that stays at the site."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
from jaxtyping import Bool
from numpy.typing import NDArray

from fedtag.client.site.site import Site
from fedtag.client.site.whole_file import write_whole
from fedtag.common.audit_log.facts import TakenPart
from fedtag.common.audit_log.lines import append_durably
from fedtag.common.secure.private_file import create_private, private_folder

FOLDER, RUNS, KEY_FILE = "register", "runs.jsonl", "register.key"
DIGEST_BYTES, RECORD_BYTES = 32, 33


class Register:
    """Of a site: one file for each state of its data, and a line for each run.

    Args:
        site: whose it is.
    """

    def __init__(self, site: Site) -> None:
        self.folder = site.workspace / FOLDER
        self._key_file = site.keys / KEY_FILE

    def enter(
        self, run: str, data: str, nodes: Sequence[str | int], trained: Bool[NDArray[np.bool_], " nodes"]
    ) -> None:
        """A run is about these nodes; told again, it is entered once.

        Args:
            run: its identifier.
            data: digest of the site's data, by which two runs share what is kept.
            nodes: identifiers.
            trained: which of them are trained on.
        """
        path = self._members(data)
        if not path.exists():
            records = (
                self.receipt(node) + (b"\1" if own else b"\0")
                for node, own in zip(nodes, trained.tolist(), strict=True)
            )
            write_whole(path, b"".join(sorted(records)))
        if (run, data) not in self._runs():
            runs = self.folder / RUNS
            cut = runs.exists() and not runs.read_bytes().endswith(b"\n")
            line = json.dumps({"run": run, "data": data}).encode()
            append_durably(runs, (b"\n" if cut else b"") + line + b"\n", durable=True)

    def receipt(self, node: str | int) -> bytes:
        """What stands for a node: HMAC-SHA-256 of its identifier."""
        return hmac.digest(self._key, str(node).encode("utf-8", "surrogatepass"), hashlib.sha256)

    def runs_of(self, node: str | int) -> tuple[TakenPart, ...]:
        """The runs whose data a node was in, oldest first."""
        wanted, parts = self.receipt(node), {}
        for run, data in self._runs():
            for record in self._records(data):
                if record[:DIGEST_BYTES] == wanted:
                    parts[run] = TakenPart(run=run, trained=record[DIGEST_BYTES:] == b"\1")
        return tuple(parts.values())

    def forget(self, nodes: Sequence[str | int]) -> None:
        """Remove nodes from all lists."""
        gone = {self.receipt(node) for node in nodes}
        for path in self.folder.glob("*.members"):
            kept = [one for one in self._records(path.stem) if one[:DIGEST_BYTES] not in gone]
            write_whole(path, b"".join(kept))

    def _runs(self) -> list[tuple[str, str]]:
        path = self.folder / RUNS
        lines = path.read_text(encoding="utf-8").split("\n")[:-1] if path.exists() else []
        entries = [json.loads(line) for line in lines if line.endswith("}")]
        return [(entry["run"], entry["data"]) for entry in entries]

    def _records(self, data: str) -> list[bytes]:
        path = self._members(data)
        content = path.read_bytes() if path.exists() else b""
        return [content[start : start + RECORD_BYTES] for start in range(0, len(content), RECORD_BYTES)]

    def _members(self, data: str) -> Path:
        return self.folder / f"{data}.members"

    @cached_property
    def _key(self) -> bytes:
        if not self._key_file.exists():
            private_folder(self._key_file.parent)
            create_private(self._key_file, os.urandom(DIGEST_BYTES))
        return self._key_file.read_bytes()
