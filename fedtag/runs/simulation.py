"""A run on one machine: its folder, its simulated sites, and its rounds in this process."""

from __future__ import annotations

import logging
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import torch

from fedtag.client.data.text_graph import TextGraph
from fedtag.client.run.opened_site import site_data
from fedtag.client.run.refusal import ELSEWHERE
from fedtag.client.run.simulated import simulate_sites
from fedtag.client.run.site_run import SiteRun
from fedtag.client.site.site import Site
from fedtag.client.text.weights import BUNDLED
from fedtag.common.config import RunConfig, flatten
from fedtag.common.config.places import MODELS, SEPARATOR, SOURCE, absolute_places
from fedtag.common.errors import ConfigError, QuorumError, RunError
from fedtag.common.logs import field
from fedtag.common.settings.lists import listed
from fedtag.runs.grid import InProcessGrid
from fedtag.runs.own_code import check_own_code, keep_own_code
from fedtag.runs.progress import Progress
from fedtag.runs.stacked.sums import stacked
from fedtag.server.methods.assembly import method_of
from fedtag.server.methods.warm_start import begun
from fedtag.server.protocol.context import ServerContext
from fedtag.server.protocol.state import Agreement
from fedtag.server.run.extension import extend
from fedtag.server.run.rounds import Rounds, planned
from fedtag.server.tracking.durable_files import read_object
from fedtag.server.tracking.meters import exposed_meters
from fedtag.server.tracking.parent import keep_parent
from fedtag.server.tracking.recorded import recorded_config
from fedtag.server.tracking.release import Release, read_release
from fedtag.server.tracking.run_directory import PLACES, SITES, RunDirectory
from fedtag.server.tracking.staging import staged

LOGGER = logging.getLogger("fedtag")
SITES_LOG = "sites/errors.log"
STATE = "state"
"""Of a site's folder: what is kept of its runs, one folder each."""
SENTENCES = 5
LENGTH = 300
SAME_CODE = "go on with that code, or start a new run"
"""How many sentences of sites are in the error that ends a run, and the characters of one at most."""


@dataclass(frozen=True)
class PreparedRun:
    """A run directory with its sites, and settings that name no place; rounds may have been done already."""

    config: RunConfig
    directory: RunDirectory
    sites: tuple[Site, ...]


def free_folder(parent: Path, config: RunConfig) -> Path:
    """PARENT/METHOD-DATA-N with the first N that is free."""
    data = folder_name(data_name(config.data.source))[:40].strip("-")
    return next_free(parent / f"{config.method}-{data}-1")


def data_name(source: str) -> str:
    """How a source is called: the name of its folder or file, joined where it is several."""
    sources = [one.strip() for one in source.split(SEPARATOR)]
    return "+".join(Path(one).stem or one for one in sources)


def folder_name(text: str) -> str:
    """A text with everything but letters, digits and any of + . _ - replaced."""
    return re.sub(r"[^\w+.-]+", "-", text).strip("-")


def next_free(path: Path) -> Path:
    """The path, or with the first higher number at its end that is free."""
    stem, _, number = path.name.rpartition("-")
    if not number.isdecimal():
        stem, number = path.name, "1"
    count = int(number)
    while path.exists():
        count += 1
        path = path.with_name(f"{stem}-{count}")
    return path


def prepare(config: RunConfig, graphs: Sequence[TextGraph] = (), parent: Path | None = None) -> PreparedRun:
    """Make the run directory `config.out` with sites and settings; nothing is left where that fails.

    Args:
        config: of the run.
        graphs: what its data.source names, where it is in memory.
        parent: a run directory, or a folder with a released model, that training goes on from.

    Raises:
        ConfigError, DataError: settings or data are at fault.
        RunError: the folder is taken.
    """
    check_device(config.device)
    planned(config)
    out = Path(config.out).absolute()
    config = with_absolute_places(config, named=not graphs)
    source = None if parent is None else RunDirectory.open_release(parent)
    release = None if source is None else read_release(source)
    if release is not None:
        config = RunConfig.from_flat({**config.to_flat(), "parent.model": release.card.fingerprint})
    with staged(out) as made:
        sites = simulate_sites(config, made.path / SITES, graphs)
        if source is not None and release is not None:
            check_parent(release, sites, config)
            keep_parent(source, made.path)
        places = {SOURCE: config.data.source, **absolute_places(config.to_flat())}
        made.write_places({key: places[key] for key in (SOURCE, *MODELS) if key in places})
        made.write_config(config.without_places().to_nested())
        keep_own_code(made.path, config)
    return _prepared(config, RunDirectory.open(out), resume=False)


def prepare_extension(config: RunConfig, parent: RunDirectory) -> PreparedRun:
    """Make the run directory `config.out` of a run that extends a finished one, with copies of its sites.

    Raises:
        ConfigError: something differs from the parent's settings that must not.
        RunError: the folder is taken, or the parent cannot be extended, or was run with other code.
    """
    check_device(config.device)
    planned(config)
    check_own_code(parent.path, config, SAME_CODE)
    out = Path(config.out).absolute()
    with staged(out) as made:
        extend(parent, config, made.path)
        shutil.copytree(
            parent.path / SITES,
            made.path / SITES,
            ignore=_left_behind(parent.path / SITES, config.parent.run),
        )
        made.write_places(parent.read_places())
        made.write_config(config.without_places().to_nested())
        keep_own_code(made.path, config)
    return _prepared(config, RunDirectory.open(out), resume=True)


def _left_behind(sites: Path, run: str) -> Callable[[str, list[str]], set[str]]:
    """What a site's folder, whatever it is called, has that a run which extends another one does not go on with."""

    def ignored(folder: str, names: list[str]) -> set[str]:
        place = Path(folder).relative_to(sites).parts
        if len(place) == 1:
            return set(names) & {"secure", "letters", "evidence", "worker"}
        return set(names) - {run} if len(place) == 2 and place[1] == STATE else set()

    return ignored


def check_parent(release: Release, sites: Sequence[Site], config: RunConfig) -> None:
    """Raise ConfigError, with the difference, where sites or a run's settings are none that a released model fits."""
    data = site_data(sites[0], config)
    # How many numbers an encoder gives is known once it has encoded; an encoder of the same name gives as many.
    own = data.text_graph.features
    width = release.card.dimension if own is None else own.shape[1]
    agreement = Agreement(data.text_graph.classes, width, data.features_from)
    begun(method_of(config), agreement, ServerContext(config), release)


def reopen(path: Path) -> PreparedRun:
    """An earlier run, to be continued with the settings in its config.toml.

    Raises:
        RunError: it is no run, was stopped before its settings were written, or was begun with other code.
        ConfigError: what it is made of is not there.
    """
    out = path.absolute()
    directory = RunDirectory(out, resume=True)
    settings = flatten(directory.read_config())
    if not settings:
        raise RunError(f"{path} has no config.toml to go on with; start the run anew with another out=")
    config = recorded_config(out, settings | directory.read_places())
    check_own_code(out, config, SAME_CODE)
    return _prepared(config, directory, resume=True)


def run_in_process(run: PreparedRun, progress: Progress) -> None:
    """All rounds that are left, with the clients in this process, one after the other or all at once.

    Raises:
        QuorumError: too few clients answered, with what sites said; the run can go on later.
    """
    clients = [SiteRun(site, run.config, progress.work(site.name)) for site in run.sites]
    with exposed_meters(progress.rounds.note) as meters, errors_kept(run.directory.path, progress):
        engine = stacked(clients) if run.config.engine == "stacked" else None
        Rounds(
            InProcessGrid(clients), run.config, run.directory, progress.rounds, meters, engine=engine
        ).run()


def model_folders(path: Path | None) -> tuple[Path, ...]:
    """The folders in which the models lie that were given by paths to the run of a directory, or of a file in it."""
    folder = path.parent if path is not None and path.is_file() else path
    places = (read_object(folder / PLACES) or {}) if folder is not None else {}
    return tuple(dict.fromkeys(Path(places[key]).parent for key in MODELS if key in places))


def check_device(name: str) -> None:
    """Raise ConfigError where PyTorch cannot compute on the device."""
    if name == "auto":
        return
    try:
        torch.zeros(1, device=name)
    except (RuntimeError, AssertionError) as error:
        count = torch.cuda.device_count()
        here = f"cpu, cuda:0 to cuda:{count - 1}" if count else "cpu only"
        raise ConfigError(f"device '{name}' is not on this machine, which has {here}; use auto") from error


def with_absolute_places(config: RunConfig, named: bool = True) -> RunConfig:
    """The same data and models by paths that hold from any folder, so that a run can go on from another one.

    Args:
        config: of a run.
        named: whether data are read from where they are named; in memory they may be called as some folder is.
    """
    flat = config.to_flat()
    sources = list(listed(config.data.source, SOURCE, SEPARATOR))
    if named:
        sources = [str(Path(one).absolute()) if Path(one).exists() else one for one in sources]
    folders = {key: Path(str(flat[key])).expanduser() for key in MODELS if flat[key] != BUNDLED}
    models = {key: str(folder.absolute()) for key, folder in folders.items() if folder.is_dir()}
    return RunConfig.from_flat({**flat, **models, SOURCE: SEPARATOR.join(sources)})


class _SitesLog(logging.FileHandler):
    """What goes wrong at sites, with tracebacks; `said` are the sentences, each with the site's name."""

    def __init__(self, file: Path) -> None:
        super().__init__(file, encoding="utf-8", delay=True)
        self.setLevel(logging.ERROR)
        self.setFormatter(logging.Formatter("%(asctime)s %(site)s: %(message)s"))
        self.said: dict[str, None] = {}

    def emit(self, record: logging.LogRecord) -> None:
        site = vars(record)["site"] = field(record, "client") or "a site"
        sentence = f"{site}: {' '.join(record.getMessage().split())}"
        self.said[sentence if len(sentence) <= LENGTH else f"{sentence[:LENGTH]} …"] = None
        super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 -- a name of logging
        """Where there is no room for a log, what is `said` stays."""

    def close(self) -> None:
        with suppress(OSError):
            super().close()


@contextmanager
def errors_kept(path: Path, progress: Progress) -> Iterator[None]:
    """Keep what goes wrong at sites, which have no logs of their own, in one of the run.

    Raises:
        QuorumError: with the last of what sites said, and where all of it is.
    """
    file = path / SITES_LOG
    log = _SitesLog(file)
    LOGGER.addHandler(log)
    try:
        yield
    except QuorumError as error:
        if not log.said:
            raise
        # The log that sites refer to is told in the same breath.
        told = str(error).replace(ELSEWHERE, "")
        said = "; ".join(list(log.said)[-SENTENCES:])
        raise QuorumError(f"{told}. Sites said: {said}. All of it, with tracebacks, is in {file}") from error
    finally:
        LOGGER.removeHandler(log)
        log.close()
        if file.is_file() and file.stat().st_size:
            progress.rounds.note(f"what went wrong at sites, with tracebacks, is in {file}")


def _prepared(config: RunConfig, directory: RunDirectory, resume: bool) -> PreparedRun:
    sites = simulate_sites(config, directory.path / SITES)
    return PreparedRun(config.without_places().model_copy(update={"resume": resume}), directory, sites)
