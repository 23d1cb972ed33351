"""Studies: what a file or a command line asks for, and the matrix that follows."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fedtag.common.config import RunConfig, default_settings
from fedtag.common.errors import ConfigError
from fedtag.common.methods.dance.settings import DanceConfig
from fedtag.comparison.matrix import Matrix, matrix_of
from fedtag.comparison.outcome import comparison_of
from fedtag.comparison.request import requested, seeds_of
from fedtag.comparison.study import STUDIES, Study, checked_study, read_study, study_of_methods

SHIPPED = sorted(path.stem for path in STUDIES.glob("*.toml"))
REFERENCES = ["isolated", "centralised", "FedAvg (full data)"]

Write = Callable[[str], str]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def written(text: str) -> str:
        (tmp_path / "mine.toml").write_text(text, encoding="utf-8")
        return str(tmp_path / "mine.toml")

    return written


def asked(study: str | None = None, **given: Any) -> Study:
    names = ("methods", "ratios", "seeds", "data", "config")
    return requested(
        study, *(given.get(name) for name in names), given.get("options", {}), given.get("sets", [])
    )


def configs(matrix: Matrix) -> dict[str, RunConfig]:
    """The settings of each row on the first data set with the first seed."""
    return {cell.row: cell.config for cell in reversed(matrix.cells)}


@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_study_is_a_valid_matrix(name: str, tmp_path: Path) -> None:
    study = read_study(name)
    matrix = matrix_of(study, tmp_path)
    rows = [row.name for row in matrix.study.rows]
    assert len(matrix.cells) == len(rows) * len(study.data) * len(study.seeds)
    for cell in matrix.cells:
        assert RunConfig.from_flat(cell.config.to_flat()) == cell.config
    for row in study.rows:
        for key, value in row.settings.items():
            # What a row switches off leaves no table behind.
            assert configs(matrix)[row.name].to_flat().get(key, default_settings()[key]) == value
    assert matrix.baseline in rows
    assert f"fedtag compare --study {name}" in (STUDIES / f"{name}.toml").read_text(encoding="utf-8")


def test_no_two_rows_of_a_shipped_study_are_the_same_run(tmp_path: Path) -> None:
    for name in SHIPPED:
        found = configs(matrix_of(read_study(name), tmp_path))
        digests = {row: config.digest() for row, config in found.items()}
        assert len(set(digests.values())) == len(digests), name


def test_studies_of_both_core_policies_differ_in_nothing_else(tmp_path: Path) -> None:
    for name in ("ablation", "refresh"):
        default, top = (configs(matrix_of(read_study(found), tmp_path)) for found in (name, f"{name}-top"))
        assert default.keys() == top.keys()
        for row, config in top.items():
            if config.method != "dance":
                assert config == default[row].model_copy(update={"out": config.out})
                continue
            random = row == "w/o node condensation"
            assert config.own(DanceConfig).core_policy == ("random" if random else "top")
            assert config.decisive() | {"dance.core-policy": ""} == default[row].decisive() | {
                "dance.core-policy": ""
            }


def test_ablations_take_one_part_away(tmp_path: Path) -> None:
    found = configs(matrix_of(read_study("ablation"), tmp_path))
    full = found["full"].decisive()
    assert (full["method"], full["dance.core-policy"], full["dance.topology"]) == (
        "dance",
        RunConfig().own(DanceConfig).core_policy,
        "self-expressive",
    )
    changes = {
        row: {key: value for key, value in config.decisive().items() if value != full[key]}
        for row, config in found.items()
    }
    assert changes["w/o node condensation"] == {"dance.core-policy": "random", "dance.core-refresh": 0}
    assert changes["w/o text condensation"] == {"dance.text-condensation": False}
    assert changes["w/o topology"] == {"dance.topology": "induced"}


def test_every_number_of_clients_has_its_own_fedavg(tmp_path: Path) -> None:
    matrix = matrix_of(read_study("clients"), tmp_path)
    series: dict[str, list[tuple[str, int]]] = {}
    for row in matrix.study.rows[1:]:
        series.setdefault(row.series, []).append((row.settings["method"], row.settings["clients"]))
    assert series == {
        name: [(method, count) for count in (5, 10, 15, 20)]
        for name, method in (("DANCE", "dance"), ("FedAvg", "fedavg"), ("isolated", "isolated"))
    }


def test_the_studies_of_table_1_and_figure_9_are_there(tmp_path: Path) -> None:
    table = configs(matrix_of(read_study("ratios"), tmp_path))
    assert [table[f"DANCE {percent}%"].ratio for percent in (8, 4, 2)] == [0.08, 0.04, 0.02]
    assert list(table)[::-1][:3] == REFERENCES
    refresh = configs(matrix_of(read_study("refresh"), tmp_path))
    found = {
        name: (config.own(DanceConfig).core_refresh, config.own(DanceConfig).text_refresh)
        for name, config in refresh.items()
        if config.method == "dance"
    }
    assert {name: found[name] for name in ("full", "core only", "text only", "static")} == {
        "full": (1, 1),
        "core only": (1, 0),
        "text only": (0, 1),
        "static": (0, 0),
    }
    assert all(refresh[name].method == "dance" for name in ("full", "static"))


def test_study_file_in_nested_or_dotted_tables(write: Write, tmp_path: Path) -> None:
    file = write(
        """
        title = "Budgets"
        seeds = [3, 1]
        data = ["pydocs", "cora"]
        axis = "dance.one-hop-budget"
        [settings]
        rounds = 7
        "train.epochs" = 2
        [settings.dance]
        mix = 0.5
        [[rows]]
        name = "one"
        series = "narrow"
        [rows.settings.dance]
        one-hop-budget = 1
        mix = 0.7
        """
    )
    study = read_study(file)
    assert (study.seeds, study.data, study.rows[0].series) == ((3, 1), ("pydocs", "cora"), "narrow")
    matrix = matrix_of(study, tmp_path)
    assert len(matrix.cells) == 4 * 2 * 2
    assert matrix.baseline == "FedAvg (full data)"
    one = configs(matrix)["one"]
    assert (one.method, one.rounds, one.train.epochs, one.seed) == ("dance", 7, 2, 3)
    assert (one.own(DanceConfig).one_hop_budget, one.own(DanceConfig).mix) == (1, 0.7)
    assert not configs(matrix)["isolated"].tables
    assert one.out == str(tmp_path / "runs" / "one" / "pydocs" / "seed-3")


SHARED = """
title = "t"
seeds = 1
[settings]
method = "fedavg"
train.epochs = 7
aggregation = { weights = "uniform", normalise = "default", average-decay = 0.5 }
[settings.privacy]
secure-aggregation = true
hide-statistics = true
dp = { mode = "distributed", noise = 0.5 }
[[rows]]
name = "hidden"
"""


def test_references_do_without_shared_settings_of_aggregation_and_privacy(
    write: Write, tmp_path: Path
) -> None:
    """As other rows, isolated and centralised would be refused with these."""
    matrix = matrix_of(read_study(write(SHARED)), tmp_path)
    found = configs(matrix)
    default = RunConfig()
    for row in REFERENCES:
        assert found[row].privacy == default.privacy
        assert found[row].aggregation == default.aggregation.model_copy(update={"average_decay": 0.5})
        assert found[row].train.epochs == 7
    assert (found["hidden"].privacy.dp.mode, found["hidden"].privacy.dp.noise) == ("distributed", 0.5)
    assert found["hidden"].aggregation.weights == "uniform"
    assert matrix.baseline == "FedAvg (full data)"
    assert "normalise" not in str(matrix.study.rows[0].settings)
    again = matrix_of(matrix.study, tmp_path)
    assert {cell.row: cell.config for cell in again.cells} == found
    note = comparison_of(again).note
    assert note == comparison_of(matrix).note
    assert "(isolated, centralised, FedAvg (full data)) run with the default aggregation and privacy" in note


def test_a_row_may_give_a_reference_what_the_others_share(write: Write, tmp_path: Path) -> None:
    file = write(
        SHARED + '[[rows]]\nname = "FedAvg (full data)"\nsettings = { method = "fedavg", rounds = 9 }\n'
    )
    matrix = matrix_of(read_study(file), tmp_path)
    assert configs(matrix)["FedAvg (full data)"].privacy.secure_aggregation
    assert "(isolated, centralised) run" in comparison_of(matrix).note


def test_without_such_settings_nothing_is_said_of_references(tmp_path: Path) -> None:
    assert comparison_of(matrix_of(asked(sets=["train.epochs=5"]), tmp_path)).note == ""


def test_fedavg_by_name_has_what_all_rows_share_beside_its_reference(tmp_path: Path) -> None:
    sets = ["privacy.secure-aggregation=true"]
    found = configs(matrix_of(asked(methods="fedavg,dance", sets=sets), tmp_path))
    assert {row: config.privacy.secure_aggregation for row, config in found.items()} == {
        "isolated": False,
        "centralised": False,
        "FedAvg (full data)": False,
        "fedavg": True,
        "dance": True,
    }
    assert "fedavg" not in configs(matrix_of(asked(methods="fedavg,dance"), tmp_path))


def test_references_that_a_row_repeats_are_left_out(tmp_path: Path) -> None:
    content: dict[str, Any] = {"title": "t", "rows": [{"name": "mean", "settings": {"method": "fedavg"}}]}
    matrix = matrix_of(checked_study(content, "here"), tmp_path)
    assert [row.name for row in matrix.study.rows] == ["isolated", "centralised", "mean"]
    assert matrix.baseline == "mean"
    alone = matrix_of(checked_study({**content, "references": []}, "here"), tmp_path)
    assert [row.name for row in alone.study.rows] == ["mean"]
    other: dict[str, Any] = {"settings": {"method": "fedavg", "train.epochs": 9}, "name": "longer"}
    assert len(matrix_of(checked_study({**content, "rows": [other]}, "here"), tmp_path).study.rows) == 4


@pytest.mark.parametrize(
    ("text", "match"),
    [
        (
            'title = "t"\ncolour = 1',
            r"mine.toml: unknown key 'colour'; use title, source, seeds, data, settings",
        ),
        (
            'title = "t"\n[[rows]]\nname = "a"\nrounds = 3',
            r"unknown key 'rows.0.rounds'; use name, settings, series",
        ),
        ("seeds = 3", "title: field required"),
        ('title = "t"\nseeds = 0', "there is no seed"),
        ('title = "t"\nseeds = [1, 1]', "a seed is named twice"),
        ('title = "t"\nseeds = true', "seeds: true and false are no seeds"),
        ('title = "t"\nseeds = [3, true]', "seeds: true and false are no seeds"),
        ('title = "t"\nseeds = 1001', "seeds: 1001 seeds are too many; use 1000 at most"),
        ('title = "t"\nseeds = 99999999999999999999', "999 seeds are too many"),
        (f'title = "t"\nseeds = {list(range(1001))}', "seeds: 1001 seeds are too many"),
        ('title = "t"\nreferences = ["fedavg", "fedavg"]', "references: a reference is named twice"),
        ('title = "t"\naxis = "seed"', "axis: 'seed' is the same for all rows"),
        ('title = "t"\naxis = "dance.text-condensation"', "is not a setting that is a number"),
        ('title = "t"\nseeds = [-1]', "seeds.0: input should be greater than or equal to 0"),
        ('title = "t"\ndata = [" "]', "a data set is empty"),
        ('title = "t"\nreferences = []', "there is no row"),
        ('title = "t"\nreferences = ["dance"]', "dance: choose from isolated, centralised, fedavg"),
        ('title = "t"\naxis = "method"', "axis: 'method' is not a setting that is a number"),
        ('title = "t"\n[settings]\nseed = 3', "settings: seed cannot be set here"),
        (
            'title = "t"\n[[rows]]\nname = "a"\nsettings = { data.source = "x" }',
            "data.source cannot be set here",
        ),
        ('title = "t"\n[settings]\nratoi = 1', "did you mean 'ratio'"),
        ('title = "t"\n[[rows]]\nname = "a"\nsettings = { rounds = 0 }', "row 'a': rounds = 0"),
        (
            'title = "t"\n[[rows]]\nname = "a"\nsettings = { method = "none" }',
            "row 'a': method = 'none': no method is called so",
        ),
        ('title = "t"\n[[rows]]\nname = "Isolated!"', "would share a folder"),
        ('title = "t"\nbaseline = "best"', "baseline 'best' is no row; use one of isolated"),
        ('title = "t"\ndata = ["a/x", "b/../a/x"]', "would share a folder"),
        ("title = ", "is not TOML"),
    ],
)
def test_faults_of_a_file_are_named(write: Write, tmp_path: Path, text: str, match: str) -> None:
    file = write(text)
    with pytest.raises(ConfigError, match=match):
        matrix_of(read_study(file), tmp_path)


def test_missing_file_says_what_comes_with_fedtag() -> None:
    with pytest.raises(ConfigError, match=r"study=nowhere.toml: No such file.*ratios.*refresh"):
        read_study("nowhere.toml")


def test_ratios_are_rows_of_methods_that_condense(tmp_path: Path) -> None:
    study = study_of_methods(["fedavg", "dance"], [0.08, 0.025], "t")
    matrix = matrix_of(study, tmp_path)
    assert [row.name for row in matrix.study.rows] == [*REFERENCES, "dance 8%", "dance 2.5%"]
    assert [configs(matrix)[f"dance {name}%"].ratio for name in ("8", "2.5")] == [0.08, 0.025]
    assert [row.name for row in study_of_methods(["dance"], [], "t").rows] == ["dance"]


def test_command_line_wins_over_the_study_and_rows_over_the_command_line(
    write: Write, tmp_path: Path
) -> None:
    file = write(
        'title = "t"\nseeds = 3\ndata = ["a"]\n[settings]\nrounds = 7\nclients = 3\n'
        '[[rows]]\nname = "ten"\nsettings = { clients = 10 }\n'
    )
    base = tmp_path / "base.toml"
    base.write_text('rounds = 1\nratio = 0.5\nseed = 9\n[data]\nsource = "elsewhere"\n')
    study = asked(file, config=base, options={"rounds": 8, "clients": 4}, sets=["train.epochs=5"], seeds="7,")
    found = configs(matrix_of(study, tmp_path))
    assert {(config.rounds, config.train.epochs, config.ratio) for config in found.values()} == {(8, 5, 0.5)}
    assert (found["isolated"].clients, found["ten"].clients, found["centralised"].clients) == (4, 10, 1)
    assert {config.seed for config in found.values()} == {7}
    assert found["ten"].data.source == "a"
    assert asked(file, data=["b", "c"]).data == ("b", "c")
    assert asked(config=base).data == ("elsewhere",)
    assert asked(config=base, data=["b"]).data == ("b",)


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"study": "refresh", "methods": "dance"}, "leave methods= and ratio= out"),
        (
            {"sets": ["seed=3", "method=dance", "rounds=x"]},
            r"rounds=x: write a whole(.|\n)*seed cannot be set here(.|\n)*method cannot",
        ),
        ({"sets": ["resume=true"]}, "resume=true: resume is set by the command; use resume="),
        ({"ratios": "a"}, "ratio=a: write numbers"),
        ({"seeds": "-1"}, "seeds=-1: write how many"),
        ({"seeds": "x"}, "seeds=x: write how many"),
        ({"seeds": "1000000000000"}, "seeds=: 1000000000000 seeds are too many; use 1000 at most"),
        ({"seeds": "99999999999999999999"}, "seeds=: 99999999999999999999 seeds are too many"),
        ({"seeds": ",".join(map(str, range(1001)))}, "seeds=: 1001 seeds are too many"),
        ({"methods": "dance,dance"}, "methods=: a method is named twice in dance, dance"),
        ({"methods": "fedavg,fedavg"}, "methods=: a method is named twice in fedavg, fedavg"),
        ({"ratios": "0.08,0.080"}, "ratio=: a ratio is named twice in 0.08, 0.08"),
        ({"methods": "dance,nothing"}, "method = 'nothing': no method is called so; use one of"),
    ],
)
def test_faults_of_a_command_line_are_named(given: dict[str, Any], match: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=match):
        matrix_of(asked(**given), tmp_path)


def test_seeds_are_a_number_or_a_list() -> None:
    assert [seeds_of(text) for text in ("3", "3,", "5, 0,2")] == [(0, 1, 2), (3,), (5, 0, 2)]
    assert len(seeds_of("1000")) == 1000
    assert seeds_of("99999999999999999999,") == (99999999999999999999,)


def test_folders_of_one_federation_are_its_clients(tmp_path: Path) -> None:
    matrix = matrix_of(asked(data=["x/a;x/b;x/c", "y/a"], seeds="1"), tmp_path)
    assert matrix.data == ("a+b+c", "a")
    counts = {(cell.data, cell.row): cell.config.clients for cell in matrix.cells}
    assert (counts["a+b+c", "dance"], counts["a+b+c", "centralised"], counts["a", "dance"]) == (3, 1, 5)
    assert matrix_of(asked(data=["x/a", "y/a"], seeds="1"), tmp_path).data == ("x-a", "y-a")
    fewer = matrix_of(asked(data=["x/a;x/b"], options={"clients": 1}), tmp_path)
    assert {cell.config.clients for cell in fewer.cells} == {1}
