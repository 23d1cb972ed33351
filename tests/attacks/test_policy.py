"""A server that wants more than a site's policy allows: other methods and settings, other records, more of everything.

Each attack is tried as it is repelled, and as a control in which it succeeds because the rule is not there. The data
of most sites here cannot be read: whoever looks at them fails with another error than that of the policy.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from fedtag.client.policy import gate
from fedtag.client.policy.requests import Requests
from fedtag.client.policy.spending import FILE, LOCK, Spent, spent_by_run
from fedtag.client.run.refusal import reason, signed
from fedtag.client.run.site_run import SiteRun
from fedtag.client.site.site import Site
from fedtag.client.worker.open_runs import OpenRuns
from fedtag.common.config import RunConfig
from fedtag.common.config.run_config import without_foreign
from fedtag.common.errors import ApprovalError, ConfigError, DataError, PolicyError, RunError
from fedtag.common.numerics.accounting import epsilon
from fedtag.common.secure.lock import locked
from fedtag.common.wire.records import Content, Instruction, Reply
from fedtag.server.strategies.accounting import privacy_spent
from tests.tiny import Tiny, Tried

FLAT: dict[str, Any] = {"method": "fedavg", "rounds": 3, "clients": 5, "model.hidden": 4, "device": "cpu"}
NOISY: dict[str, Any] = {
    "privacy.dp.mode": "central",
    "privacy.dp.noise": 2.0,
    "aggregation.weights": "uniform",
}
MASKS: dict[str, Any] = {"privacy.secure-aggregation": True}


def instruct(number: int = 1, run: str = "run-1", phase: str = "train", **values: Any) -> Instruction:
    return Instruction(run, number, number, phase, Content({}, {"introduce": number == 1, **values}))


@pytest.fixture
def unreadable(tmp_path: Path) -> Path:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "nodes.csv").write_text("no columns", encoding="utf-8")
    return tmp_path / "broken"


@pytest.fixture
def readable(tmp_path: Path, write_feature_folder: Callable[..., Path], one_thread: None) -> Path:
    return write_feature_folder(tmp_path / "data", nodes=24)


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    (tmp_path / "kept").mkdir()
    return tmp_path / "kept"


@pytest.fixture
def opened(tmp_path: Path) -> Callable[..., SiteRun]:
    """A site with a policy, or without one, in a run."""

    def build(
        folder: Path, rules: str | None, name: str = "site", work: str = "work", **settings: Any
    ) -> SiteRun:
        policy = tmp_path / "policy.toml"
        if rules is not None:
            policy.write_text(rules, encoding="utf-8")
        flat = {**FLAT, **settings}
        site = Site(name, folder, tmp_path / work, tmp_path / "cache", "cpu", None, policy if rules else None)
        return SiteRun(site, RunConfig.from_flat(without_foreign(flat)))

    return build


@pytest.mark.parametrize(
    ("rule", "rules", "settings"),
    [
        ("methods", 'methods = ["dance"]', {}),
        ("parts", "parts = []", {"parts": "neighbour-generator"}),
        ("protocols", "protocols = [1]", {}),
        ("participants", "participants = 6", {}),
        ("records", 'records = ["masked", "sizes", "training", "scores"]', {}),
        ("records", 'records = ["masked", "sizes", "training"]', MASKS),
        (
            "settings.privacy.secure-aggregation",
            '[settings]\n"privacy.secure-aggregation" = {one-of=[true]}',
            {},
        ),
        ("settings.rounds", "[settings]\nrounds = {max = 2}", {}),
        ("settings.privacy.dp.noise", "[settings]\nprivacy.dp.noise = {min = 3}", NOISY),
        ("hours", '[hours]\ntimezone = "UTC"\nspans = ["SPAN"]', {}),
        ("budget.epsilon", 'folder = "kept"\n[budget]\nepsilon = 1000', {}),
        ("budget.epsilon", 'folder = "kept"\n[budget]\nepsilon = 1', NOISY),
    ],
)
def test_a_run_outside_is_refused_before_data_are_read(
    opened: Callable[..., SiteRun],
    unreadable: Path,
    kept: Path,
    rule: str,
    rules: str,
    settings: dict[str, Any],
) -> None:
    past = datetime.now(UTC) - timedelta(hours=2)
    rules = rules.replace("SPAN", f"{past:%H:%M}-{past + timedelta(hours=1):%H:%M}")
    site = opened(unreadable, rules, **settings)
    with pytest.raises(
        PolicyError, match=f"rule '{rule}' of the policy of site refuses run run-1: "
    ) as refusal:
        site.respond(instruct())
    assert not (site.site.workspace / "state").exists()
    # What the server is told is this, and no place of the site.
    told = signed(reason(refusal.value), {"name": "site", "policy": str(site.site.policy)})
    assert f"rule '{rule}'" in told
    assert str(site.site.workspace.parent) not in told
    with pytest.raises(DataError):
        opened(unreadable, None, **settings).respond(instruct())


def test_the_same_run_within_every_rule_goes_on(
    opened: Callable[..., SiteRun], readable: Path, kept: Path
) -> None:
    rules = """
        folder = "kept"
        participants = 5
        methods = ["fedavg"]
        parts = []
        records = ["update", "scores", "sizes", "training"]
        [settings]
        privacy.dp.noise = {min = 2, max = 2}
        [limits]
        exchange-mb = 1
        run-mb = 1
        [budget]
        epsilon = 10
        updates = 3
        mb = 1
    """
    site = opened(readable, rules, **NOISY)
    replies = [site.respond(instruct(number, evaluate=True)) for number in (1, 2, 3)]
    assert all("update" in reply.content.kinds for reply in replies)
    (spent,) = spent_by_run(kept).values()
    assert (spent.replies, spent.updates) == (3, 3)


def test_no_setting_of_a_run_names_a_policy(tmp_path: Path, unreadable: Path) -> None:
    strict, lax = tmp_path / "strict.toml", tmp_path / "lax.toml"
    strict.write_text('methods = ["dance"]', encoding="utf-8")
    lax.write_text("", encoding="utf-8")
    node = {"data": str(unreadable), "name": "site", "workspace": str(tmp_path / "w"), "policy": str(strict)}
    for key in ("policy", "site.policy", "node.policy"):
        with pytest.raises(ConfigError, match=f"unknown setting '{key}'"):
            OpenRuns().respond(instruct(), {**FLAT, key: str(lax)}, node)
    with pytest.raises(PolicyError, match="rule 'methods'"):
        OpenRuns().respond(instruct(policy=str(lax)), FLAT, node)
    # In the configuration of the institution's own node the same file lets the run in.
    with pytest.raises(DataError):
        OpenRuns().respond(instruct(), FLAT, {**node, "policy": str(lax)})


ASKING = 'folder = "kept"\napproval = "{}"'


@pytest.mark.parametrize("approval", ["first", "every"])
def test_an_approval_is_for_settings_and_records_not_for_a_name(
    opened: Callable[..., SiteRun], readable: Path, kept: Path, approval: str
) -> None:
    rules = ASKING.format(approval)
    with pytest.raises(ApprovalError, match="fedtag site approve run-1"):
        opened(readable, rules).respond(instruct())
    # Between the preview and the approval nothing can be put in the place of what was read.
    with pytest.raises(PolicyError, match=r"rule 'approval'.*asked for something else before"):
        opened(readable, rules, rounds=2).respond(instruct())
    assert Requests(kept).approve("run-1").settings["rounds"] == FLAT["rounds"]
    assert opened(readable, rules).respond(instruct()).client == "site"
    # Nor afterwards: under the name of the approved run, as its first message or as a later one.
    for number in (1, 2):
        with pytest.raises((ApprovalError, PolicyError)):
            opened(readable, rules, rounds=2).respond(instruct(number))
    other = opened(readable, rules, work="w2").respond
    if approval == "every":
        with pytest.raises(ApprovalError, match="approve run-2"):
            other(instruct(run="run-2"))
    else:
        assert other(instruct(run="run-2")).run == "run-2"
    # Whoever asks for no approval is answered under any name, as long as the run has not introduced itself.
    for rounds in (2, 3):
        assert opened(readable, None, work="free", rounds=rounds).respond(instruct(2)).client == "site"


def test_other_records_behind_the_same_settings_need_an_approval_of_their_own(
    opened: Callable[..., SiteRun], readable: Path, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rules = ASKING.format("first")
    with pytest.raises(ApprovalError):
        opened(readable, rules).respond(instruct())
    Requests(kept).approve("run-1")
    site = opened(readable, rules)
    site.respond(instruct())
    weighed = {**FLAT, "aggregation.weights": "distribution-aware"}
    more = gate.leaving(RunConfig.from_flat(without_foreign(weighed)))
    monkeypatch.setattr(gate, "leaving", lambda config: more)
    with pytest.raises(ApprovalError):
        opened(readable, rules).respond(instruct(2))


def test_whoever_starts_runs_cannot_fill_the_disk(
    opened: Callable[..., SiteRun], unreadable: Path, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fedtag.client.policy.requests.MOST_WAITING", 2)
    site = opened(unreadable, ASKING.format("every"))
    for run in ("run-1", "run-2", "run-1"):
        with pytest.raises(ApprovalError):
            site.respond(instruct(run=run))
    with pytest.raises(RunError, match="2 runs wait for approval: approve or delete some"):
        site.respond(instruct(run="run-3"))
    with pytest.raises(RunError, match="no identifier"):
        site.respond(instruct(run="../../run"))
    assert len(list((kept / "waiting").iterdir())) == 2


def test_a_reply_is_measured_before_it_leaves(
    opened: Callable[..., SiteRun], readable: Path, kept: Path
) -> None:
    size = opened(readable, 'folder = "kept"').respond(instruct(evaluate=True))
    free = spent_by_run(kept)["run-1"].size / 2**20
    assert size.content.tensors
    (kept / FILE).unlink()
    with pytest.raises(PolicyError, match=r"rule 'limits.exchange-mb'.*is larger than"):
        opened(readable, f'folder = "kept"\nlimits.exchange-mb = {0.99 * free}').respond(
            instruct(evaluate=True)
        )
    assert spent_by_run(kept) == {}
    run = opened(readable, f'folder = "kept"\nlimits.run-mb = {2.5 * free}')
    for number in (1, 2):
        run.respond(instruct(number, evaluate=True))
    with pytest.raises(PolicyError, match=r"rule 'limits.run-mb'"):
        run.respond(instruct(3, evaluate=True))
    # Another run has bytes of its own, unless all runs together have a budget.
    run.respond(instruct(run="run-2", evaluate=True))
    with pytest.raises(PolicyError, match=r"rule 'budget.mb'"):
        opened(readable, f'folder = "kept"\nbudget.mb = {3.5 * free}').respond(instruct(4, evaluate=True))


def test_what_no_rule_foresaw_does_not_leave_either(
    opened: Callable[..., SiteRun], readable: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The forecast from settings may miss a record; the reply itself is what counts."""
    monkeypatch.setattr(gate, "leaving", lambda config: ())
    with pytest.raises(PolicyError, match=r"rule 'records'.*'update' is not among what may leave"):
        opened(readable, 'records = ["scores", "sizes", "training"]').respond(instruct(evaluate=True))
    site = opened(readable, 'records = ["scores", "sizes", "training", "update"]')
    assert "update" in site.respond(instruct(evaluate=True)).content.kinds


@pytest.mark.parametrize(
    "asked",
    [
        {"sum": {"weights": {"site": 0.5, "b": 0.5}, "groups": []}},
        {"sum": {"weights": dict.fromkeys("abcdefg", 0.1) | {"site": 0.3}, "groups": [["site", "a", "b"]]}},
        {"sign": {"survivors": ["site", "a", "b"], "opened": []}},
        {"unmask": {"survivors": ["site", *"abcdef"], "opened": [["site", "a", "b"], list("cdef")]}},
    ],
)
def test_a_sum_over_too_few_is_refused_whatever_the_run_promised(
    opened: Callable[..., SiteRun], unreadable: Path, asked: dict[str, Any]
) -> None:
    with pytest.raises(PolicyError, match=r"rule 'participants'.*at least 5 must be in it"):
        opened(unreadable, "participants = 5", **MASKS).respond(instruct(2, **asked))
    with pytest.raises(DataError):
        opened(unreadable, "participants = 2", **MASKS).respond(instruct(2, **asked))


def test_masked_sums_of_all_are_within_the_policy(tiny: Tiny, tmp_path: Path) -> None:
    """A whole run under masks, with nothing in clear: what leaves is what was foreseen."""
    (tmp_path / "kept").mkdir()
    policy = tmp_path / "policy.toml"
    policy.write_text(
        'folder = "kept"\nparticipants = 3\nrecords = ["masked", "trains"]\nbudget.epsilon = 50\n'
        "[settings]\nprivacy.secure-aggregation = {one-of=[true]}\n",
        encoding="utf-8",
    )
    hidden = {
        "privacy.secure-aggregation": True,
        "privacy.hide-statistics": True,
        "aggregation.weights": "uniform",
        "privacy.dp.mode": "distributed",
        "privacy.dp.noise": 2.0,
    }
    done = tiny({**hidden, "rounds": 2}, policy=policy)
    assert done.error is None
    assert not [note for note in done.notes.texts if "left out" in note]
    assert done.summary is not None
    (spent,) = spent_by_run(tmp_path / "kept").values()
    # The last exchange sums scores alone, and adds no noise.
    assert spent.updates == 3
    assert done.summary.privacy is not None
    assert spent.epsilon(1e-5) == pytest.approx(done.summary.privacy["epsilon"], rel=1e-6)
    policy.write_text(policy.read_text().replace('"masked", ', ""), encoding="utf-8")
    assert [
        note for note in tiny({**hidden, "rounds": 2}, policy=policy).notes.texts if "rule 'records'" in note
    ]


def test_epsilon_of_all_runs_is_spent_by_sums_and_survives_a_new_installation(
    opened: Callable[..., SiteRun], readable: Path, kept: Path
) -> None:
    one, two = (privacy_spent("central", 2.0, 1.0, 1e-5, sums, 1.0).epsilon for sums in (3, 6))
    assert one is not None
    assert two is not None
    rules = f'folder = "kept"\nbudget.epsilon = {two - 0.01}'
    first = opened(readable, rules, **NOISY)
    for number in (1, 2, 3):
        first.respond(instruct(number))
    assert spent_by_run(kept)["run-1"].epsilon(1e-5) == pytest.approx(one)
    # Two such runs are more than the budget, and one of two rounds is not.
    places = {"work": "new", "name": "other"}
    with pytest.raises(PolicyError, match=r"rule 'budget.epsilon'.*less than all of this run costs"):
        opened(readable, rules, **places, **NOISY).respond(instruct(run="run-2"))
    second = opened(readable, rules, **places, **NOISY, rounds=2)
    for number in (1, 2):
        second.respond(instruct(number, run="run-2"))
    # A server that goes on beyond the rounds that it told gets no more than the budget.
    with pytest.raises(PolicyError, match=r"rule 'budget.epsilon'"):
        second.respond(instruct(3, run="run-2"))
    assert sum(spent_by_run(kept).values(), Spent()).updates == 5
    # The disk that is not mounted is no new budget; one that somebody at the site emptied is.
    shutil.move(kept, kept.parent / "away")
    with pytest.raises(ConfigError, match="is not there"):
        opened(readable, rules, **NOISY).respond(instruct(run="run-3"))
    kept.mkdir()
    assert opened(readable, rules, **NOISY).respond(instruct(run="run-3")).run == "run-3"


def test_nothing_leaves_without_a_record_of_it(
    opened: Callable[..., SiteRun], readable: Path, kept: Path
) -> None:
    site = opened(readable, 'folder = "kept"\nbudget.updates = 9')
    site.respond(instruct())
    (kept / FILE).write_text("{", encoding="utf-8")
    with pytest.raises(RunError, match=r"spent.json is damaged.*restore it from a copy"):
        site.respond(instruct(2))
    (kept / FILE).unlink()
    assert site.respond(instruct(2)).round == 2


def test_a_process_that_is_stopped_with_the_folder_stops_no_message_for_ever(
    opened: Callable[..., SiteRun], readable: Path, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("gate", "requests"):
        monkeypatch.setattr(f"fedtag.client.policy.{name}.LOCK_SECONDS", 0.05)
    site = opened(readable, 'folder = "kept"\nbudget.updates = 9')
    asking = opened(readable, ASKING.format("every"), work="w2").respond
    for respond, rules in ((asking, ASKING.format("every")), (site.respond, 'folder = "kept"')):
        assert site.site.policy is not None
        site.site.policy.write_text(rules, encoding="utf-8")
        with locked(kept / LOCK, 1.0), pytest.raises(RunError, match=r"lock stays locked.*end the process"):
            respond(instruct())
    assert site.respond(instruct()).round == 1


def test_an_approval_by_another_user_does_not_lock_the_site_out(
    opened: Callable[..., SiteRun], readable: Path, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As root it would write files that only root can read: what reads them afterwards refuses every message."""
    site = opened(readable, ASKING.format("every"))
    with pytest.raises(ApprovalError):
        site.respond(instruct())
    with monkeypatch.context() as other:
        other.setattr("os.geteuid", lambda: os.getuid() + 1)
        with pytest.raises(ConfigError, match=r"kept belongs to .*: sudo -u \S+ fedtag site approve run-1"):
            Requests(kept).approve("run-1")
    assert not (kept / "approved.json").exists()
    Requests(kept).approve("run-1")
    assert site.respond(instruct()).round == 1


def test_a_reply_does_not_leave_before_the_disk_has_what_it_costs(
    opened: Callable[..., SiteRun], readable: Path, kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site, free = opened(readable, 'folder = "kept"\nbudget.updates = 9'), opened(readable, None, work="free")
    site.respond(instruct())
    free.respond(instruct())
    before = spent_by_run(kept)

    written = os.fsync

    def full(descriptor: int) -> None:
        if Path(f"/proc/self/fd/{descriptor}").readlink().is_relative_to(kept):
            raise OSError(errno.ENOSPC, "No space left on device")
        written(descriptor)

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(RunError, match="site site: no space is left"):
        site.respond(instruct(2))
    assert spent_by_run(kept) == before
    assert free.respond(instruct(2)).round == 2


def test_a_stricter_file_holds_from_the_next_message_on(
    opened: Callable[..., SiteRun], readable: Path
) -> None:
    site = opened(readable, 'methods = ["fedavg"]')
    assert site.respond(instruct()).round == 1
    assert site.site.policy is not None
    site.site.policy.write_text('methods = ["dance"]', encoding="utf-8")
    with pytest.raises(PolicyError, match="rule 'methods'"):
        site.respond(instruct(2))
    site.site.policy.write_text("methds = []", encoding="utf-8")
    with pytest.raises(ConfigError, match="did you mean 'methods'") as refusal:
        site.respond(instruct(2))
    assert reason(refusal.value) == "ConfigError; the site's own log says more"


def test_a_server_whose_masks_are_promised_and_not_used_gets_nothing(tiny: Tiny, tmp_path: Path) -> None:
    """The rule is about settings; that the run keeps to them is the guard's, under a policy as without one."""
    policy = tmp_path / "policy.toml"
    policy.write_text("[settings]\nprivacy.secure-aggregation = {one-of=[true]}", encoding="utf-8")

    def bare(client: str, told: Instruction) -> Instruction:
        values = {name: value for name, value in told.content.values.items() if name != "sum"}
        return Instruction(told.run, told.step, told.round, told.phase, Content(told.content.tensors, values))

    def updates(tried: Tried) -> list[Reply]:
        replies = [one.reply for one in tried.crossed if one.client == "site-0" and one.reply is not None]
        return [reply for reply in replies if reply.content.section("update")]

    settings = {"rounds": 1, "exchange.retries": 0}
    assert updates(tiny({**settings, **MASKS}, policy=policy, tell=bare)) == []
    assert updates(tiny(settings, policy=policy)) == []
    assert updates(tiny(settings)) != []


def test_epsilon_adds_up_as_one_sum_with_less_noise() -> None:
    parts = [Spent(noise=(1 / 2.0) ** 2), Spent(noise=(1 / 2.0) ** 2), Spent(noise=(1 / 5.0) ** 2)]
    total = sum(parts, Spent()).epsilon(1e-6)
    assert total == pytest.approx(epsilon((2 / 4 + 1 / 25) ** -0.5, 1, 1e-6))
    assert Spent().epsilon(1e-6) == 0
