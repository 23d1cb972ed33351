"""What one exchange adds to the run's records: pooled scores, a row for each client, disclosures."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fedtag.common.methods.base import WORKING
from fedtag.common.methods.crossing import bytes_by_kind
from fedtag.common.methods.records import Record
from fedtag.common.numerics.scores import LOCAL, Tally, pooled
from fedtag.common.secure.names import SHOWN
from fedtag.common.wire.records import Instruction, Reply
from fedtag.common.wording.scoring import METRICS, column
from fedtag.server.exchange.screening import tallies
from fedtag.server.state.round import Traffic
from fedtag.server.state.scores import PooledScores
from fedtag.server.strategies.selection import selection, spread
from fedtag.server.tracking.disclosures import SERVER, Crossing, Disclosure
from fedtag.server.tracking.rows import ClientRow, RoundRow


def pool_scores(
    replies: Mapping[str, Reply], paths: Iterable[str], most: float, metric: str = "accuracy"
) -> PooledScores | None:
    """Sum the clients' counts for each path and take the path that is best by `selection`.

    The first of equal paths wins; a federation without validation nodes takes the first. None if no client
    scored.

    Args:
        replies: by client, or of all together where counts are hidden.
        paths: ways of scoring.
        most: `aggregation.max-share`.
        metric: `evaluation.metric`.
    """
    best: PooledScores | None = None
    for path in paths:
        counts = {client: found for client, reply in replies.items() if (found := tallies(reply, path))}
        vals, tests = (
            {client: found[subset] for client, found in counts.items()} for subset in ("val", "test")
        )
        val, test = pooled(vals.values()), pooled(tests.values())
        if val is None or test is None:
            continue
        chosen_by = selection(vals, most, metric)
        if best is None or (chosen_by or 0.0) > (best.selection or 0.0):
            best = PooledScores(path, val, test, chosen_by, spread(vals), spread(tests))
    return best


def with_scores(row: RoundRow, scores: PooledScores | None, chooses: bool = True) -> RoundRow:
    """The row of a round, completed by the scores of its model; `chooses`: whether a round is chosen by them."""
    if scores is None:
        return row
    return replace(
        row,
        **metric_columns("val", scores.val),
        **metric_columns("test", scores.test),
        test_ece=scores.test.calibration_error,
        selection=scores.selection if chooses else None,
        val_spread=scores.val_spread,
        test_spread=scores.test_spread,
    )


def metric_columns(subset: str, tally: Tally | None) -> dict[str, Any]:
    """Every metric of a subset by its column, such as val_accuracy; of None all are None."""
    return {f"{subset}_{column(metric)}": tally.value(metric) if tally else None for metric in METRICS}


def training_row(
    round_number: int,
    replies: Mapping[str, Reply],
    counts: tuple[int, int],
    seconds_by_phase: Mapping[str, float],
    traffic: Traffic,
    empty: bool,
) -> RoundRow:
    """The row of a round before its model is scored; the training loss is the mean over training nodes.

    `replies` tell losses and counts of nodes; `counts` are the clients that answered and that failed.
    """
    reported = [reply.content.values for reply in replies.values()]
    losses = [
        (values["sizes"]["train_nodes"], values["training"]["loss"])
        for values in reported
        if "training" in values
    ]
    trained = sum(nodes for nodes, _ in losses)
    condensed = [values["condensation"] for values in reported if "condensation" in values]
    nodes = sum(entry["nodes"] for entry in condensed)
    local = pool_scores(replies, [LOCAL], 1.0)
    return RoundRow(
        round=round_number,
        train_loss=sum(nodes * loss for nodes, loss in losses) / trained if trained else None,
        val_accuracy=None,
        test_accuracy=None,
        test_macro_f1=None,
        seconds=sum(seconds_by_phase.values()),
        seconds_by_phase=dict(seconds_by_phase),
        bytes_up=traffic.up,
        bytes_down=traffic.down,
        clients_ok=counts[0],
        clients_failed=counts[1],
        local_val_accuracy=local.val.accuracy if local else None,
        local_test_accuracy=local.test.accuracy if local else None,
        effective_ratio=sum(entry["core"] for entry in condensed) / nodes if nodes else None,
        empty=empty,
    )


def client_rows(
    round_number: int,
    replies: Mapping[str, Reply],
    failures: Mapping[str, str],
    weights: Mapping[str, float],
    paths: tuple[str, ...],
    chosen: str,
    contributed: Mapping[str, Mapping[str, Any]] | None = None,
) -> list[ClientRow]:
    """One row for each client that scored the model of a round or failed in it, in the order of names.

    Args:
        replies: to the exchange that scored.
        failures: reasons, by client.
        weights: in the round.
        paths: all ways of scoring.
        chosen: the one that counts.
        contributed: what the contributions to the round said of themselves, by client: steps, normaliser,
            statistics, condensation, columns; replies that score a model belong to the round after it and say nothing
            of it.
    """
    rows = []
    for client in sorted({*replies, *failures}):
        reply = replies.get(client)
        own = (contributed or {}).get(client, {})
        columns = dict(own.get("columns", {}))
        values = reply.content.values if reply else {}
        sizes = values.get("sizes", {})
        scores = tallies(reply, chosen) if reply else {}
        local = tallies(reply, LOCAL) if reply else {}
        ways = {
            f"{subset}_accuracy_{path}": counts.accuracy
            for path in paths
            for subset, counts in (tallies(reply, path) if reply else {}).items()
        }
        rows.append(
            ClientRow(
                round=round_number,
                client=client,
                nodes=sizes.get("nodes"),
                train_nodes=sizes.get("train_nodes"),
                val_nodes=sizes.get("val_nodes"),
                test_nodes=sizes.get("test_nodes"),
                val_accuracy=scores["val"].accuracy if scores else None,
                **metric_columns("test", scores.get("test")),
                local_test_accuracy=local["test"].accuracy if local else None,
                seconds_by_phase=values.get("seconds", {}),
                weight=weights.get(client, 0.0 if weights and client not in failures else None),
                failed=failures.get(client),
                scores=ways if len(paths) > 1 else {},
                steps=own.get("steps"),
                normaliser=own.get("normaliser"),
                statistics=own.get("statistics", {}),
                condensation=own.get("condensation", {}),
                parameters=columns.pop("parameters", None),
                columns=columns,
            )
        )
    return rows


def columns_of(reply: Reply, declared: Mapping[str, Record]) -> dict[str, Any]:
    """What a reply says that has columns of its own in clients.jsonl."""
    found: dict[str, Any] = {}
    for name, value in reply.content.values.items():
        if declared[name].column:
            entries = value if isinstance(value, dict) else {name: value}
            found |= {key: one for key, one in entries.items() if isinstance(one, bool | int | float | str)}
    return found


def disclosures(
    round_number: int,
    phase: str,
    instructions: Mapping[str, Instruction],
    replies: Mapping[str, Reply],
    declared: Mapping[str, Record],
    signs: Mapping[str, Sequence[int]],
) -> list[Disclosure]:
    """Every kind of record that crossed, first down, then up; letters between clients pass the server sealed.

    What an instruction holds beside declared records are settings of the exchange. `signs` are the bytes of each sign
    of a client that it works.
    """
    down: dict[str, list[Crossing]] = defaultdict(list)
    up: dict[str, list[Crossing]] = defaultdict(list)
    between: dict[str, list[Crossing]] = defaultdict(list)
    for client, instruction in sorted(instructions.items()):
        for kind, size in bytes_by_kind(instruction.content, declared).items():
            down[kind].append(Crossing(SERVER, client, 1, size))
    for client, reply in sorted(replies.items()):
        for kind, size in bytes_by_kind(reply.content, declared).items():
            up[kind].append(Crossing(client, SERVER, 1, size))
        shown = reply.content.values.get(SHOWN) or {}
        for letter in reply.content.letters:
            count = shown.get(letter.kind, {}).get(letter.recipient, 1)
            between[letter.kind].append(Crossing(client, letter.recipient, count, len(letter.body)))
    for client, sizes in sorted(signs.items()):
        up[WORKING].append(Crossing(client, SERVER, len(sizes), sum(sizes)))
    return [
        Disclosure.of(
            round_number,
            phase,
            kind,
            crossings,
            declared[kind].reveals,
            "encrypted" if way is between else declared[kind].protected,
        )
        for way in (down, up, between)
        for kind, crossings in sorted(way.items())
    ]


def add_durations(seconds: dict[str, float], exchange: float, replies: Mapping[str, Reply]) -> None:
    """Add an exchange's wall time to a table by phase: the slowest client's phases, then what is left."""
    durations = [reply.content.values.get("seconds", {}) for reply in replies.values()]
    slowest: Mapping[str, float] = max(durations, key=lambda phases: sum(phases.values()), default={})
    for phase, duration in slowest.items():
        seconds[phase] = seconds.get(phase, 0.0) + duration
    left = max(0.0, exchange - sum(slowest.values()))
    seconds["transport and waiting"] = seconds.get("transport and waiting", 0.0) + left
