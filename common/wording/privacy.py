"""What a membership audit says, for every place that shows one.

A record is the plain object of a privacy.json: counts, areas under ROC curves with intervals, controls.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fedtag.common.wording.counts import plural

TERMS = (
    (
        "An attack scores nodes by what a model says of them, and is right as far as it puts training nodes above "
        "test nodes: its AUC is the chance that it does so with one of each, 0.5 by guessing"
    ),
    "Test nodes are weighed so that their classes have the shares that they have among the training nodes",
    "Confidence and modified entropy use the label of the attacked node, entropy and the shadow model do not",
)
"""What the figures mean."""

CONTROLS = {
    "overfitted": "Models that know the training nodes by heart are caught (AUC of at least 0.8)",
    "dealt": "Memberships dealt by lot are not told (AUC within 0.5 ± 0.03)",
    "never seen": "Models that never saw a training or test node tell nothing (AUC within 0.5 ± 0.03)",
}
WITHOUT_STRANGERS = (
    "Models that never saw the data could not be trained: too few labelled nodes are outside every split"
)
OF_RELEASE = ("released", "self-trained", "condensed", "insider")
"""Kinds of targets that are passed on with a condensed graph, or asked by who took part."""
SEEN = "transcript"
"""Kind of what the server saw."""

PSEUDO = "pseudo-labelled nodes"
TEACHER_TELLS = (
    "What the self-trained model tells, the server, the sites and, if it is released, whoever gets it can learn, "
    "whatever the condensed graph hides. Masked sums do not change that model; fewer rounds of self-training stop it "
    "earlier, and without pseudo-labels and a bottleneck there is none. Audit the run that was made so: only its "
    "figures count"
)
SERVER_SAW = (
    "What the server saw goes to nobody else by itself, but the server, and whoever reads along there, could tell so "
    "much"
)
UNSEEN = "What the server saw was not attacked: it may tell more than what is released"
WITHOUT_INSIDER = (
    "The condensed graph was not asked with the features that sites keep, which were not at hand: an insider may learn "
    "more"
)
CHOSEN = (
    "Pseudo-labelled nodes were chosen because the self-trained model was sure of them: that alone sets them apart "
    "from test nodes"
)
LEFT = "Stronger attacks may tell more: the figures are what these attacks reach, and bound no other one"


@dataclass(frozen=True)
class AttackRow:
    """One attack on one target.

    Args:
        target, group, attack: names; `group` is the members that are told apart.
        members, non_members: how many nodes.
        auc, low, high: area and its 95% interval.
        low_rate: true positive rate at 1% false positives; None where it was not measured.
    """

    target: str
    group: str
    attack: str
    members: int
    non_members: int
    auc: float
    low: float
    high: float
    low_rate: float | None

    @property
    def interval(self) -> str:
        """As `0.790 to 0.848`."""
        return f"{self.low:.3f} to {self.high:.3f}"

    @property
    def low_rate_words(self) -> str:
        """The rate in percent, or that there is none."""
        return "not measured" if self.low_rate is None else f"{100 * self.low_rate:.1f}%"


def attack_rows(target: Mapping[str, Any]) -> list[AttackRow]:
    """All attacks on a target, by group of members."""
    return [
        AttackRow(
            target["name"],
            group,
            attack,
            told["members"],
            told["non_members"],
            *(found[key] for key in ("auc", "low", "high", "low_rate")),
        )
        for group, told in target["groups"].items()
        for attack, found in told["attacks"].items()
    ]


def strongest(rows: Sequence[AttackRow]) -> AttackRow:
    """The attack with the largest area."""
    return max(rows, key=lambda row: row.auc)


def verdict(target: Mapping[str, Any]) -> str:
    """What is known of a target's training nodes by its strongest attack; never that they are safe."""
    best = strongest_on_first(target)
    found = f"AUC {best.auc:.3f} (95% interval {best.interval}) by {best.attack}"
    if best.low > 0.5:
        return f"{best.target}: gives away who was among the {best.group}, {found}"
    return f"{best.target}: no attack that was tried is shown to beat guessing, at most {found}"


def strongest_on_first(target: Mapping[str, Any]) -> AttackRow:
    """The strongest attack on a target's first group of members, which is the training nodes where these can be
    compared."""
    first = next(iter(target["groups"]))
    return strongest([row for row in attack_rows(target) if row.group == first])


def conclusions(record: Mapping[str, Any]) -> list[str]:
    """What follows for a run that condenses one graph, from all of its targets; nothing for others.

    It is judged by whichever tells most: the graph, the models that were made for it, or what the server saw. Where no
    attack succeeds, that is said, and not that none could.
    """
    best = {
        one["name"]: (one["kind"], strongest_on_first(one))
        for one in record["targets"]
        if one["kind"] in (*OF_RELEASE, SEEN)
    }
    released = {kind: row for kind, row in best.values() if kind in OF_RELEASE}
    seen = [row for kind, row in best.values() if kind == SEEN]
    if not released.keys() & {"condensed", "insider"} and not seen:
        return []
    most = max((row for _, row in best.values()), key=lambda row: (row.low > 0.5, row.auc))
    if most.low > 0.5:
        first = (
            f"This run gives away who was in training, most of all by the {most.target} (AUC {most.auc:.3f}): do not "
            "pass anything of it on as what hides its training nodes"
        )
    else:
        first = (
            f"No attack that was tried on any of the {len(best)} targets of this run is shown to beat guessing, which "
            "does not prove that none would"
        )
    told = [first]
    if not seen:
        told.append(UNSEEN)
    elif any(row.low > 0.5 for row in seen):
        told.append(SERVER_SAW)
    teacher = released.get("self-trained")
    if teacher is not None and teacher.low > 0.5:
        told.append(TEACHER_TELLS)
    if "insider" not in released and "condensed" in released:
        told.append(WITHOUT_INSIDER)
    if any(PSEUDO in one["groups"] for one in record["targets"] if one["kind"] in OF_RELEASE):
        told.append(CHOSEN)
    return told


def population_sentence(record: Mapping[str, Any]) -> str:
    """Whom the audit compared, and what the attacker had."""
    sites, all_sites = record["sites"], record.get("sites_of_run")
    whose = plural(sites, "site")
    if all_sites is not None and sites < all_sites:
        whose = f"{sites} of the {all_sites} sites, the folders of the others being absent"
    sentence = (
        f"{plural(record['members'], 'training node')} against {plural(record['non_members'], 'test node')} of "
        f"{whose}; "
        f"{record['models']} models of each kind and as many shadow attacks by an attacker who knows "
        f"{plural(record['shadow_nodes'], 'node')} outside every split"
    )
    if record["left_out"]:
        sentence += f"; {record['left_out']:,} training nodes of classes without test nodes are left out"
    return sentence


def control_sentences(record: Mapping[str, Any]) -> list[tuple[str, bool]]:
    """Each control in a sentence, and whether it is in order."""
    told = []
    for control in record["controls"]:
        found = (
            f"AUC {control['auc']:.3f} (95% interval {control['low']:.3f} to {control['high']:.3f}) "
            f"by {control['attack']}"
        )
        sentence = f"Control. {CONTROLS[control['name']]}: {control['verdict']}, {found}"
        if control["name"] == "never seen" and control["verdict"] == "fails":
            sentence += (
                ". Training nodes differ from test nodes before anything is trained, and the areas above contain "
                "that difference"
            )
        told.append((sentence, control["verdict"] == "holds"))
    if len(record["controls"]) == 1:
        told.append((f"Control. {WITHOUT_STRANGERS}", False))
    return told


def is_sound(record: Mapping[str, Any]) -> bool:
    """Whether the measurement itself stood its controls; how the data were split is none of them."""
    return all(
        control["verdict"] != "fails" for control in record["controls"] if control["name"] != "never seen"
    )
