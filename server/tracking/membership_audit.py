"""privacy.json of a run directory: what attacks on its release told of who was among the training nodes."""

from __future__ import annotations

from typing import Any

from fedtag.common.errors import RunError
from fedtag.common.wording.privacy import (
    attack_rows,
    conclusions,
    control_sentences,
    population_sentence,
    strongest_on_first,
    verdict,
)
from fedtag.server.tracking.run_directory import RunDirectory

FILE = "privacy.json"
SCHEMA = 1


def read_audit(run: RunDirectory) -> dict[str, Any] | None:
    """The record of a run's audit; None if there is none, or one of another model than the released one.

    Raises:
        RunError: the file is damaged or of another schema.
    """
    record = run.read_of_release(FILE)
    if record is None:
        return None
    try:
        if record["schema"] != SCHEMA:
            raise ValueError(f"schema {record['schema']!r}")
        # Whatever a reader shows comes from these.
        population_sentence(record)
        control_sentences(record)
        for target in record["targets"]:
            verdict(target)
            attack_rows(target)
        conclusions(record)
        for one in record.get("over_rounds", ()):
            int(one["round"])
            for target in one["targets"]:
                strongest_on_first(target)
    except (KeyError, ValueError, TypeError, AttributeError, StopIteration) as error:
        raise RunError(
            f"{run.path / FILE} holds no membership audit of schema {SCHEMA} ({error}): remove it, or audit again with "
            "fedtag privacy-audit"
        ) from error
    return record
