"""Where a run stands between two rounds, and how that becomes a checkpoint."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from fedtag.common.errors import RunError
from fedtag.common.wire.records import Content, Letter, prefixed
from fedtag.server.protocol.state import Agreement, ServerState
from fedtag.server.state.checkpoint import CheckpointFolder
from fedtag.server.state.scores import PooledScores
from fedtag.server.tracking.rows import RoundRow
from fedtag.server.tracking.run_directory import RunDirectory

MOST_TOKENS = 10**15


@dataclass
class RunState:
    """All that the loop needs to go on.

    Args:
        run: identifier of the run, the same before and after a resumption.
        step: number of exchanges of the method so far; those in which no client can change what it remembers do
            not count.
        round: last complete round.
        prepared: steps that have been taken before round 1.
        seconds, up, down: durations by phase and bytes of these steps, which count for round 1.
        state: the method's.
        pending: row of that round, which waits for the scores of its model.
        weights, failures: by client, of that round.
        best_round, best_score, best: round and model that were best by `selection`, and that score.
        best_path: the way of scoring by which that model was best.
        best_condensed: the condensed graph behind it; empty where there is none.
        best_reliability: calibration bins of that model, by subset.
        best_classes: its scores on the test nodes of each class, in the order of classes.
        tokens: of the encoder and the language model, summed over clients.
        memory: what the server optimiser knows.
        statistics: the newest ones of each client, from which distribution-aware weights are made.
        contributed: what contributors said of their work in that round.
        users: under secure summation, how many clients use each tensor that only some have; None as long as nobody
            has counted.
        stated: what each client has said of its numbers of nodes, or committed to.
        groups: of members whose masked sums are opened one by one; none before they are drawn.
        opened: over whom such sums were opened, each set of members once.
        letters: sealed records that wait for their recipients, by client.
        nodes: which node answered last under each name; only for messages to people, because after a resumption
            a node has no name until it tells it anew.
        releases: of fedtag, and of the other packages that the run is made of, at each client, by package.
        drawn: clients whose data came without a split, so that theirs was drawn.
    """

    run: str = field(default_factory=lambda: uuid.uuid4().hex)
    step: int = 0
    round: int = 0
    prepared: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    up: int = 0
    down: int = 0
    agreement: Agreement | None = None
    state: ServerState | None = None
    pending: RoundRow | None = None
    weights: Mapping[str, float] = field(default_factory=dict)
    failures: Mapping[str, str] = field(default_factory=dict)
    best_round: int | None = None
    best_score: float = -1.0
    best: Mapping[str, Tensor] = field(default_factory=dict)
    best_path: str | None = None
    best_condensed: Mapping[str, Tensor] = field(default_factory=dict)
    best_reliability: Mapping[str, Sequence[Mapping[str, Any]]] = field(default_factory=dict)
    best_classes: Sequence[Mapping[str, Any]] = field(default_factory=list)
    tokens: dict[str, int] = field(default_factory=dict)
    memory: Mapping[str, Tensor] = field(default_factory=dict)
    statistics: Mapping[str, Any] = field(default_factory=dict)
    contributed: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    stated: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    groups: tuple[tuple[str, ...], ...] = ()
    opened: tuple[tuple[str, ...], ...] = ()
    letters: Mapping[str, tuple[Letter, ...]] = field(default_factory=dict)
    nodes: Mapping[int, str] = field(default_factory=dict)
    users: Mapping[str, int] | None = None
    releases: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    drawn: tuple[str, ...] = ()

    def consider(
        self,
        round_number: int,
        scores: PooledScores,
        model: Mapping[str, Tensor],
        choose: bool = True,
        releasable: bool = True,
        condensed: Mapping[str, Tensor] | None = None,
    ) -> None:
        """Keep the model of a round if it is better on validation than all before; test plays no part.

        Without any validation node nothing can be chosen, and the newest model stands; so it does without
        `choose`: under differential privacy a choice by validation would be a query of its own, and of hidden scores
        nobody sees whose they are. A model that
        is not `releasable`, as while an architecture is searched, stands until the first one that is.
        """
        score = scores.selection
        unchosen = not choose or (score is None and self.best_score < 0)
        if unchosen or (score is not None and score > self.best_score):
            self.best_round, self.best = round_number, dict(model)
            self.best_path, self.best_condensed = scores.path, dict(condensed or {})
            subsets = {"val": scores.val, "test": scores.test}
            self.best_reliability = {
                subset: [vars(part) for part in tally.reliability] for subset, tally in subsets.items()
            }
            self.best_classes = [vars(one) for one in scores.test.classes]
            if releasable:
                self.best_score = self.best_score if score is None else score

    def count_tokens(self, reported: Mapping[str, Any]) -> None:
        """Add a client's token counts."""
        for name, value in reported.items():
            if type(value) is int and 0 <= value <= MOST_TOKENS:
                self.tokens[name] = self.tokens.get(name, 0) + value

    def save(self, folder: CheckpointFolder) -> None:
        """Write the checkpoint of the last complete round, or of the last step before the first."""
        assert self.state is not None
        assert self.agreement is not None
        waiting = [letter for letters in self.letters.values() for letter in letters]
        tensors = {
            **prefixed("state", self.state.tensors),
            **prefixed("best", self.best),
            **prefixed("best_condensed", self.best_condensed),
            **prefixed("memory", self.memory),
            **prefixed("letters", {str(place): _bytes(letter) for place, letter in enumerate(waiting)}),
        }
        values = {
            "run": self.run,
            "step": self.step,
            "prepared": self.prepared,
            "preparation": [self.seconds, self.up, self.down],
            "agreement": vars(self.agreement),
            "values": dict(self.state.values),
            "pending": _as_json(self.pending) if self.pending else None,
            "weights": dict(self.weights),
            "failures": dict(self.failures),
            "best_round": self.best_round,
            "best_score": self.best_score,
            "best_path": self.best_path,
            "best_reliability": self.best_reliability,
            "best_classes": self.best_classes,
            "tokens": self.tokens,
            "statistics": dict(self.statistics),
            "contributed": {client: dict(reported) for client, reported in self.contributed.items()},
            "stated": dict(self.stated),
            "groups": self.groups,
            "opened": self.opened,
            "letters": [[letter.sender, letter.recipient, letter.kind] for letter in waiting],
            "nodes": {str(node): client for node, client in self.nodes.items()},
            "users": None if self.users is None else dict(self.users),
            "releases": dict(self.releases),
            "drawn": self.drawn,
        }
        folder.save(self.round, tensors, values, 0 if self.round else self.prepared)

    @classmethod
    def resumed(cls, folder: CheckpointFolder, directory: RunDirectory) -> tuple[RunState, str | None] | None:
        """Where the run in a directory stands; later results are dropped. None if it has just begun.

        Raises:
            RunError: if the checkpoint is gone or rows are missing, so that the run cannot go on as it was.
        """
        found = cls.load(folder)
        if found is None:
            if directory.read_rounds():
                raise RunError(
                    f"{folder.path} is gone, so the run cannot go on; start anew with another out="
                )
            return None
        directory.truncate_after(found[0].round - 1)
        rounds = [row.round for row in directory.read_rounds()]
        if rounds != list(range(1, found[0].round)):
            raise RunError(
                f"metrics.jsonl in {directory.path} does not hold rounds 1 to {found[0].round - 1}, one row each; "
                "restore it, or start anew with another out="
            )
        return found

    @classmethod
    def load(cls, folder: CheckpointFolder) -> tuple[RunState, str | None] | None:
        """The newest readable checkpoint and a note if newer ones were damaged; None without any."""
        checkpoint = folder.load_latest()
        if checkpoint is None:
            return None
        tensors, values = Content(checkpoint.tensors), checkpoint.state
        agreement = values["agreement"]
        seconds, up, down = values["preparation"]
        run_state = cls(
            run=values["run"],
            step=values["step"],
            round=checkpoint.round,
            prepared=values["prepared"],
            seconds=seconds,
            up=up,
            down=down,
            agreement=Agreement(tuple(agreement["classes"]), agreement["dimension"], agreement["features"]),
            state=ServerState(tensors.section("state"), values["values"]),
            pending=RoundRow(**values["pending"]) if values["pending"] else None,
            weights=values["weights"],
            failures=values["failures"],
            best_round=values["best_round"],
            best_score=values["best_score"],
            best=tensors.section("best"),
            best_path=values["best_path"],
            best_condensed=tensors.section("best_condensed"),
            best_reliability=values["best_reliability"],
            best_classes=values["best_classes"],
            tokens=values["tokens"],
            memory=tensors.section("memory"),
            statistics=values["statistics"],
            contributed=values["contributed"],
            stated=values["stated"],
            groups=tuple(tuple(group) for group in values["groups"]),
            opened=tuple(tuple(group) for group in values["opened"]),
            letters=_waiting(values["letters"], tensors.section("letters")),
            nodes={int(node): client for node, client in values["nodes"].items()},
            users=values["users"],
            releases=values["releases"],
            drawn=tuple(values["drawn"]),
        )
        return run_state, checkpoint.note


def _as_json(row: RoundRow) -> dict[str, Any]:
    """A row as JSON, to wait in the checkpoint for its scores."""
    return {name: dict(value) if isinstance(value, Mapping) else value for name, value in vars(row).items()}


def _bytes(letter: Letter) -> Tensor:
    return torch.frombuffer(bytearray(letter.body), dtype=torch.uint8)


def _waiting(
    addresses: Sequence[Sequence[str]], bodies: Mapping[str, Tensor]
) -> dict[str, tuple[Letter, ...]]:
    waiting: dict[str, tuple[Letter, ...]] = {}
    for place, (sender, recipient, kind) in enumerate(addresses):
        letter = Letter(sender, recipient, kind, bodies[str(place)].numpy().tobytes())
        waiting[recipient] = (*waiting.get(recipient, ()), letter)
    return waiting
