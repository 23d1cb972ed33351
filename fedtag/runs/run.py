"""A run in Python: its rows as tables, its model at work, its evidence, its plot and its report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from fedtag.common.errors import ConfigError, RunError
from fedtag.common.wording.counts import plural
from fedtag.runs.disclosure_frame import disclosure_frame
from fedtag.server.tracking.row_objects import row_to_object
from fedtag.server.tracking.run_directory import RunDirectory

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import Tensor

    from fedtag.graph.graph import Graph


class Run:
    """A run directory, finished or not; read anew whenever it is asked.

    `fedtag.simulate` and `fedtag.open_run` make one.

    Args:
        path: the directory.

    Raises:
        RunError: it is none.
    """

    def __init__(self, path: str | Path) -> None:
        self._directory = RunDirectory.open(Path(path).absolute())

    @property
    def path(self) -> Path:
        """The run directory."""
        return self._directory.path

    @property
    def finished(self) -> bool:
        """Whether all rounds are done; else `resume` goes on."""
        return self._directory.finished

    def check(self) -> None:
        """Raise RunError where a file of the run is damaged, or missing although the run has finished."""
        self._directory.check()

    @property
    def summary(self) -> Mapping[str, Any]:
        """What came of it, as in summary.json: scores of the released round, rounds, bytes, seconds.

        Raises:
            RunError: the run has not finished.
        """
        found = self._directory.read_summary()
        if found is None:
            raise RunError(f"{self.path} has not finished, and has no summary yet: go on with resume()")
        return row_to_object(found)

    @property
    def settings(self) -> Mapping[str, Any]:
        """All settings, as nested tables."""
        return self._directory.read_config()

    @property
    def rounds(self) -> pd.DataFrame:
        """A row a round, as in metrics.jsonl: loss, accuracies in [0, 1], seconds, bytes."""
        return _frame(self._directory.read_rounds())

    @property
    def clients(self) -> pd.DataFrame:
        """A row for each client and round in which it was scored, as in clients.jsonl."""
        return _frame(self._directory.read_clients())

    @property
    def classes(self) -> pd.DataFrame:
        """A row a class, by its name: its test nodes, and of the released round precision, recall, f1, auroc, auprc.

        Scores are in [0, 1], and NaN where one is not defined.

        Raises:
            RunError: the run has not finished.
        """
        names = ["class", "nodes", "precision", "recall", "f1", "auroc", "auprc"]
        found = pd.DataFrame(self.summary["test_classes"] or [], columns=names)
        return found.set_index("class").astype(dict.fromkeys(names[2:], float))

    @property
    def disclosures(self) -> pd.DataFrame:
        """What crossed the network: a row for each exchange, direction and kind of record.

        Returns:
            columns round, phase, kind, from, to, count, bytes, counts, sizes, reveals, protected. `from`, `to`,
            `counts` and `sizes` are lists with an entry for each who sent to whom; `count` and `bytes` are sums of
            the latter two. docs/disclosures.md has types and units.
        """
        return disclosure_frame(self._directory.read_disclosures())

    @property
    def model(self) -> dict[str, Tensor]:
        """The released model: its parameters by name, on the CPU.

        Raises:
            RunError: none was released.
        """
        return self._directory.read_model()

    @property
    def sites(self) -> tuple[str, ...]:
        """Names of the simulated sites."""
        from fedtag.runs.predictions import site_names

        return site_names(self.path)

    def predict(
        self,
        graph: Graph | str | Path | None = None,
        *,
        site: str | None = None,
        device: str = "auto",
        evidence: bool = True,
    ) -> pd.DataFrame:
        """Classes of all nodes by the released model; arguments as of `fedtag.predict`."""
        from fedtag.runs.predictions import prediction_frame

        return prediction_frame(self.path, graph, site, device, evidence)

    def embeddings(
        self, graph: Graph | str | Path | None = None, *, site: str | None = None, device: str = "auto"
    ) -> pd.DataFrame:
        """What the released model makes of every node before it says a class.

        Args:
            graph, site, device: as of `fedtag.predict`.

        Returns:
            a row a node, whose ids are the index, and a column a coordinate.

        Raises:
            RunError: the method has no such representation, or released no model.
        """
        from fedtag.runs.predictions import predicted

        found = predicted(self.path, graph, site, device, evidence=False)
        if found.prediction.hidden is None:
            raise RunError(f"{self.path}: its method predicts without a representation of nodes")
        return pd.DataFrame(
            found.prediction.hidden.cpu().numpy(), index=pd.Index(found.data.node_ids, name="id")
        )

    def evidence(self, node: str | int, *, site: str | None = None) -> pd.DataFrame:
        """The texts on which the prediction of a node rests, heaviest first.

        Args:
            node: its id.
            site: that has it; the first one where None.

        Returns:
            columns node, hop, start, end, weight, text: the words [start, end) of the text of `node`, which is so many
            hops away.

        Raises:
            RunError: there is no evidence of the node, or the evidence does not hold against the site's own texts.
        """
        from fedtag.audits.evidence import audit_run, node_evidence

        audited, pack = node_evidence(audit_run(self.path, site, None), str(node))
        if not audited.verification.holds:
            first = audited.verification.violations[0]
            raise RunError(f"the evidence of {audited.name} does not hold: {first}; see `fedtag audit`")
        texts = dict(zip(audited.graph.node_ids, audited.graph.texts, strict=True))
        hops = {near.node: near.hop for near in pack.neighbours}
        rows = [
            (one.node, hops[one.node], one.start, one.end, one.weight, texts[one.node][one.start : one.end])
            for one in pack.chunks
        ]
        columns = ["node", "hop", "start", "end", "weight", "text"]
        return pd.DataFrame(rows, columns=columns).sort_values("weight", ascending=False, ignore_index=True)

    def audit(self, *, site: str | None = None) -> list[Path]:
        """Verify the evidence and write a page of it for each site, as `fedtag audit` does; where the pages lie.

        They hold the texts of a site, and stay inside it.

        Args:
            site: the only one whose evidence is read; all where None.

        Raises:
            RunError: there is no evidence, or some does not hold against the texts; the pages say which.
        """
        from fedtag.audits.examination import examine

        found = examine(self.path, site)
        pages = [page for page, _ in found.pages]
        if not found.verified:
            faults = [fault for one in found.sites for fault in one.verification.violations]
            said = "; ".join([*([found.lacking] if found.lacking else []), *faults[:1]])
            raise RunError(f"the evidence of {self.path} does not hold: {said}; see {pages[0]}")
        return pages

    def plot(self) -> Figure:
        """The metric by which rounds are chosen, on validation and test nodes; the released round is marked.

        Raises:
            RunError: no round was scored.
        """
        # matplotlib takes a second to import, and is needed for figures alone.
        from fedtag.server.pages.figures import PAGE, figure_of
        from fedtag.server.report.charts import metric_chart
        from fedtag.server.report.run_view import view_run

        view = view_run(self.path, self.path.name)
        chart = metric_chart([view], view.metric)
        if chart is None:
            raise RunError(f"{self.path}: no round was scored; there is nothing to draw")
        return figure_of([chart], PAGE)

    def report(self, *, figures: bool = False) -> Path:
        """Write the report anew, and where it lies: one page that needs nothing beside it.

        Args:
            figures: whether its charts are also written for print, as PNG and SVG in the folder `figures` of the run.
        """
        from fedtag.comparison.reports import report

        return report([self.path], figures=figures)[0]

    def resume(
        self, *, rounds: int | None = None, out: str | Path | None = None, progress: bool = True
    ) -> Run:
        """Go on where the run was stopped; or extend a finished one, as a new run.

        Args:
            rounds: how many the longer run has in all; None: those of this run, and a finished one stays as it is.
            out: the directory of the longer run; the next free one beside this one where None.
            progress: whether a bar shows where the run stands.

        Returns:
            this run; the new one with `rounds`.

        Raises:
            RunError: it cannot go on.
            ConfigError: it cannot be extended so.
            QuorumError: too few clients answered; it can go on later.
        """
        from fedtag.runs.bars import shown
        from fedtag.runs.course import extend, resume
        from fedtag.runs.places import named_folder

        if rounds is None and out is not None:
            raise ConfigError(f"out={str(out)!r} is where a longer run is written: give rounds= as well")
        with shown(progress) as bar:
            if rounds is not None:
                folder = named_folder(out)
                place = {} if folder is None else {"out": str(folder)}
                return Run(extend(self.path, {"rounds": rounds, **place}, progress=bar))
            resume(self.path, progress=bar)
        return self

    def __repr__(self) -> str:
        state = "finished" if self.finished else f"{plural(len(self._directory.read_rounds()), 'round')} done"
        return f"<fedtag.Run {str(self.path)!r}: {state}>"

    def _repr_html_(self) -> str:
        found = self._directory.read_summary()
        if found is None:
            return f"<p>{escape(repr(self))}</p>"
        table = pd.Series(row_to_object(found), name="").to_frame()
        return f"<p><b>{escape(str(self.path))}</b></p>{table.to_html(header=False)}"


def _frame(rows: Sequence[Any]) -> pd.DataFrame:
    """Records as a table; what is nested in one gets names with points."""
    return pd.json_normalize([row_to_object(row) for row in rows])
