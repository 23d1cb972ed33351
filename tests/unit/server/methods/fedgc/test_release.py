from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor

from fedtag.common.config import RunConfig
from fedtag.common.errors import RunError
from fedtag.common.methods.fedgc.model import initial_teacher
from fedtag.common.models.parameters import parameters_of
from fedtag.common.wire.records import prefixed
from fedtag.server.methods.fedgc.release import (
    FILE,
    GRAPH,
    HEADER,
    TEACHER,
    CondensedCard,
    digest,
    read_condensed,
    write_condensed,
)
from fedtag.server.tracking.release import released_settings
from tests.unit.common.synthetic.test_condensed import CLASSES, DIM, sound

CONFIG = RunConfig.from_flat({"method": "fedgc", "model.hidden": 5})


def released(folder: Path, tensors: dict[str, Tensor], **entries: object) -> Path:
    card = CondensedCard(
        round=3,
        rounds=2,
        ratio=0.5,
        classes=("a", "b"),
        dimension=DIM,
        features="folder",
        settings=released_settings(CONFIG),
    )
    return write_condensed(folder, tensors, card.model_copy(update=entries))


def content() -> dict[str, Tensor]:
    teacher = parameters_of(initial_teacher(CONFIG, DIM, CLASSES))
    return {**prefixed(GRAPH, sound()), **prefixed(TEACHER, teacher)}


@pytest.mark.parametrize("named", ["file", "folder"])
def test_what_is_written_is_read(named: str, tmp_path: Path) -> None:
    file = released(tmp_path, content())
    release = read_condensed(file if named == "file" else tmp_path)
    assert release.tensors.keys() == content().keys()
    assert all(torch.equal(value, content()[name]) for name, value in release.tensors.items())
    assert (release.config.model.hidden, release.config.ratio) == (5, 0.5)


def test_a_graph_may_come_without_teacher(tmp_path: Path) -> None:
    assert read_condensed(released(tmp_path, prefixed(GRAPH, sound()))).teacher == {}


SETTINGS = released_settings(CONFIG)


def forged(table: str, name: str, value: object) -> dict[str, object]:
    return {"settings": {**SETTINGS, table: {**SETTINGS[table], name: value}}}


TEACHER_BIAS = f"{TEACHER}/layers.0.conv.bias"
FAULTS: dict[str, tuple[dict[str, Tensor], dict[str, object], str]] = {
    "labels": ({f"{GRAPH}/y": torch.tensor([0, -1, 1, 0])}, {}, "labels outside its 2 classes"),
    "dimension": ({}, {"dimension": DIM + 1}, "and should be float32 of shape"),
    "a teacher's shape": ({TEACHER_BIAS: torch.zeros(2)}, {}, r"bias' is \(2,\) and should be \(5,\)"),
    "a teacher's part": ({f"{TEACHER}/more": torch.zeros(2)}, {}, r"'more' is \(2,\) and should be absent"),
    "a teacher's values": ({TEACHER_BIAS: torch.full((5,), torch.nan)}, {}, "self-trained model has values"),
    "hidden": ({}, forged("model", "hidden", 10**7), r"cannot be used \(model\.hidden = 10000000: input"),
    "steps": (
        {},
        forged("fedgc", "model-steps", 10**9),
        r"fedgc\.model-steps = 1000000000: input should be less",
    ),
    "epochs": (
        {},
        forged("fedgc", "bottleneck-epochs", 10**9),
        r"fedgc\.bottleneck-epochs = 1000000000: input",
    ),
    "rate": ({}, forged("fedgc", "model-rate", -1.0), r"fedgc\.model-rate = -1\.0: input should be greater"),
    "kind": (
        {},
        forged("fedgc", "model-rate", "fast"),
        r"fedgc\.model-rate = 'fast': input should be a valid",
    ),
    "method": ({}, {"settings": {**SETTINGS, "method": "dance"}}, "method = 'dance' releases no condensed"),
    "no settings": ({}, {"settings": {}}, "method = None releases no condensed"),
    "tables": ({}, {"settings": {**SETTINGS, "data": {"source": "/"}}}, "settings: data is none of method"),
    "round": ({}, {"round": -1}, r"damaged \(round: Input should be greater"),
    "rounds": ({}, {"rounds": 4}, "rounds: 4 of condensation are more than the 3"),
    "ratio": ({}, {"ratio": -2.0}, r"damaged \(ratio: Input should be greater"),
    "classes": ({}, {"classes": ("a", "a")}, "classes: a name stands twice"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_cannot_be_trained_on_is_refused(fault: str, tmp_path: Path) -> None:
    """The digest fits: this is no accident, but the file of somebody else."""
    tensors, entries, message = FAULTS[fault]
    file = released(tmp_path, prefixed(GRAPH, sound()))
    sane = read_condensed(file).card
    write_forged(file, content() | tensors, sane.model_copy(update=entries))
    with pytest.raises(RunError, match=message):
        read_condensed(file)


def write_forged(file: Path, tensors: dict[str, Tensor], card: CondensedCard) -> None:
    whole = card.model_copy(update={"digest": digest(card, tensors)})
    save_file(tensors, file, metadata={HEADER: whole.model_dump_json()})


def test_damage_is_told(tmp_path: Path) -> None:
    file = released(tmp_path, content())
    whole = file.read_bytes()
    for damaged, message in (
        (whole[:-9], "damaged"),
        (whole[:20], "damaged"),
        (b"", "damaged"),
        (whole[:-1] + bytes([whole[-1] ^ 1]), "its digest is not that of its content"),
    ):
        file.write_bytes(damaged)
        with pytest.raises(RunError, match=message):
            read_condensed(file)


def test_other_tensors_are_no_condensed_graph(tmp_path: Path) -> None:
    save_file(content(), tmp_path / FILE)
    with pytest.raises(RunError, match=r"no condensed graph of fedtag, or is damaged \(it has no card\)"):
        read_condensed(tmp_path)
