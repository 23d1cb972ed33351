"""The demonstration: what links and a federation bring, on a graph that needs no download."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedtag.audits.evidence import audit_run, sites_with_evidence, write_audit_page
from fedtag.client.data.pydocs import FEW, is_pydocs
from fedtag.client.data.sources import load_source
from fedtag.client.run.opened_site import site_data
from fedtag.client.site.site import Site
from fedtag.common.config.places import parts
from fedtag.common.homes import cache_folder
from fedtag.common.logs import LOGGER
from fedtag.comparison.course import Compared, check_sources, compare
from fedtag.comparison.interface import sources_of
from fedtag.comparison.matrix import matrix_of
from fedtag.comparison.outcome import PAGE, check_home
from fedtag.comparison.progress import MatrixDisplay
from fedtag.comparison.study import Study, checked_study, read_study
from fedtag.comparison.turned_nodes import Turned, turned_nodes
from fedtag.graph.graph import Graph
from fedtag.runs.places import places_told
from fedtag.runs.progress import Progress
from fedtag.runs.stopwatch import Stopwatch

DEMO = "demo"
"""The study that is shown."""
GRAPH, ENCODING, RUNS, PAGES = "graph", "texts encoded", "runs", "pages"
"""Parts of the work."""


@dataclass(frozen=True)
class Demonstration:
    """What came of it.

    Args:
        study: what was run.
        made: the comparison.
        audit: the page of evidence of one site; None where no method keeps evidence.
        turned: nodes of that site whose class their neighbourhood tells.
    """

    study: Study
    made: Compared
    audit: Path | None
    turned: Turned | None

    @property
    def report(self) -> Path:
        """The page that compares the rows."""
        return self.made.home / PAGE


def demonstrate(
    study: Study,
    out: Path,
    jobs: int,
    watch: Stopwatch,
    notices: Callable[[], AbstractContextManager[Progress]],
    cells: MatrixDisplay,
    debug: bool = False,
) -> Demonstration:
    """Encode the texts once for all rows, run these, and show where links decide.

    Encoded texts and finished runs stay, so that the same call goes on where it was stopped.

    Args:
        study: what is run.
        out: the folder of all runs.
        jobs: runs at once.
        watch: told what each part costs.
        notices: shows what is done before and after the runs.
        cells: shows how the runs go.
        debug: whether the log says everything.

    Raises:
        ConfigError, DataError: settings or data are at fault.
        RunError: the folder holds something else, or runs with other settings.
    """
    out = out.absolute()
    check_home(out)
    check_sources(study)
    with notices() as progress, places_told(out):
        for line in introduction(study, out):
            LOGGER.info("%s", line)
        with watch.part(GRAPH):
            study = study.model_copy(update={"data": (written(study.data[0], out),)})
        with watch.part(ENCODING):
            encode(study, out, progress)
    with watch.part(RUNS):
        made = compare(study, out, jobs, cells, debug, encoded=True)
    with notices() as progress, watch.part(PAGES):
        audit, turned = opened(made, progress)
    return Demonstration(study, made, audit, turned)


def demo_study(data: str | None, options: Mapping[str, Any]) -> Study:
    """The study of the demonstration.

    On the built-in graphs every seed labels other nodes, one in ten of each class; other data keep their split, and
    several folders are one client each.

    Args:
        data: in place of the study's own, as for a simulation.
        options: seeds, clients and rounds in place of the study's; those that are None were not given.

    Raises:
        ConfigError: a value is out of its range.
    """
    content = read_study(DEMO).model_dump(by_alias=True)
    given = {key: value for key, value in options.items() if value is not None}
    if "seeds" in given:
        content["seeds"] = given.pop("seeds")
    if data is not None:
        content["data"] = (data,)
        if len(folders := parts(data)) > 1:
            content["settings"]["clients"] = len(folders)
    content["settings"] |= given
    if is_pydocs(content["data"][0]):
        content["settings"]["data.split"] = ",".join(map(str, FEW))
    return checked_study(content, DEMO)


def introduction(study: Study, out: Path) -> list[str]:
    """What is about to happen, and why."""
    source, settings = study.data[0], study.settings
    labelled = "labels and splits as they come"
    graph = source
    if is_pydocs(source):
        graph = f"what SciPy's functions say of themselves ({source}), linked where one names another"
        labelled = f"one in ten labelled with its sub-package; each seed ({listed(study)}) draws others"
    return [
        f"Data: {graph}; {labelled}.",
        f"{settings['clients']} clients hold a part each, by communities of links; no client sees another one's texts.",
        "The task is the class of a node nobody labelled. Its text says little, so what counts is who else is asked:",
        *(f"  {row.name}: {row.shows}." for row in study.rows),
        f"Every row has {settings['rounds']} rounds; validation nodes choose the round, test nodes are only read.",
        f"Everything goes to {out}. Texts are encoded once for all rows, and kept in {cache_folder()}.",
    ]


def listed(study: Study) -> str:
    """The seeds."""
    return ", ".join(map(str, study.seeds))


def written(source: str, out: Path) -> str:
    """The source; a graph of installed packages is read once and written as a data folder, as anybody's would be."""
    return sources_of([Graph(load_source(source))], out) if is_pydocs(source) else source


def encode(study: Study, out: Path, progress: Progress) -> None:
    """Encode all texts that the cache lacks, so that no row pays for the others."""
    config = matrix_of(study, out).cells[0].config
    for folder in map(Path, parts(config.data.source)):
        if folder.is_dir():
            site = Site("texts", folder, out, cache_folder(), config.device)
            _ = site_data(site, config, progress.work("for all rows")).bank


def opened(made: Compared, progress: Progress) -> tuple[Path | None, Turned | None]:
    """The evidence of the first run that has some: its page, and the nodes in it whose class links tell."""
    comparison = made.comparison
    for one in comparison.ordered():
        run = made.home / one.run
        if one.summary is None or not sites_with_evidence(run):
            continue
        site = audit_run(run, None, None)[0]
        page = run / f"audit-{site.name}.html"
        write_audit_page(site, page)
        alone = comparison.results[comparison.baseline, one.data, one.seed]
        if alone.summary is None:
            return page, None
        return page, turned_nodes(site, made.home / alone.run, progress)
    return None, None
