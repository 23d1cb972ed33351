"""Who was left out: entries by client and reason, grouped where they would be many."""

from __future__ import annotations

from fedtag.server.report.absences import MOST_SHOWN, absences, without_training
from fedtag.server.tracking.rows import ClientRow


def row(number: int, client: str, failed: str | None, weight: float | None = None) -> ClientRow:
    return ClientRow(number, client, 5, 3, None, None, None, {}, weight=weight, failed=failed)


def test_each_client_and_reason_has_an_entry() -> None:
    rows = [
        row(1, "a", "no reply within 600 s"),
        row(1, "b", None, 1.0),
        row(2, "a", "no reply within 600 s"),
        row(2, "b", "error 6: RuntimeError"),
        row(4, "a", "error 6: RuntimeError"),
    ]
    found = absences(rows)
    assert [(one.who, one.reason, one.rounds, one.times) for one in found] == [
        ("a", "no reply within 600 s", (1, 2), 2),
        ("b", "error 6: RuntimeError", (2,), 1),
        ("a", "error 6: RuntimeError", (4,), 1),
    ]
    assert absences([row(1, "b", None, 1.0)]) == []


def test_an_update_that_was_combined_is_told_apart() -> None:
    (one,) = absences([row(1, "a", "late", 0.25), row(2, "a", "late"), row(3, "a", "late", 0.0)])
    assert (one.times, one.counted) == (3, 1)


def test_many_entries_are_grouped_by_kind_of_reason() -> None:
    norms = [
        row(number, f"client-{number % 5:02d}", f"an L2 norm of {number}.25e+03, above the bound of 10")
        for number in range(1, MOST_SHOWN + 2)
    ]
    late = [row(number, "client-09", "no reply within 600 s") for number in (3, 4)]
    assert len(absences(norms[:MOST_SHOWN])) == MOST_SHOWN
    norm, reply = absences([*late, *norms])
    assert (norm.reason, norm.times) == ("an L2 norm of …, above the bound of …", MOST_SHOWN + 1)
    # Numbers stay where all reasons of a kind have the same.
    assert (reply.reason, reply.rounds, reply.who) == ("no reply within 600 s", (3, 4), "client-09")
    assert norm.who == "client-01 (3×), client-02 (3×), client-03 (3×) and 2 more"
    assert sum(times for _, times in norm.clients) == norm.times


def test_clients_without_training_nodes() -> None:
    rows = [
        ClientRow(1, "none", 5, 0, None, None, None, {}),
        ClientRow(2, "none", None, None, None, None, None, {}, failed="late"),
        ClientRow(1, "some", 5, 3, None, None, None, {}),
        ClientRow(1, "lost", None, None, None, None, None, {}, failed="late"),
    ]
    assert without_training(rows) == ("none",)
