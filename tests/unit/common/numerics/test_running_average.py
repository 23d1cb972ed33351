from __future__ import annotations

import torch

from fedtag.common.numerics.running_average import running_average


def test_a_running_average_is_the_closed_form() -> None:
    models = torch.randn(10, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    average = {"w": torch.tensor([99.0], dtype=torch.float64)}
    for count, value in enumerate(models, start=1):
        average = running_average(average, {"w": value.view(1)}, 0.9, count)
        shares = 0.9 ** torch.arange(count - 1, -1, -1, dtype=torch.float64)
        expected = (shares * models[:count]).sum() / shares.sum()
        torch.testing.assert_close(average["w"], expected.view(1))


def test_a_running_average_keeps_the_newest_counters() -> None:
    average = running_average(
        {"n": torch.tensor(4), "w": torch.zeros(1)}, {"n": torch.tensor(7), "w": torch.ones(1)}, 0.5, 2
    )
    assert average["n"].item() == 7
    assert average["n"].dtype is torch.int64
    torch.testing.assert_close(average["w"], torch.tensor([2 / 3]))
