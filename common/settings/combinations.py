"""Settings that exclude each other, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fedtag.common.methods.fedgc.stages import teaching_rounds
from fedtag.common.numerics.robust_rules import fewest_clients
from fedtag.common.secure.phases import FEWEST_USERS
from fedtag.common.secure.shares import threshold
from fedtag.common.settings.methods import ROUND_CORE

if TYPE_CHECKING:
    from fedtag.common.config import RunConfig

ROBUST_RULES = frozenset({"median", "trimmed-mean", "krum", "multi-krum", "bulyan"})
HOSTILE_RULES = frozenset({"krum", "multi-krum", "bulyan"})
# Their clients train on what condenser.name makes of their graphs.
METHODS_WITH_CONDENSERS = frozenset({"fedavg", "fedc4", "da_dfgas"})
# Their condensed nodes are real ones.
COPYING_CONDENSERS = frozenset({"random", "herding", "k-center", ROUND_CORE})
# Their clients upload no update that could be masked, clipped or combined.
METHODS_WITHOUT_SUMS = frozenset({"isolated", "centralised"})
SEARCH = "da_dfgas"


def excluded_combinations(config: RunConfig) -> tuple[str, ...]:
    """One sentence for each combination of aggregation and privacy settings that makes no sense.

    Empty if all settings go together (aggregation, sections 3 to 5).
    """
    return (
        *_rules(config),
        *_personal(config),
        *_secure(config),
        *_differential(config),
        *_condensation(config),
        *_generated_neighbours(config),
        *_server_side(config),
    )


def _generated_neighbours(config: RunConfig) -> list[str]:
    """Where generated neighbours have no place."""
    if not config.train.neighbour_generator:
        return []
    reasons = {
        "centralised": "holds the whole graph, in which no neighbour is missing",
        "dance": "selects evidence among texts, and a generated neighbour has none",
    }
    wrong = []
    if config.method in reasons:
        wrong.append(
            f"method {config.method} {reasons[config.method]}: set train.neighbour-generator = false, or choose "
            "fedavg, fedc4, da_dfgas, fedgc or isolated"
        )
    elif config.method != SEARCH and config.model.backbone == "mlp":
        wrong.append(
            "model.backbone = mlp reads no neighbours, so generated ones would do nothing: choose another backbone, "
            "or set train.neighbour-generator = false"
        )
    return wrong


def _condensation(config: RunConfig) -> list[str]:
    name = config.condenser.name
    wrong = []
    if name != "none" and config.method not in METHODS_WITH_CONDENSERS:
        wrong.append(
            f"condenser.name = {name} has no place in method {config.method}: set method = fedavg, fedc4 or "
            "da_dfgas, or condenser.name = none"
        )
    if config.method == "fedc4" and name == ROUND_CORE:
        wrong.append(
            f"condenser.name = {name} takes other nodes in every round, and fedc4 condenses once: choose gcond, "
            "gcond-x, doscond or sfgc, or set method = fedavg or da_dfgas"
        )
    elif config.method == "fedc4" and name in COPYING_CONDENSERS and config.fedc4.exchange != "off":
        wrong.append(
            f"condenser.name = {name} takes real nodes, which must not go to peers: choose gcond, gcond-x, "
            "doscond or sfgc, or set fedc4.exchange = off"
        )
    return wrong


def _server_side(config: RunConfig) -> list[str]:
    """What does not go with sums over classes, of which the server takes quotients."""
    if config.method != "fedgc":
        return []
    aggregation, wrong = config.aggregation, []
    plain = aggregation.rule == "mean" and aggregation.normalise == "none"
    if not plain or aggregation.weights not in ("samples", "uniform"):
        wrong.append(
            "fedgc sums gradients over the nodes of a class: set aggregation.rule = mean, normalise = none, and "
            "weights = samples or uniform"
        )
    if aggregation.average_decay > 0:
        wrong.append(
            "fedgc has no model that moves from round to round, which aggregation.average-decay could average: set it "
            "to 0"
        )
    if config.privacy.dp.mode != "off":
        wrong.append(
            "differential privacy would put noise on the counts by which fedgc divides: set privacy.dp.mode = off"
        )
    if config.fedgc.exchange != "off":
        wrong += _neighbour_sums(config)
    if teaching_rounds(config) >= config.rounds:
        wrong.append(
            f"fedgc.self-training-rounds = {config.fedgc.self_training_rounds} leave none of the {config.rounds} "
            "rounds for condensation: raise rounds, or set fedgc.self-training-rounds lower"
        )
    return wrong


def _neighbour_sums(config: RunConfig) -> list[str]:
    """What does not go with features to which nodes at other institutions have added."""
    wrong = []
    if config.train.inductive:
        wrong.append(
            "fedgc.exchange brings the features of test nodes to those that train, which train.inductive forbids: set "
            "one of them off"
        )
    if config.data.overlap:
        wrong.append(
            "fedgc.exchange would add copied nodes twice, as copies and as neighbours elsewhere: set data.overlap = 0"
        )
    if config.privacy.hide_statistics:
        wrong.append(
            "privacy.hide-statistics lets masked sums alone through, and fedgc.exchange has parts of other sums: set "
            "one of them off"
        )
    return wrong


def _rules(config: RunConfig) -> list[str]:
    aggregation = config.aggregation
    wrong = []
    if aggregation.rule in ROBUST_RULES and aggregation.weights == "distribution-aware":
        wrong.append(
            f"aggregation.rule = {aggregation.rule} treats all clients alike, so distribution-aware weights "
            "would have no effect: set aggregation.weights = samples, or rule = mean"
        )
    if aggregation.hostile and aggregation.rule not in HOSTILE_RULES:
        wrong.append(
            f"aggregation.hostile has no meaning with rule = {aggregation.rule}: use krum, multi-krum or bulyan"
        )
    needed = fewest_clients(aggregation.rule, aggregation.hostile, aggregation.trim)
    training = max(1, round(config.train.client_fraction * config.clients))
    if training < needed and config.method not in METHODS_WITHOUT_SUMS:
        wrong.append(
            f"aggregation.rule = {aggregation.rule} with aggregation.hostile = {aggregation.hostile} needs at least "
            f"{needed} clients a round, there are {training}: add clients, or set rule = mean"
        )
    if config.train.extra_epochs and not config.train.accuracy_threshold and config.method != SEARCH:
        wrong.append("train.extra-epochs needs train.accuracy-threshold, under which a client works longer")
    return wrong


def _personal(config: RunConfig) -> list[str]:
    """What does not go with updates of which clients have only some tensors."""
    if config.method != SEARCH or not config.dadfgas.personal:
        return []
    remedy = "set dadfgas.personal = false, so that all clients train the same architecture"
    wrong = []
    if config.privacy.secure_aggregation and config.clients < FEWEST_USERS:
        wrong.append(
            f"under secure aggregation only what {FEWEST_USERS} clients use is summed, and of {config.clients} with "
            f"architectures of their own nothing is: {remedy}, or add clients"
        )
    if config.privacy.dp.mode != "off":
        wrong.append(
            "differential privacy needs a public number of contributors to every tensor, which architectures of "
            f"clients' own would tell: {remedy}"
        )
    if config.aggregation.rule != "mean":
        wrong.append(
            f"aggregation.rule = {config.aggregation.rule} compares whole updates, and clients with architectures "
            f"of their own send different tensors: {remedy}, or set rule = mean"
        )
    return wrong


def _secure(config: RunConfig) -> list[str]:
    privacy, aggregation = config.privacy, config.aggregation
    if not privacy.secure_aggregation:
        needing = {"hide-statistics": privacy.hide_statistics, "roster": privacy.roster}
        return [
            f"privacy.{name} works on masked sums: set privacy.secure-aggregation = true"
            for name, wanted in needing.items()
            if wanted
        ]
    wrong = []
    if config.method in METHODS_WITHOUT_SUMS:
        wrong.append(
            f"method {config.method} sums nothing over clients: leave privacy.secure-aggregation off"
        )
    elif config.clients < 2:
        wrong.append("privacy.secure-aggregation needs at least 2 clients: one client's sum is its update")
    if aggregation.rule != "mean":
        wrong.append(
            f"aggregation.rule = {aggregation.rule} looks at single updates, which secure aggregation hides: "
            "set rule = mean"
        )
    if aggregation.max_update_norm:
        wrong.append(
            "aggregation.max-update-norm looks at single updates, which secure aggregation hides: "
            "clients can clip by privacy.dp.clip instead"
        )
    if config.train.client_fraction < 1:
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
    if privacy.largest_weight * config.clients < 1:
        wrong.append(
            f"privacy.largest-weight = {privacy.largest_weight:g} is less than an equal share of "
            f"{config.clients} clients: set it to {1 / max(config.clients, 1):.3g} at least"
        )
    if privacy.hide_statistics and privacy.scale_bits < 36:
        wrong.append(
            f"privacy.scale-bits = {privacy.scale_bits} would round hidden losses and confidences: "
            "set it to 36 at least"
        )
    if config.clients * privacy.limit * 2.0**privacy.scale_bits >= 2.0**63:
        wrong.append(
            f"{config.clients} clients, privacy.limit {privacy.limit:g} and privacy.scale-bits {privacy.scale_bits} "
            "could overflow 64 bits: lower limit or scale-bits"
        )
    return wrong


def _differential(config: RunConfig) -> list[str]:
    privacy, aggregation = config.privacy, config.aggregation
    dp = privacy.dp
    if dp.mode == "off":
        return []
    wrong = []
    if config.method in METHODS_WITHOUT_SUMS:
        wrong.append(f"method {config.method} releases no sum over clients: set privacy.dp.mode = off")
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
    if config.train.client_fraction < 1:
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
    if dp.mode == "distributed" and config.clients >= 2:
        if dp.colluders >= threshold(config.clients):
            wrong.append(
                f"privacy.dp.colluders = {dp.colluders} leaves no honest noise in a sum of "
                f"{threshold(config.clients)} clients: lower it, or add clients"
            )
        if 6 * dp.noise * dp.clip > privacy.limit:
            wrong.append(
                f"noise of {dp.noise:g} clips of {dp.clip:g} would go beyond privacy.limit = {privacy.limit:g}: "
                "lower privacy.dp.noise or clip, or raise the limit and lower scale-bits"
            )
    return wrong
