"""The tables say what the numbers are, by another way of counting."""

from __future__ import annotations

import csv
import io
import statistics
from collections.abc import Callable
from dataclasses import replace

import pytest
from scipy import stats

from fedtag.server.comparison.results import Comparison
from fedtag.server.comparison.tables import (
    classes_csv,
    convergence_csv,
    costs_csv,
    costs_markdown,
    markdown,
    scores_csv,
    summary_csv,
)

Compared = Callable[..., Comparison]
FEDAVG, DANCE = [0.80, 0.82, 0.81], [0.83, 0.86, 0.82]


def table(text: str, heading: str) -> dict[str, list[str]]:
    """The cells below a heading, by the first of each line."""
    section = text.split(f"## {heading}\n\n")[1].split("\n\n")[0]
    entries = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in section.splitlines()]
    return {line[0]: line[1:] for line in entries}


def records(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_scores_are_means_deviations_and_paired_differences(compared: Compared) -> None:
    rows = table(markdown(compared({"FedAvg": FEDAVG, "DANCE": DANCE}, length=20)), "cora")
    low, high = stats.ttest_rel(DANCE, FEDAVG).confidence_interval(0.95)
    assert rows["DANCE"] == [
        "3",
        f"{100 * statistics.mean(DANCE) + 1:.2f} ± {100 * statistics.stdev(DANCE):.2f}",
        f"{100 * statistics.mean(DANCE):.2f} ± {100 * statistics.stdev(DANCE):.2f}",
        f"+2.67 [{100 * low:+.2f}, {100 * high:+.2f}]".replace("-", "−"),
        *(
            f"{100 * statistics.mean(DANCE) + more:.2f} ± {100 * statistics.stdev(DANCE):.2f}"
            for more in (-2, -3, 6.25, -5)
        ),
        "5.00 ± 0.00",
        f"{100 * statistics.mean(DANCE):.2f} ± {100 * statistics.stdev(DANCE):.2f}",
        "1.0 ± 0.0",
    ]
    assert rows["FedAvg"][3] == "–"


def test_another_metric_comes_first(compared: Compared) -> None:
    comparison = replace(compared({"FedAvg": FEDAVG, "DANCE": DANCE}), metric="auprc")
    rows = table(markdown(comparison), "cora")
    spreads = [f"± {100 * statistics.stdev(values):.2f}" for values in (FEDAVG, DANCE)]
    assert rows["row"] == [
        *("seeds", "validation", "test", "difference", "accuracy", "macro-F1", "balanced accuracy", "AUROC"),
        *("calibration error", "plateau", "rounds to it"),
    ]
    # Validation AUPRC is 4 points below test accuracy, test AUPRC 5.
    assert rows["FedAvg"][1:3] == [f"77.00 {spreads[0]}", f"76.00 {spreads[0]}"]
    assert rows["DANCE"][3].startswith("+2.67 [")
    assert rows["DANCE"][4] == f"{100 * statistics.mean(DANCE):.2f} {spreads[1]}"
    found = records(scores_csv(comparison))[0]
    assert (found["metric"], found["val"], found["test"], found["accuracy"]) == (
        "auprc",
        "0.76",
        "0.75",
        "0.8",
    )
    own = next(line for line in records(summary_csv(comparison)) if line["row"] == "DANCE")
    assert own["metric"] == "auprc"
    assert float(own["test_mean"]) == float(own["auprc_mean"]) == pytest.approx(statistics.mean(DANCE) - 0.05)


def test_classes_have_a_line_for_each_run(compared: Compared) -> None:
    comparison = compared({"FedAvg": [0.8, None]})
    found = comparison.results["FedAvg", "cora", 0]
    assert found.summary is not None
    classes = [
        {
            "class": "well",
            "nodes": 9,
            "precision": 0.9,
            "recall": 1.0,
            "f1": 0.95,
            "auroc": 0.5,
            "auprc": 0.9,
        },
        {
            "class": "=ill",
            "nodes": 1,
            "precision": None,
            "recall": 0.0,
            "f1": 0.0,
            "auroc": 0.5,
            "auprc": 0.1,
        },
    ]
    held = replace(found, summary=replace(found.summary, test_classes=classes))
    lines = records(
        classes_csv(replace(comparison, results={**comparison.results, ("FedAvg", "cora", 0): held}))
    )
    assert [(line["seed"], line["class"], line["nodes"]) for line in lines] == [
        ("0", "well", "9"),
        ("0", "'=ill", "1"),
    ]
    assert [(line["precision"], line["recall"]) for line in lines] == [("0.9", "1.0"), ("", "0.0")]


def test_missing_runs_are_seen(compared: Compared) -> None:
    rows = table(
        markdown(compared({"FedAvg": FEDAVG, "DANCE": [0.83, None, 0.85], "lost": [None] * 3})), "cora"
    )
    assert rows["lost"] == ["0 of 3", *["–"] * 10]
    assert rows["DANCE"][0] == "2 of 3"
    assert rows["DANCE"][3] == "+3.50"
    assert [record["val"] for record in records(scores_csv(compared({"FedAvg": [None, 0.5]})))] == [
        "",
        "0.51",
    ]


def test_one_seed_has_neither_deviation_nor_interval(compared: Compared) -> None:
    rows = table(markdown(compared({"FedAvg": [0.8], "DANCE": [0.9]}, length=20)), "cora")
    assert rows["DANCE"] == [
        *("1", "91.00", "90.00", "+10.00", "88.00", "87.00", "96.25", "85.00", "5.00", "90.00", "1.0")
    ]


def test_equal_differences_and_short_runs_are_not_read_as_certain(compared: Compared) -> None:
    comparison = compared({"FedAvg": [0.5, 0.6, 0.7], "DANCE": [0.4, 0.5, 0.6]}, length=19)
    text = markdown(comparison)
    assert table(text, "cora")["DANCE"][3] == "−10.00"
    assert table(text, "cora")["DANCE"][9:] == ["–", "–"]
    assert table(costs_markdown(comparison), "cora")["DANCE"][3] == "–"
    assert "An interval needs at least three seeds" in text


def test_names_are_escaped_and_settings_listed(compared: Compared) -> None:
    text = markdown(compared({"a|b": [0.8, 0.9], "c\nd": [0.7, 0.8]}, baseline="a|b", data=["x_1", "y"]))
    assert text.startswith(
        "# Methods \\| all\n\nSource: Table 1.\n\nSeeds: 0, 1. Settings of all rows: `rounds = 4`."
    )
    assert table(text, "x\\_1").keys() >= {"a\\|b", "c d"}
    assert "to a\\|b, in percentage points" in text
    assert table(text, "Rows")["a\\|b"] == ["`method = a|b`"]


def test_csv_holds_every_run_exactly(compared: Compared) -> None:
    comparison = compared({"FedAvg": FEDAVG, "DANCE": DANCE}, data=["cora", "citeseer"], length=20)
    lines = records(scores_csv(comparison))
    assert len(lines) == 12
    assert [float(line["test"]) for line in lines[:6]] == [*FEDAVG, *DANCE]
    assert lines[0] == {
        "row": "FedAvg",
        "data": "cora",
        "seed": "0",
        "best_round": "3",
        "metric": "accuracy",
        "val": "0.81",
        "test": "0.8",
        "accuracy": "0.8",
        "macro_f1": "0.78",
        "balanced_accuracy": "0.77",
        "auroc": "0.8625",
        "auprc": "0.75",
        "ece": "0.05",
        "engine": "separate",
        "run": "runs/FedAvg/cora/seed-0",
    }
    means = {(line["row"], line["data"]): line for line in records(summary_csv(comparison))}
    own = means["DANCE", "cora"]
    assert float(own["test_std"]) == pytest.approx(statistics.stdev(DANCE))
    assert float(own["difference_low"]) == pytest.approx(
        stats.ttest_rel(DANCE, FEDAVG).confidence_interval(0.95).low
    )
    assert (own["baseline"], means["FedAvg", "citeseer"]["difference"]) == ("FedAvg", "")
    assert float(own["plateau_mean"]) == pytest.approx(statistics.mean(DANCE))
    assert float(own["rounds_to_plateau_mean"]) == 1


def test_csv_has_no_formulas(compared: Compared) -> None:
    names = ["=1+1", "+1", "-1", "@SUM(A1)", "plain = 1"]
    comparison = compared({name: [0.5, 0.4, 0.5] for name in names}, baseline="=1+1")
    shown = ["'=1+1", "'+1", "'-1", "'@SUM(A1)", "plain = 1"]
    for table in (scores_csv, costs_csv, summary_csv, convergence_csv):
        assert list(dict.fromkeys(record["row"] for record in records(table(comparison)))) == shown
    found = records(summary_csv(comparison))[1]
    assert (found["baseline"], float(found["difference"])) == ("'=1+1", 0)


def test_csv_holds_every_round(compared: Compared) -> None:
    found = records(convergence_csv(compared({"FedAvg": [*FEDAVG, None], "lost": [None] * 4})))
    assert [(line["row"], line["round"], line["seeds"]) for line in found] == [
        ("FedAvg", str(number), "3") for number in (1, 2, 3, 4)
    ]
    for number, line in enumerate(found, start=1):
        assert float(line["test_mean"]) == pytest.approx(statistics.mean(FEDAVG) - 0.01 * (4 - number))
        assert float(line["test_std"]) == pytest.approx(statistics.stdev(FEDAVG))
        assert float(line["val_mean"]) == pytest.approx(statistics.mean(FEDAVG))


def test_costs_are_apart(compared: Compared) -> None:
    comparison = compared({"FedAvg": FEDAVG}, length=20)
    assert table(costs_markdown(comparison), "cora")["FedAvg"] == [
        *("1.00 kB", "2.00 MB", "2.5 s", "1 s", "12 s", "31 s", "411", "–")
    ]
    first = records(costs_csv(comparison))[0]
    assert (first["bytes_down"], first["cpu_seconds"], first["encoder_tokens"]) == ("8000000", "30.0", "1234")
    deterministic = (markdown, scores_csv, summary_csv, convergence_csv)
    for text in (written(comparison) for written in deterministic):
        assert "seconds" not in text
        assert "bytes" not in text
