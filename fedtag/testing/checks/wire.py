"""What crosses the network."""

from __future__ import annotations

from fedtag.common.parts.spec import declared_records
from fedtag.common.secure.phases import SHARES
from fedtag.testing.subject import Subject, require


def nothing_crosses_but_what_is_declared(subject: Subject) -> None:
    """Every kind of record is declared and disclosed; a letter is disclosed as sealed, from whom and to whom."""
    trial, config = subject.plain, subject.config
    declared = declared_records(config).keys()
    disclosed = {(row.round, name, row.kind) for row in trial.disclosures for name in row.senders}
    sealed = {
        (row.round, one.sender, one.receiver, row.kind, row.protected)
        for row in trial.disclosures
        for one in row.crossings
    }
    require(trial.watch.replies, subject, "has no reply that can be read")
    for reply in trial.watch.replies:
        kinds = {name.partition("/")[0] for name in reply.content.tensors} | reply.content.values.keys()
        letters = {letter.kind for letter in reply.content.letters}
        strange = sorted((kinds | letters) - declared)
        require(not strange, subject, f"sends {', '.join(strange)}, which it does not declare")
        silent = sorted(kind for kind in kinds if (reply.round, reply.client, kind) not in disclosed)
        require(not silent, subject, f"sends {', '.join(silent)}, which disclosures.jsonl leaves out")
        for letter in reply.content.letters:
            told = (reply.round, reply.client, letter.recipient, letter.kind, "encrypted")
            require(
                told in sealed, subject, f"has a letter '{letter.kind}' that disclosures.jsonl leaves out"
            )
        masked = config.privacy.secure_aggregation
        require(masked or SHARES not in letters, subject, "deals shares of secrets without masks")
