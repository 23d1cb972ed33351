"""What the server of a simulated run saw: the run is done again, and read where its server reads."""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from torch import Tensor

from fedtag.audits.audited_sites import config_of
from fedtag.client.attacks.population import Population
from fedtag.client.attacks.transcript import MOST_EXCHANGES, Seen, Transcript
from fedtag.client.run.method import method_of as client_method_of
from fedtag.client.run.opened_site import opened_site
from fedtag.client.run.simulated import simulate_sites
from fedtag.client.run.site_run import SiteRun
from fedtag.client.site.site import Site
from fedtag.common.config import RunConfig
from fedtag.common.errors import RunError
from fedtag.common.wording.counts import plural
from fedtag.runs.grid import InProcessGrid
from fedtag.runs.progress import Progress
from fedtag.server.methods.assembly import method_of
from fedtag.server.protocol.context import ServerContext
from fedtag.server.protocol.phases import Phase
from fedtag.server.protocol.state import ServerState
from fedtag.server.run.rounds import Rounds
from fedtag.server.state.progress import SilentProgress
from fedtag.server.sums.outcome import Outcome
from fedtag.server.tracking.parent import PARENT
from fedtag.server.tracking.run_directory import SITES, RunDirectory, is_run

OWN = ("state", "secure", "keys", "letters", "evidence")
"""What a site keeps of runs, and makes anew when one is done again."""


TRANSCRIPT = "transcript"


class EnoughError(Exception):
    """All that is to be read was read."""


@dataclass(frozen=True)
class Replayed:
    """A run that was done again as far as it is read.

    Args:
        config: of the run.
        sites: as they stood then, in a folder that goes when the audit is over.
        seen: the first exchanges of the phases that its method has attacks on.
    """

    config: RunConfig
    sites: tuple[Site, ...]
    seen: tuple[Seen, ...]


def why_not(path: Path | None, own_sites: bool) -> str:
    """Why what a server saw cannot be read; empty where it can.

    Args:
        path: what is audited.
        own_sites: whether the audit is of the run's own folders.
    """
    if path is None or not is_run(path) or not list((path / SITES).glob("*/meta.json")):
        return (
            f"{path or 'no run'} has no folders of sites in {SITES}/, as only simulations have, so that it cannot be "
            "done again: name the directory of a simulated run"
        )
    if not own_sites:
        return "what a server saw is of the run's own sites: leave data= out"
    config = config_of(path)
    if not client_method_of(config).seen_phases:
        return f"there is no attack on what the server of method {config.method} saw: leave the target out"
    missing = config.clients - len(list((path / SITES).glob("*/meta.json")))
    if missing > 0:
        lost = plural(missing, "site")
        return f"{path} has lost the folders of {lost}, without which it cannot be done again: restore them"
    return ""


def transcripts_of(
    path: Path, device: str, cache: Path, people: Population, names: Sequence[str], progress: Progress
) -> tuple[Transcript, ...]:
    """Attacks on all that the server of a simulated run saw.

    Args:
        path: its directory, of which `why_not` has nothing to say.
        device: auto, cpu, cuda, ...
        cache: folder of encoded texts.
        people: the nodes of its sites.
        names: of the sites, in the order of these.
        progress: told how far it is.
    """
    with replayed(path, device, progress) as again:
        by_name = {site.name: replace(site, cache=cache) for site in again.sites}
        opened = [opened_site(by_name[name], again.config) for name in names]
        sites = [(one.data, one.context) for one in opened]
        return tuple(client_method_of(again.config).transcripts(again.seen, sites, people))


@contextmanager
def replayed(path: Path, device: str, progress: Progress) -> Iterator[Replayed]:
    """Do a simulated run again, on copies of its sites' folders, until enough was seen.

    Settings, data and seeds are those of the run. What comes from the operating system's generator is drawn anew: keys
    and masks, which sums do not show, and noise of differential privacy, which the attacker does not know.

    Args:
        path: its directory.
        device: auto, cpu, cuda, ...
        progress: told how far it is.

    Raises:
        RunError: it extends another run, whose rounds its own folder does not hold.
    """
    if config_of(path).parent.run:
        raise RunError(
            f"{path} extends another run and cannot be done again from its first round: audit the run that was begun "
            "anew"
        )
    with tempfile.TemporaryDirectory(prefix="fedtag-") as place:
        folder = Path(place)
        shutil.copytree(path / SITES, folder / SITES, ignore=shutil.ignore_patterns(*OWN))
        settings = config_of(path).to_flat()
        settings |= {
            "out": str(folder / "run"),
            "resume": False,
            "data.sites": str(folder / SITES),
            "device": device,
        }
        config = RunConfig.from_flat(settings)
        sites = simulate_sites(config, folder / SITES)
        reader = _Reader(config, client_method_of(config).seen_phases, progress)
        clients = [SiteRun(site, config) for site in sites]
        directory = RunDirectory(folder / "run")
        if config.parent.model:
            shutil.copytree(path / PARENT, directory.path / PARENT)
        rounds = Rounds(InProcessGrid(clients), config, directory, SilentProgress(), witness=reader.read)
        with suppress(EnoughError):
            rounds.run()
        yield Replayed(config, sites, tuple(reader.seen))


class _Reader:
    """Keeps what the server learned of contributions, up to so many exchanges a phase."""

    def __init__(self, config: RunConfig, phases: Sequence[str], progress: Progress) -> None:
        self.method = method_of(config)
        self.context = ServerContext(config)
        self.left = Counter(dict.fromkeys(phases, MOST_EXCHANGES))
        self.rounds = config.rounds
        self.work = progress.work("audit")
        self.seen: list[Seen] = []

    def read(self, round_number: int, phase: Phase, state: ServerState, outcome: Outcome) -> None:
        self.work("doing the run again", round_number, self.rounds)
        if self.left[phase.name] <= 0:
            return
        parts: Mapping[tuple[str, ...], Mapping[str, Tensor]] = {
            (client,): update
            for client, reply in outcome.replies.items()
            if (update := reply.content.section("update"))
        }
        told = self.method.instruct(state, phase, None, self.context)
        if not parts and len(outcome.opened) > 1:
            parts = outcome.opened
        values = {client: reply.content.values for client, reply in outcome.replies.items()}
        sizes = {client: one["sizes"]["train_nodes"] for client, one in values.items() if "sizes" in one}
        self.seen.append(Seen(phase.name, round_number, told, parts, outcome.step, sizes))
        self.left[phase.name] -= 1
        if not +self.left:
            self.work("doing the run again", self.rounds, self.rounds)
            raise EnoughError
