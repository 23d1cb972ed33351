"""The checks of each kind of extension."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any
from unittest import SkipTest

from fedtag.common.condensers.spec import CONDENSERS, CondenserSpec
from fedtag.common.config import RunConfig
from fedtag.common.errors import ConfigError
from fedtag.common.methods.spec import METHODS, PRESETS, MethodSpec, PresetSpec
from fedtag.common.models.spec import BACKBONES, BackboneSpec
from fedtag.common.parts.spec import PARTS, PartSpec
from fedtag.common.settings.registry import Registry, Spec
from fedtag.runs.listing import register
from fedtag.testing.checks import (
    labels,
    lacking,
    masks,
    prediction,
    repetition,
    rows,
    saying,
    shapes,
    stacking,
    wire,
)
from fedtag.testing.subject import Subject

Settings = Mapping[str, Any]
Check = Callable[[Subject], None]

RUNS: tuple[Check, ...] = (
    rows.every_round_has_a_complete_row,
    rows.every_client_has_a_row_a_round,
    rows.accuracies_are_pooled_over_nodes,
    rows.the_summary_repeats_the_rows,
    rows.the_released_model_is_that_of_the_best_round,
    rows.no_number_is_infinite,
    wire.nothing_crosses_but_what_is_declared,
    repetition.the_same_seed_gives_the_same_bits,
    repetition.a_stopped_run_goes_on_to_the_same_bits,
    repetition.each_message_may_find_another_process,
    repetition.another_seed_gives_another_update,
    labels.labels_of_test_nodes_change_no_model,
    labels.labels_of_judging_nodes_reach_no_training,
    lacking.clients_that_lack_something_take_part,
    lacking.nothing_infinite_comes_of_lacking,
    lacking.weights_follow_training_nodes,
    lacking.scores_are_empty_where_nothing_can_be_scored,
    prediction.predictions_score_as_the_run_did,
    prediction.every_node_gets_probabilities,
    prediction.the_way_of_scoring_is_the_one_that_validation_chose,
    prediction.evidence_is_that_of_the_run,
    prediction.what_releases_nothing_says_so,
    stacking.clients_trained_at_once_come_to_the_same,
)
"""Of any run, whatever its settings."""
EXTENSION: tuple[Check, ...] = (
    saying.it_says_what_it_is,
    saying.reading_it_imports_no_torch,
    saying.its_pages_are_written,
    *RUNS,
    masks.masks_change_nothing_but_rounding,
)
"""Of whatever computes."""
METHOD: tuple[Check, ...] = (
    *EXTENSION,
    masks.hidden_statistics_stay_with_clients,
    lacking.without_training_nodes_a_run_is_refused,
    lacking.any_client_can_be_the_only_one,
    lacking.without_validation_nodes_the_last_round_is_released,
)
"""Of a method or a preset: also what its server's side alone decides."""
BACKBONE: tuple[Check, ...] = (
    shapes.any_graph_gives_finite_logits,
    shapes.the_order_of_nodes_does_not_matter,
    shapes.links_and_weights_matter_as_it_says,
    shapes.its_parameters_are_all_that_it_is,
    shapes.parts_say_what_the_whole_says,
    *EXTENSION,
)
CHECKS: Mapping[Registry[Any], tuple[Check, ...]] = {
    METHODS: METHOD,
    PRESETS: METHOD,
    PARTS: EXTENSION,
    CONDENSERS: EXTENSION,
    BACKBONES: BACKBONE,
}
"""By where something is found."""


def check_method(method: str | MethodSpec | PresetSpec, settings: Settings | None = None) -> None:
    """Ask of a method or preset what every method owes its users.

    Its runs are complete, deterministic and resumable to the bit, in one process or many; clients that lack something
    take part; labels of test nodes change no model, and those of validation nodes no training; masks change nothing but
    rounding; it predicts as it scored; what it names can be imported, and reading its specification imports no PyTorch.
    What it sends is what it declares, else nothing comes of its runs.

    Args:
        method: its name, or its specification.
        settings: further ones, by dotted key, for example those that make it quick.

    Raises:
        AssertionError: it breaks one of these; the text says which.
        FedtagError: a run fails.
    """
    _ask(METHODS if isinstance(method, MethodSpec) or method in METHODS else PRESETS, method, settings)


def check_part(part: str | PartSpec, settings: Settings | None = None) -> None:
    """The same of a part, around the first method with which it goes; `settings` may name another one."""
    _ask(PARTS, part, settings)


def check_condenser(condenser: str | CondenserSpec, settings: Settings | None = None) -> None:
    """The same of a condenser, under the first method whose clients train on what any condenser makes."""
    _ask(CONDENSERS, condenser, settings)


def check_backbone(backbone: str | BackboneSpec, settings: Settings | None = None) -> None:
    """The same of a backbone; and that it takes graphs without edges, of one node, and has gradients, that the order of
    nodes does not matter, and links and their weights as it says, and that its parameters are all that it is.
    """
    _ask(BACKBONES, backbone, settings)


def choosing(registry: Registry[Any], name: str, settings: Settings | None = None) -> dict[str, Any]:
    """Settings of a run that is made of something, by dotted key; `settings` may say what else it is made of."""
    given = dict(settings or {})
    if registry in (METHODS, PRESETS):
        return {"method": name, **given}
    if registry is PARTS and (switch := PARTS.get(name).switch) and f"{name}.{switch}" in given:
        # What a switch turns on need not be named.
        return with_method(given)
    return with_method({registry.key: name, **given})


def with_method(settings: Settings) -> dict[str, Any]:
    """Settings with the first method that goes with them, trains the backbone and has clients of its own.

    Raises:
        ConfigError: none does; with why the last one does not.
    """
    if "method" in settings:
        return dict(settings)
    last: ConfigError | None = None
    for name, spec in METHODS.usable().items():
        traits = spec.traits
        if not traits.backbone or traits.pooled or not traits.sums or traits.texts != "no":
            continue
        try:
            RunConfig.from_flat({"method": name, **settings})
        except ConfigError as error:
            last = error
            continue
        return {"method": name, **settings}
    raise last or ConfigError("no method goes with these settings: name one with settings={'method': ...}")


def _ask(registry: Registry[Any], spec: str | Spec, settings: Settings | None) -> None:
    name = spec if isinstance(spec, str) else register(spec)
    chosen = choosing(registry, name, settings)
    with tempfile.TemporaryDirectory(prefix="fedtag-") as folder:
        ask(Subject(f"{registry.what} {name}", chosen, Path(folder)), CHECKS[registry])


def ask(subject: Subject, checks: Iterable[Check]) -> None:
    """Each check in turn, but for those that make no sense of the subject."""
    for check in checks:
        try:
            check(subject)
        except SkipTest:
            continue
