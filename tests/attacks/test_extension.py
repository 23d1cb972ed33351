"""A server that extends a run at its sites: what they check before they go on with what they kept of it.

Each attack is tried as it is repelled, and as a control in which what is checked is as it should be.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from fedtag.client.policy.gate import Gate
from fedtag.client.policy.spending import spent_by_run
from fedtag.client.run.agreement import fix_settings
from fedtag.client.run.inheritance import inherit
from fedtag.client.site.state import StateStore
from fedtag.common.audit_log.verification import lines_of
from fedtag.common.config import RunConfig
from fedtag.common.errors import ConfigError, PolicyError, ProtocolError
from fedtag.common.numerics.accounting import epsilon
from fedtag.common.wire.records import Content, Instruction
from fedtag.server.run.extension import extend, extending
from fedtag.server.tracking.run_directory import RunDirectory
from tests.tiny import Tiny, Tried

MASKED: dict[str, Any] = {"privacy.secure-aggregation": True, "privacy.roster": True}
NOISY: dict[str, Any] = {
    "privacy.dp.mode": "central",
    "privacy.dp.noise": 4.0,
    "aggregation.weights": "uniform",
}


def longer(tiny: Tiny, first: Tried, rounds: int, settings: Mapping[str, object], **given: Any) -> Tried:
    """The same sites, with what they keep, in a run that extends one of theirs."""
    place = first.place
    parent = Path(shutil.move(place / "run", place / "first"))
    config = extending(RunDirectory.open(parent), {"rounds": rounds})
    (place / "run").mkdir()
    extend(RunDirectory.open(parent), config, place / "run")
    RunDirectory.open(place / "run").write_config(config.without_places().to_nested())
    names = {key: value for key, value in config.to_flat().items() if key.startswith("parent.")}
    return tiny({**settings, **names, "rounds": rounds}, place=place, **given)


def told(run: str, step: int = 9) -> Instruction:
    return Instruction(run, step, 3, "train", Content({}, {"introduce": True}))


@pytest.fixture(params=[{}, MASKED], ids=["clear", "masked"])
def finished(request: pytest.FixtureRequest, tiny: Tiny) -> Tried:
    return tiny({"rounds": 2, **request.param}, rosters=bool(request.param))


def config_of(finished: Tried, **changes: object) -> RunConfig:
    config = extending(RunDirectory.open(finished.place / "run"), {"rounds": 4})
    return RunConfig.from_flat({**config.to_flat(), **changes})


def test_sites_go_on_with_what_they_kept_and_note_it(tiny: Tiny) -> None:
    first = tiny({"rounds": 2, **MASKED}, rosters=True)
    run = first.rounds.run_state.run
    extended = longer(tiny, first, 4, MASKED, rosters=True)
    whole = tiny({"rounds": 4, **MASKED}, rosters=True)
    assert extended.summary is not None
    assert all(torch.equal(value, whole.state[name]) for name, value in extended.state.items())
    # Each site said anew who it is, and the instruction that asked for it was the first of the new run.
    asked = {one.client for one in extended.grid.exchanges[0] if one.told.content.values.get("introduce")}
    assert asked == {"site-0", "site-1", "site-2"}
    for log in (extended.place / "site-0" / "audit", extended.place / "home" / "audit"):
        started = [line.facts for line in lines_of(log) if line.event == "started"]
        begun = [facts for facts in started if facts.get("what") == "run"]
        assert [facts.get("parent") for facts in begun] == [None, run]


def test_settings_rounds_and_data_are_those_of_the_run_that_is_extended(finished: Tried) -> None:
    site = finished.sessions[0].site
    for changes, why in (
        ({"train.learning-rate": 0.5}, "train.learning-rate = 0.01 there, 0.5 here"),
        ({"parent.rounds": 1}, "came to site-0 with rounds = 2, and is to be extended after 1"),
        ({"parent.run": "another"}, "keeps nothing of run another"),
    ):
        with pytest.raises(ProtocolError, match=why):
            inherit(site, told("new"), config_of(finished, **changes))
    nodes = Path(shutil.copytree(site.folder, finished.place / "changed")) / "nodes.csv"
    nodes.write_text(nodes.read_text().replace(",train", ",test", 1))
    with pytest.raises(ProtocolError, match="the data of site-0 are not those of run"):
        inherit(replace(site, folder=nodes.parent), told("new"), config_of(finished))
    assert not (site.state / "new").exists()
    # The control.
    run = finished.rounds.run_state.run
    StateStore(site.state, run).save(2, 8, {"model/weight": torch.ones(2)}, {"kept": True})
    inherit(site, told("new"), config_of(finished))
    taken = StateStore(site.state, "new").load_before(9)
    assert taken is not None
    assert (taken.tensors["model/weight"].tolist(), taken.values) == ([1.0, 1.0], {"kept": True})


def test_under_masks_a_run_is_extended_once(finished: Tried) -> None:
    """A second one would sum the same updates over other members, and the difference is what masks hide."""
    site, config = finished.sessions[0].site, config_of(finished)
    inherit(site, told("new"), config)
    inherit(site, told("new", 10), config)
    if not config.privacy.secure_aggregation:
        # The control: in clear there is nothing to hide from the server.
        inherit(site, told("second"), config)
        return
    with pytest.raises(ProtocolError, match="was extended at site-0 by run new"):
        inherit(site, told("second"), config)
    # Nor does the run itself go on, or one of its rounds come again.
    run = finished.rounds.run_state.run
    own = RunConfig.from_flat({**config.to_flat(), "parent.run": "", "parent.model": "", "parent.rounds": 0})
    with pytest.raises(ProtocolError, match="this run was extended at site-0 by run new"):
        inherit(site, told(run), own)
    with pytest.raises(ProtocolError, match="round 2 is one of the 2 of the run that this one extends"):
        inherit(site, replace(told("new", 11), round=2), config)


def test_what_was_compared_with_the_parent_stays_also_without_an_introduction(finished: Tried) -> None:
    site, config = finished.sessions[0].site, config_of(finished)
    unasked = replace(told("new"), content=Content({}, {}))
    inherit(site, unasked, config)
    fix_settings(site, unasked, config)
    for message in (unasked, told("new", 10)):
        with pytest.raises(ProtocolError, match="this run came to site-0 with other settings before"):
            fix_settings(site, message, config_of(finished, **{"train.learning-rate": 0.5}))
    # The control: a run that has taken over nothing keeps its settings once it has introduced itself, and not before.
    fix_settings(site, replace(unasked, run="other"), config)
    fix_settings(site, replace(unasked, run="other"), config_of(finished, **{"train.learning-rate": 0.5}))


def test_sums_by_group_are_not_opened_over_other_groups() -> None:
    grouped = {"clients": 9, "rounds": 4, "aggregation.rule": "group-median", **MASKED}
    parent = {"parent.run": "first", "parent.rounds": 2}
    with pytest.raises(ConfigError, match=r"aggregation\.rule = group-median: groups would be drawn anew"):
        RunConfig.from_flat({**grouped, **parent})
    # The control: one sum over all, and groups of a run that extends none.
    RunConfig.from_flat({**grouped, **parent, "aggregation.rule": "mean"})
    RunConfig.from_flat(grouped)


def test_the_run_that_is_extended_is_not_the_one_that_is_forgotten_for_room(finished: Tried) -> None:
    site, run = finished.sessions[0].site, finished.rounds.run_state.run
    for name in ("one", "two", "three"):
        StateStore(site.state, name).document("note.txt", "")
    inherit(site, told("new"), config_of(finished))
    assert StateStore(site.state, "new").find("inherited") is not None
    assert (site.state / run).is_dir()


def test_a_budget_is_over_both_runs_and_counts_the_new_rounds_alone(tiny: Tiny, tmp_path: Path) -> None:
    kept, policy = tmp_path / "kept", tmp_path / "policy.toml"
    kept.mkdir()
    limit = epsilon(4.0, 5, 1e-5)
    policy.write_text(f'folder = "{kept}"\n[budget]\nepsilon = {limit + 1e-9}\n')
    first = tiny({"rounds": 2, **NOISY}, policy=policy)
    config = extending(RunDirectory.open(first.place / "run"), {"rounds": 5})
    site = first.sessions[0].site
    Gate(site, config).admit(told("new"))
    with pytest.raises(PolicyError, match=r"rule 'budget\.epsilon'"):
        Gate(site, RunConfig.from_flat({**config.to_flat(), "rounds": 6})).admit(told("new"))
    extended = longer(tiny, first, 5, NOISY, policy=policy)
    assert extended.summary is not None
    spent = spent_by_run(kept)
    assert set(spent) == {first.rounds.run_state.run, extended.rounds.run_state.run}
    both = sum(one.noise for one in spent.values())
    assert epsilon(both**-0.5, 1, 1e-5) == pytest.approx(limit)
    assert extended.summary.privacy is not None
    assert extended.summary.privacy["epsilon"] == pytest.approx(limit)
