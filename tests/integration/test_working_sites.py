"""Runs whose sites say that they work, through workers in threads; under masks nothing is computed or shown twice."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from flwr.app import Context, Message, RecordDict

from fedtag.client.app import at_the_site, client_app
from fedtag.client.run.site_run import SiteRun
from fedtag.client.site.site import Site
from fedtag.client.worker.handover import ask
from fedtag.client.worker.place import place_of
from fedtag.client.worker.service import Service, listening
from fedtag.common.config import RunConfig
from fedtag.common.config.run_config import without_foreign
from fedtag.common.wire.envelope import opened
from fedtag.common.wire.protocol import app_versions
from fedtag.common.wire.signs import sign_of
from fedtag.runs.grid import InProcessGrid
from fedtag.server.run.rounds import Rounds
from fedtag.server.state.progress import LineProgress
from fedtag.server.tracking.run_directory import RunDirectory

SETTINGS = {
    "method": "fedavg",
    "rounds": 2,
    "clients": 3,
    "device": "cpu",
    "model.hidden": 4,
    "train.epochs": 20,
    "exchange.poll": 0.002,
    "privacy.secure-aggregation": True,
}


class TwiceGrid(InProcessGrid):
    """Delivers every message that was answered once more."""

    def __init__(self, sites: Sequence[SiteRun]) -> None:
        super().__init__(sites)
        self.signs = 0
        self.pairs: list[tuple[Message, Message]] = []

    def push_messages(self, messages: Iterable[Message]) -> list[str]:
        keys = []
        for message in messages:
            (key,) = super().push_messages([message])
            first = self.replies[key]
            assert not first.has_error()
            if sign_of(opened(first.content)) is None:
                self.pairs.append((first, self._again(message)))
            else:
                self.signs += 1
            keys.append(key)
        return keys

    def _again(self, message: Message) -> Message:
        """The answer to a message that comes once more: whether it may leave again is decided anew, which is work."""
        for _ in range(10_000):
            (key,) = super().push_messages([message])
            if sign_of(opened(self.replies[key].content)) is None:
                return self.replies[key]
        raise AssertionError("the answer did not come again")


@contextmanager
def worker(workspace: Path) -> Iterator[None]:
    """A site's worker in a thread of this process."""
    place = place_of(workspace)
    place.prepare()
    with listening(place) as listener:
        thread = threading.Thread(target=Service(listener, idle=600.0, closing=600.0).run)
        thread.start()
        yield
        assert ask(workspace, "stop", 60.0)
        thread.join(60)
        assert not thread.is_alive()


@pytest.fixture
def federate(
    write_feature_folder: Callable[..., Path], tmp_path: Path
) -> Callable[[str], tuple[TwiceGrid, RunDirectory]]:
    folders = [write_feature_folder(tmp_path / f"site-{k}", nodes=24, seed=k) for k in range(3)]

    def run(patience: str) -> tuple[TwiceGrid, RunDirectory]:
        work = tmp_path / f"run-{patience}"
        config = RunConfig.from_flat(without_foreign({**SETTINGS, "out": str(work)}))
        sites = [Site(one.name, one, work / one.name, work / "cache", "cpu") for one in folders]
        grid = TwiceGrid([SiteRun(site, config) for site in sites])
        grid.app = client_app(at_the_site)
        for node, site in zip(list(grid.contexts), sites, strict=True):
            places = {
                "data": site.folder,
                "workspace": site.workspace,
                "cache": site.cache,
                "name": site.name,
            }
            told: dict[str, object] = {key: str(value) for key, value in places.items()}
            grid.contexts[node] = Context(
                run_id=1,
                node_id=node,
                node_config={**told, "device": "cpu", "worker-patience": patience},  # type: ignore[dict-item]
                state=RecordDict(),
                run_config={**app_versions(), **config.to_flat()},
            )
        directory = RunDirectory(work / "out")
        with contextlib.ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
            # The report has tests of its own and takes longer than a run of this size.
            patch.setattr("fedtag.server.run.conclusion.write_report", lambda runs, out: None)
            for site in sites:
                stack.enter_context(worker(site.workspace))
            Rounds(grid, config, directory, LineProgress()).run()
        return grid, directory

    return run


def test_under_masks_a_run_with_signs_is_that_without_to_the_bit(
    federate: Callable[[str], tuple[TwiceGrid, RunDirectory]],
) -> None:
    """Each answer comes twice with the same bytes, where a site without a worker refuses (test_repeated_messages)."""
    quiet, expected = federate("600")
    talking, found = federate("0.0001")
    assert quiet.signs == 0 < talking.signs
    for grid in (quiet, talking):
        assert len(grid.pairs) > 10
        for first, second in grid.pairs:
            assert not second.has_error()
            assert opened(first.content) == opened(second.content)
    assert len(quiet.pairs) == len(talking.pairs)
    model = "model.safetensors"
    assert (found.path / model).read_bytes() == (expected.path / model).read_bytes()
    signs = [row for row in found.read_disclosures() if row.kind == "working"]
    assert sum(row.count for row in signs) == talking.signs
    assert {(row.to_server, row.protected) for row in signs} == {(True, "none")}
    assert not [row for row in expected.read_disclosures() if row.kind == "working"]
