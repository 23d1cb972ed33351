from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from fedtag.common.errors import RunError
from fedtag.common.wording.privacy import (
    attack_rows,
    conclusions,
    control_sentences,
    is_sound,
    population_sentence,
    strongest,
    verdict,
)
from fedtag.server.report.page import write_report
from fedtag.server.report.privacy import privacy_charts, view_privacy
from fedtag.server.tracking.model_card import model_card
from fedtag.server.tracking.run_directory import RunDirectory

PROMISES = re.compile(
    r"\b(safe|safely|secure|anonymous|harmless|protected|no risk|cannot leak)\b", re.IGNORECASE
)


def attack(auc: float, low_rate: float | None = 0.05) -> dict[str, Any]:
    return {
        "auc": auc,
        "low": round(auc - 0.04, 4),
        "high": round(auc + 0.04, 4),
        "low_rate": low_rate,
        "curve": [0.0, 0.0, 0.05, 1.0],
    }


@pytest.fixture
def record() -> dict[str, Any]:
    training = {"confidence": attack(0.7), "shadow model": attack(0.75, None)}
    return {
        "schema": 1,
        "model": "9f2c",
        "round": 12,
        "seed": 0,
        "models": 10,
        "draws": 1000,
        "sites": 3,
        "members": 140,
        "non_members": 1000,
        "left_out": 2,
        "shadow_nodes": 530,
        "spare_nodes": 531,
        "rates": [0.001, 0.01, 0.1, 1.0],
        "controls": [
            {
                "name": "overfitted",
                "attack": "confidence",
                "auc": 0.99,
                "low": 0.98,
                "high": 1.0,
                "verdict": "holds",
            },
            {
                "name": "dealt",
                "attack": "entropy",
                "auc": 0.505,
                "low": 0.49,
                "high": 0.52,
                "verdict": "holds",
            },
            {
                "name": "never seen",
                "attack": "entropy",
                "auc": 0.6,
                "low": 0.56,
                "high": 0.64,
                "verdict": "fails",
            },
        ],
        "targets": [
            {
                "name": "released model (fedavg)",
                "kind": "released",
                "member_accuracy": 1.0,
                "test_accuracy": 0.789,
                "groups": {
                    "training nodes": {"members": 138, "non_members": 990, "attacks": training},
                    "pseudo-labelled nodes": {
                        "members": 300,
                        "non_members": 990,
                        "attacks": {"confidence": attack(0.9)},
                    },
                },
            },
            {
                "name": "quiet <model>",
                "kind": "trained",
                "member_accuracy": 0.8,
                "test_accuracy": 0.8,
                "groups": {
                    "training nodes": {
                        "members": 138,
                        "non_members": 990,
                        "attacks": {"confidence": attack(0.52, None)},
                    }
                },
            },
        ],
    }


@pytest.fixture
def run(tmp_path: Path, record: dict[str, Any]) -> RunDirectory:
    directory = RunDirectory(tmp_path / "run")
    directory.write_config({"method": "fedavg", "seed": 0})
    directory.write_model({"w": torch.zeros(1)}, {"fingerprint": "9f2c", "round": 12})
    (directory.path / "privacy.json").write_text(json.dumps(record))
    return directory


def test_the_verdict_is_that_of_the_strongest_attack_on_training_nodes(record: dict[str, Any]) -> None:
    loud, quiet = record["targets"]
    assert verdict(loud) == (
        "released model (fedavg): gives away who was among the training nodes, AUC 0.750 "
        "(95% interval 0.710 to 0.790) by shadow model"
    )
    assert verdict(quiet).startswith(
        "quiet <model>: no attack that was tried is shown to beat guessing, at most AUC 0.520"
    )
    assert strongest(attack_rows(loud)).group == "pseudo-labelled nodes"


def of_release(record: dict[str, Any], **areas: float) -> dict[str, Any]:
    """The record with one target for each kind, attacked with so much success on its training nodes."""
    groups = {
        kind: {"training nodes": {"members": 138, "non_members": 990, "attacks": {"entropy": attack(area)}}}
        for kind, area in areas.items()
    }
    targets = [
        {**record["targets"][0], "name": kind, "kind": kind.replace("_", "-"), "groups": told}
        for kind, told in groups.items()
    ]
    return {**record, "targets": targets}


@pytest.mark.parametrize(
    ("areas", "leaking"),
    [
        ({"self_trained": 0.8, "condensed": 0.52, "insider": 0.52}, "the self_trained (AUC 0.800)"),
        ({"self_trained": 0.52, "condensed": 0.52, "insider": 0.6}, "the insider (AUC 0.600)"),
        ({"self_trained": 0.7, "condensed": 0.75}, "the condensed (AUC 0.750)"),
        ({"self_trained": 0.51, "condensed": 0.52, "insider": 0.5}, None),
    ],
)
def test_a_release_is_judged_by_the_target_that_tells_most(
    record: dict[str, Any], areas: dict[str, float], leaking: str | None
) -> None:
    """The intervals reach 0.04 to either side."""
    told = conclusions(of_release(record, **areas))
    if leaking is None:
        assert told[0].startswith("No attack that was tried on any of the 3 targets")
    else:
        assert told[0].startswith(
            f"This run gives away who was in training, most of all by {leaking}: do not"
        )
    assert any("Masked sums do not change that model" in one for one in told) == (
        areas["self_trained"] > 0.54
    )
    assert any("features that sites keep" in one for one in told) == ("insider" not in areas)
    assert not PROMISES.search(". ".join(told))


def test_other_releases_have_no_conclusion(record: dict[str, Any]) -> None:
    assert conclusions(record) == []


def test_rows_name_what_was_not_measured(record: dict[str, Any]) -> None:
    rows = attack_rows(record["targets"][0])
    assert [row.low_rate_words for row in rows] == ["5.0%", "not measured", "5.0%"]
    assert [row.members for row in rows] == [138, 138, 300]
    assert "2 training nodes of classes without test nodes are left out" in population_sentence(record)


def test_controls_of_the_measurement_and_of_the_data_are_told_apart(record: dict[str, Any]) -> None:
    sentences = control_sentences(record)
    assert [good for _, good in sentences] == [True, True, False]
    assert "Training nodes differ from test nodes before anything is trained" in sentences[2][0]
    assert is_sound(record)
    for name in ("overfitted", "dealt"):
        failed = copy.deepcopy(record)
        next(one for one in failed["controls"] if one["name"] == name)["verdict"] = "fails"
        assert not is_sound(failed)
    short = {**record, "controls": record["controls"][:1]}
    assert control_sentences(short)[1] == (
        "Control. Models that never saw the data could not be trained: too few labelled nodes are outside every split",
        False,
    )


def test_the_report_shows_the_audit(run: RunDirectory) -> None:
    other = RunDirectory(run.path.parent / "other")
    other.write_config({"method": "fedavg"})
    out = run.path / "report.html"
    write_report([other.path, run.path], out)
    page = out.read_text()
    assert page.count("<h3>Membership inference</h3>") == 1
    assert "AUC 0.750 (95% interval 0.710 to 0.790) by shadow model" in page
    assert "quiet &lt;model&gt;" in page
    assert "quiet <model>" not in page
    assert page.count("<figcaption>ROC, ") == 2, "one for each target"
    assert "{{" not in page
    ids = [part.split('"')[0] for part in page.split(' id="')[1:]]
    assert len(ids) == len(set(ids))
    section = page[
        page.index("Membership inference") : page.index("</table>", page.index("Membership inference"))
    ]
    assert not PROMISES.search(section)


def test_the_card_states_the_figures(run: RunDirectory) -> None:
    card = model_card(run)
    section = card[card.index("## Membership inference") : card.index("## Use")]
    assert (
        "| released model (fedavg) | 138 training nodes | shadow model | 0.750 | 0.710 to 0.790 | not measured |"
        in section
    )
    assert section.count("\n- Control. ") == 3
    assert not PROMISES.search(section)
    (run.path / "privacy.json").unlink()
    assert "Membership inference" not in model_card(run)


def test_an_audit_of_another_model_is_not_shown(run: RunDirectory, record: dict[str, Any]) -> None:
    (run.path / "privacy.json").write_text(json.dumps({**record, "model": "other"}))
    assert view_privacy(run) is None
    assert "Membership inference" not in model_card(run)
    write_report([run.path], run.path / "report.html")
    assert "Membership inference" not in (run.path / "report.html").read_text()


@pytest.mark.parametrize("missing", ["members", "controls", "targets", "schema"])
def test_a_damaged_audit_is_named(run: RunDirectory, record: dict[str, Any], missing: str) -> None:
    del record[missing]
    (run.path / "privacy.json").write_text(json.dumps(record))
    with pytest.raises(
        RunError, match=rf"privacy.json holds no membership audit of schema 1 .'{missing}'.: remove it"
    ):
        view_privacy(run)


def test_charts_place_curves_on_logarithmic_axes(run: RunDirectory, record: dict[str, Any]) -> None:
    areas, roc, _ = privacy_charts(view_privacy(run))
    (panel,) = roc.panels
    assert panel.x.log
    assert panel.y.log
    assert (panel.x.low, panel.x.high, panel.y.low, panel.y.high) == (1e-3, 1.0, 1e-3, 1.0)
    groups = record["targets"][0]["groups"]
    for name, found in next(iter(groups.values()))["attacks"].items():
        (series,) = [one for one in panel.series if one.name == name]
        assert list(series.x) == record["rates"]
        assert list(series.y) == [max(value, 1e-3) for value in found["curve"]]
    assert [entry.key for entry in areas.legend] == ["released model (fedavg)", "quiet <model>"]
    first = areas.panels[0].series[0]
    attacks = list(next(iter(groups.values()))["attacks"].values())
    assert sorted(first.x) == sorted(one["auc"] for one in attacks)
    assert all(low <= auc <= high for low, auc, high in zip(first.left, first.x, first.right, strict=True))
    assert (
        roc.alt
        == "confidence: 5.0% of members at 10% of non-members; shadow model: 5.0% of members at 10% of non-members"
    )
