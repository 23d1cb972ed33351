"""DA-DFGAS as one specification."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fedtag.common.methods.base import averaged_records
from fedtag.common.methods.da_dfgas.architecture_record import ToldArchitecture
from fedtag.common.methods.da_dfgas.settings import DaDfgasConfig
from fedtag.common.methods.records import Record
from fedtag.common.methods.spec import Exclusion, MethodSpec, Traits
from fedtag.common.secure.phases import FEWEST_USERS
from fedtag.common.settings.registry import INTERFACE
from fedtag.common.settings.run_settings import RunSettings

REMEDY = "set {}.personal = false, so that all clients train the same architecture"


def _too_few(settings: RunSettings) -> str:
    masked = settings.privacy.secure_aggregation and settings.clients < FEWEST_USERS
    if not (settings.own(DaDfgasConfig).personal and masked):
        return ""
    return (
        f"under secure aggregation only what {FEWEST_USERS} clients use is summed, and of {settings.clients} with "
        f"architectures of their own nothing is: {REMEDY.format(SPEC.name)}, or add clients"
    )


def _noise(settings: RunSettings) -> str:
    if not settings.own(DaDfgasConfig).personal or settings.privacy.dp.mode == "off":
        return ""
    return (
        "differential privacy needs a public number of contributors to every tensor, which architectures of "
        f"clients' own would tell: {REMEDY.format(SPEC.name)}"
    )


def _rules(settings: RunSettings) -> str:
    rule = settings.aggregation.rule
    if not settings.own(DaDfgasConfig).personal or rule == "mean":
        return ""
    return (
        f"aggregation.rule = {rule} compares whole updates, and clients with architectures of their own send different "
        f"tensors: {REMEDY.format(SPEC.name)}, or set rule = mean"
    )


def _extended(settings: RunSettings) -> str:
    if not settings.parent.run:
        return ""
    return (
        f"{SPEC.name}.search-share is a share of all rounds, so that a run which has ended its search cannot be "
        "extended: start from its released model, or begin anew"
    )


def resolved(settings: RunSettings) -> Mapping[str, Any]:
    """A client that lags behind takes twice the epochs where nobody says how many more."""
    if settings.own(DaDfgasConfig).adaptive and not settings.train.extra_epochs:
        return {"train.extra-epochs": settings.train.epochs}
    return {}


def words(settings: Mapping[str, Any]) -> Sequence[str]:
    """What the server learns of architectures that it is not told."""
    if not (settings.get("privacy.secure-aggregation") and settings.get(f"{SPEC.name}.personal")):
        return ()
    told = (
        "Clients do not tell their architectures, which lie in their own state folders; the server learns how many "
        f"clients use a tensor, leaves one with fewer than {FEWEST_USERS} users as it was, and of all others learns "
        "the sum of their users' weights, which can tell who they are where weights differ"
    )
    return (told,)


SPEC = MethodSpec(
    name="da_dfgas",
    title="DA-DFGAS: clients search architectures together, and train what they found",
    source="DA-DFGAS, Equations 5 to 13",
    interface=INTERFACE,
    settings=DaDfgasConfig,
    renamed={"dadfgas": "da_dfgas"},
    traits=Traits(condensed="any", backbone=False, paces=True),
    defaults={
        "train.epochs": 10,
        "train.optimizer": "sgd",
        "train.learning-rate": 0.1,
        "train.schedule": "cosine",
        "train.prox-mu": 0.01,
        "aggregation.weights": "distribution-aware",
        "aggregation.normalise": "fednova",
    },
    records=(
        *averaged_records(
            "the difference of the supernet's weights and architecture logits after local search; in retraining, "
            "of the weights that the client's architecture uses; under masks of all, and sums alone say how many "
            "clients use which, and what these weigh together"
        ),
        Record(
            "architecture",
            "the operations and edges of the client's network, and its number of parameters",
            form="value",
            schema=ToldArchitecture,
            column=True,
        ),
        Record("searched", "the supernet that the search left, to be scored once more", told=True),
        Record("search_rounds", "the number of rounds after which the search ended early", form="value"),
        Record("longer", "which clients are to train longer, since their accuracy lags behind", form="value"),
    ),
    excluded=(
        Exclusion("architectures of clients' own under masks of fewer than three", _too_few),
        Exclusion("architectures of clients' own with differential privacy", _noise),
        Exclusion("architectures of clients' own with a robust rule", _rules),
        Exclusion("more rounds for a finished run", _extended),
    ),
    resolved=resolved,
    words=words,
    keeps=lambda settings: settings.own(DaDfgasConfig).personal,
    client="fedtag.client.methods.da_dfgas:METHOD",
    server="fedtag.server.methods.da_dfgas.method:METHOD",
    report="fedtag.server.methods.da_dfgas.report:sections",
)
