"""Shared settings that exclude each other, and why; what a method or a part excludes it says itself."""

from __future__ import annotations

from fedtag.common.condensers.spec import NONE
from fedtag.common.config.forms import flatten
from fedtag.common.config.stacking import stacked_combinations
from fedtag.common.methods.spec import METHODS, sentences
from fedtag.common.models.spec import BACKBONES
from fedtag.common.numerics.robust_rules import GROUP_MEDIAN, GROUP_RULES, fewest_clients
from fedtag.common.parts.spec import part_specs
from fedtag.common.secure.shares import threshold
from fedtag.common.settings.run_settings import RunSettings

ROBUST_RULES = frozenset({"median", "trimmed-mean", "krum", "multi-krum", "bulyan"})
HOSTILE_RULES = frozenset({"krum", "multi-krum", "bulyan", *GROUP_RULES})


def excluded_combinations(settings: RunSettings) -> tuple[str, ...]:
    """One sentence for each combination of settings that makes no sense; empty if all go together."""
    method = METHODS.get(settings.method)
    return (
        *_rules(settings),
        *_secure(settings),
        *_differential(settings),
        *_condensation(settings),
        *_batches(settings),
        *_started(settings),
        *stacked_combinations(settings),
        *sentences(
            (*method.excluded, *(one for part in part_specs(settings) for one in part.excluded)), settings
        ),
    )


def _started(settings: RunSettings) -> tuple[str, ...]:
    """What does not go with training on from a released model, or with extending a run."""
    parent = settings.parent
    if parent.run:
        if not 0 < parent.rounds < settings.rounds:
            return (
                f"rounds = {settings.rounds}: the run to extend has done {parent.rounds} rounds, ask for more of them",
            )
        if settings.privacy.secure_aggregation and settings.aggregation.rule in GROUP_RULES:
            sentence = (
                f"aggregation.rule = {settings.aggregation.rule}: groups would be drawn anew in a run that extends "
                "another, and sums over both tell single updates: begin anew, or train on from its released model"
            )
            return (sentence,)
        return ()
    if not parent.model:
        return ()
    tables = {name: table.model_dump(by_alias=True) for name, table in settings.tables.items()}
    flat = flatten({**settings.model_dump(by_alias=True), **tables})
    if settings.privacy.dp.mode == "off" and not METHODS.get(settings.method).noises(flat):
        return ()
    sentence = (
        "parent.model: the guarantee of a run that adds noise would leave out what the released model tells from which "
        "it trains on: begin anew, without that model, or do without noise"
    )
    return (sentence,)


def groups_by_default(settings: RunSettings) -> bool:
    """Whether sums of a run are opened by group where nobody says how: where masks would hide who spoils them.

    Not where the method, or another setting, needs one sum over all.
    """
    fewest = fewest_clients(GROUP_MEDIAN, 0, 0.0)
    if (
        settings.aggregation.rule != "mean"
        or not settings.privacy.secure_aggregation
        or settings.clients < fewest
    ):
        return False
    aggregation = settings.aggregation.model_copy(update={"rule": GROUP_MEDIAN})
    changed = settings.model_copy(update={"aggregation": aggregation})
    return len(excluded_combinations(changed)) <= len(excluded_combinations(settings))


def _condensation(settings: RunSettings) -> list[str]:
    name = settings.condenser.name
    if name == NONE or METHODS.get(settings.method).traits.condensed == "any":
        return []
    others = ", ".join(one for one, spec in METHODS.usable().items() if spec.traits.condensed == "any")
    return [
        f"condenser.name = {name} has no place in method {settings.method}: set it to {NONE}, or choose one of {others}"
    ]


def _batches(settings: RunSettings) -> list[str]:
    name, size = settings.model.backbone, settings.train.batch_size
    spec = BACKBONES.get(name)
    if size and spec.sampled and spec.sums and settings.train.fan_out:
        sums = (
            f"train.fan-out = {settings.train.fan_out}: backbone {name} adds up what neighbours say, and learns other "
            "sums of some of them than it is used with: set train.fan-out = 0, or choose another backbone"
        )
        return [sums]
    if not size or spec.sampled:
        return []
    sentence = (
        f"train.batch-size = {size}: backbone {name} reads the whole graph at once: set train.batch-size = 0, or "
        "choose another backbone"
    )
    return [sentence]


def _rules(settings: RunSettings) -> list[str]:
    aggregation = settings.aggregation
    wrong = []
    if aggregation.rule in ROBUST_RULES and aggregation.weights == "distribution-aware":
        wrong.append(
            f"aggregation.rule = {aggregation.rule} treats all clients alike, so distribution-aware weights "
            "would have no effect: set aggregation.weights = samples, or rule = mean"
        )
    if 0 < aggregation.norm_factor < 1:
        wrong.append(
            f"aggregation.norm-factor = {aggregation.norm_factor:g} would cut the median update itself: set it to 1 at "
            "least, or to 0 to cut none"
        )
    if aggregation.hostile and aggregation.rule not in HOSTILE_RULES:
        wrong.append(
            f"aggregation.hostile has no meaning with rule = {aggregation.rule}: use {', '.join(sorted(HOSTILE_RULES))}"
        )
    if aggregation.rule in GROUP_RULES and not settings.privacy.secure_aggregation:
        wrong.append(
            f"aggregation.rule = {aggregation.rule} compares masked sums of groups: set privacy.secure-aggregation = "
            "true, or rule = median"
        )
    needed = fewest_clients(aggregation.rule, aggregation.hostile, aggregation.trim)
    training = max(1, round(settings.train.client_fraction * settings.clients))
    if training < needed and METHODS.get(settings.method).traits.sums:
        wrong.append(
            f"aggregation.rule = {aggregation.rule} with aggregation.hostile = {aggregation.hostile} needs at least "
            f"{needed} clients a round, there are {training}: add clients, or set rule = mean"
        )
    if (
        settings.train.extra_epochs
        and not settings.train.accuracy_threshold
        and not METHODS.get(settings.method).traits.paces
    ):
        wrong.append("train.extra-epochs needs train.accuracy-threshold, under which a client works longer")
    return wrong


def _secure(settings: RunSettings) -> list[str]:
    privacy, aggregation = settings.privacy, settings.aggregation
    if not privacy.secure_aggregation:
        needing = {"hide-statistics": privacy.hide_statistics, "roster": privacy.roster}
        return [
            f"privacy.{name} works on masked sums: set privacy.secure-aggregation = true"
            for name, wanted in needing.items()
            if wanted
        ]
    wrong = []
    if not METHODS.get(settings.method).traits.sums:
        wrong.append(
            f"method {settings.method} sums nothing over clients: leave privacy.secure-aggregation off"
        )
    elif settings.clients < 2:
        wrong.append("privacy.secure-aggregation needs at least 2 clients: one client's sum is its update")
    if aggregation.rule in ROBUST_RULES:
        wrong.append(
            f"aggregation.rule = {aggregation.rule} looks at single updates, which secure aggregation hides: "
            "set rule = group-median, or mean"
        )
    if aggregation.max_update_norm:
        wrong.append(
            "aggregation.max-update-norm looks at single updates, which secure aggregation hides: "
            "clients can clip by privacy.dp.clip instead"
        )
    if settings.train.client_fraction < 1:
        wrong.append(
            "train.client-fraction below 1 leaves too few clients to unmask a sum, which takes more than two thirds: "
            "set it to 1 with secure aggregation"
        )
    if aggregation.weights == "distribution-aware" and aggregation.statistics == "current":
        wrong.append(
            "secure aggregation needs the weights before the masked upload: "
            "set aggregation.statistics = previous with distribution-aware weights"
        )
    if privacy.hide_statistics and aggregation.weights != "uniform":
        wrong.append(
            f"aggregation.weights = {aggregation.weights} are made of what privacy.hide-statistics hides: "
            "set aggregation.weights = uniform"
        )
    if privacy.hide_statistics and privacy.scale_bits < 36:
        wrong.append(
            f"privacy.scale-bits = {privacy.scale_bits} would round hidden losses and confidences: "
            "set it to 36 at least"
        )
    if settings.clients * privacy.limit * 2.0**privacy.scale_bits >= 2.0**63:
        wrong.append(
            f"{settings.clients} clients, privacy.limit {privacy.limit:g} and privacy.scale-bits {privacy.scale_bits} "
            "could overflow 64 bits: lower limit or scale-bits"
        )
    return wrong


def _differential(settings: RunSettings) -> list[str]:
    privacy, aggregation = settings.privacy, settings.aggregation
    dp = privacy.dp
    if dp.mode == "off":
        return []
    wrong = []
    if not METHODS.get(settings.method).traits.sums:
        wrong.append(f"method {settings.method} releases no sum over clients: set privacy.dp.mode = off")
    if aggregation.weights != "uniform":
        wrong.append(
            f"aggregation.weights = {aggregation.weights} depend on who takes part, so that the noise would not "
            "cover them: set aggregation.weights = uniform with differential privacy"
        )
    if aggregation.normalise != "none" or aggregation.rule != "mean":
        wrong.append(
            "differential privacy bounds each client's part of a plain sum: set aggregation.normalise = none "
            "and rule = mean"
        )
    if settings.train.client_fraction < 1:
        wrong.append("differential privacy is accounted for without sampling: set train.client-fraction = 1")
    if dp.mode == "central" and privacy.secure_aggregation:
        wrong.append(
            "under secure aggregation the server cannot add the noise before it sees the sum: "
            "set privacy.dp.mode = distributed"
        )
    if dp.mode == "distributed" and not (privacy.secure_aggregation and privacy.hide_statistics):
        wrong.append(
            "distributed noise protects from the server, which must then see sums only: set "
            "privacy.secure-aggregation and privacy.hide-statistics = true, or privacy.dp.mode = central"
        )
    if dp.mode == "distributed" and settings.clients >= 2:
        if dp.colluders >= threshold(settings.clients):
            wrong.append(
                f"privacy.dp.colluders = {dp.colluders} leaves no honest noise in a sum of "
                f"{threshold(settings.clients)} clients: lower it, or add clients"
            )
        if 6 * dp.noise * dp.clip > privacy.limit:
            wrong.append(
                f"noise of {dp.noise:g} clips of {dp.clip:g} would go beyond privacy.limit = {privacy.limit:g}: "
                "lower privacy.dp.noise or clip, or raise the limit and lower scale-bits"
            )
    return wrong
