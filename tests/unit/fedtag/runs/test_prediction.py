"""A prediction takes a graph in parts where the run could have, and nowhere else."""

from __future__ import annotations

from fedtag.common.config import RunConfig
from fedtag.common.settings.train import AUTO
from fedtag.runs.prediction import taken_in_parts


def test_what_excludes_batches_is_predicted_whole() -> None:
    plain = RunConfig.from_flat({"method": "fedavg"})
    assert taken_in_parts(plain).train.batch_size == AUTO
    own = RunConfig.from_flat({"method": "fedavg", "train.batch-size": 64})
    assert taken_in_parts(own).train.batch_size == 64
    whole = {"method": "fedgc", "fedgc.learn-from": "both", "fedgc.bottleneck": True}
    assert taken_in_parts(RunConfig.from_flat(whole)).train.batch_size == 0
