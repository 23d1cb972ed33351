from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, roc_auc_score

from fedtag.common.numerics import ranking
from fedtag.common.numerics.ranking import RANK_BINS, precision_areas, rank_bins, rank_counts, roc_areas


def binary(score: np.ndarray) -> torch.Tensor:
    """Logits of two classes with these log odds of the second."""
    return torch.stack([torch.zeros(len(score)), torch.from_numpy(score).float()], dim=1)


def drawn(nodes: int, rare: float, sharp: float, gap: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Labels, and `sharp` times the log odds of a calibrated model.

    Scores are normal and `gap` deviations apart, so that their log odds are known in closed form.
    """
    rng = np.random.default_rng(seed)
    y = rng.random(nodes) < rare
    score = rng.standard_normal(nodes) + gap * y
    return y, sharp * (gap * score - gap**2 / 2 + np.log(rare / (1 - rare)))


def histograms(*bins: tuple[int, int, int]) -> torch.Tensor:
    """Counts of one class: bin, positives, negatives."""
    counts = torch.zeros(2, 1, RANK_BINS, dtype=torch.long)
    for place, positives, negatives in bins:
        counts[1, 0, place], counts[0, 0, place] = positives, negatives
    return counts


@pytest.mark.parametrize("nodes", [2000, 20000])
def test_areas_are_near_those_of_the_scores_themselves(nodes: int) -> None:
    errors = []
    for rare in (0.3, 0.05, 0.005):
        for sharp in (0.1, 0.5, 1, 2, 4):
            for gap in (1, 2, 3):
                y, score = drawn(nodes, rare, sharp, gap, seed=round(1000 * rare + 10 * sharp) + gap)
                counts = rank_counts(binary(score), torch.from_numpy(y).long())
                # In double precision; of single one a sure model's scores are tied.
                exact = roc_auc_score(y, score), average_precision_score(y, score)
                errors.append(
                    (
                        abs(float(roc_areas(counts)[1]) - exact[0]),
                        abs(float(precision_areas(counts)[1]) - exact[1]),
                    )
                )
    worst, usual = np.max(errors, axis=0), np.mean(errors, axis=0)
    assert (worst < 0.03).all(), worst
    assert (usual < 0.003).all(), usual


@given(
    st.lists(
        st.tuples(st.integers(0, RANK_BINS - 1), st.integers(0, 9), st.integers(0, 9)),
        min_size=1,
        max_size=6,
        unique_by=lambda one: one[0],
    )
)
def test_the_roc_area_of_binned_scores_is_that_of_scikit_learn(bins: list[tuple[int, int, int]]) -> None:
    label = [kind for _, m, n in bins for kind in [1] * m + [0] * n]
    score = [place for place, m, n in bins for _ in range(m + n)]
    found = float(roc_areas(histograms(*bins))[0])
    if len(set(label)) < 2:
        assert np.isnan(found)
        assert np.isnan(float(precision_areas(histograms(*bins))[0]))
    else:
        assert found == pytest.approx(roc_auc_score(label, score))


@pytest.mark.parametrize(
    "bins",
    [
        [(5, 3, 4), (80, 2, 5), (100, 0, 1)],
        [(1, 1, 1)],
        [(9, 2, 30), (10, 3, 0)],
        [(3, 1, 7), (4, 0, 9), (6, 6, 2)],
    ],
)
def test_tied_nodes_count_as_if_in_a_random_order(bins: list[tuple[int, int, int]]) -> None:
    label = np.array([kind for _, m, n in bins for kind in [1] * m + [0] * n])
    score = np.array([place for place, m, n in bins for _ in range(m + n)], dtype=float)
    rng = np.random.default_rng(0)
    draws = [average_precision_score(label, score + 0.5 * rng.random(len(score))) for _ in range(2000)]
    deviation = float(np.std(draws)) / np.sqrt(len(draws))
    assert float(precision_areas(histograms(*bins))[0]) == pytest.approx(
        np.mean(draws), abs=4 * deviation + 1e-9
    )


@given(st.permutations(list(range(12))), st.integers(1, 11))
def test_nodes_in_bins_of_their_own_lose_nothing(order: list[int], positives: int) -> None:
    label = [int(place < positives) for place in order]
    bins = [(10 * place, kind, 1 - kind) for place, kind in enumerate(label)]
    score = [place for place, _, _ in bins]
    assert float(precision_areas(histograms(*bins))[0]) == pytest.approx(
        average_precision_score(label, score)
    )
    assert float(roc_areas(histograms(*bins))[0]) == pytest.approx(roc_auc_score(label, score))


@given(st.lists(st.integers(0, 40), min_size=RANK_BINS - 1, max_size=RANK_BINS - 1), st.integers(1, 60))
def test_a_perfect_order_has_areas_of_one_and_no_more(above: list[int], others: int) -> None:
    assume(sum(above) > 0)
    counts = torch.zeros(2, 1, RANK_BINS, dtype=torch.long)
    counts[0, 0, 0] = others
    counts[1, 0, 1:] = torch.tensor(above)
    for areas in (roc_areas(counts), precision_areas(counts)):
        assert 1 - 1e-9 < float(areas) <= 1


def test_bins_go_by_log_odds_and_hold_every_score() -> None:
    odds = torch.tensor([-1e4, -80, -60.1, -9, -4.6, -0.01, 0.01, 4.6, 9, 60.1, 80, 1e4])
    bins = rank_bins(torch.stack([torch.zeros(12), odds], dim=1))[:, 1]
    assert bins.tolist() == sorted(bins.tolist())
    assert bins[[0, 1, 2]].tolist() == [0, 0, 0]
    assert bins[-3:].tolist() == [RANK_BINS - 1] * 3
    assert bins[5] == RANK_BINS // 2 - 1
    assert bins[6] == RANK_BINS // 2
    # p = 0.01 and 0.011 differ by less than a bin, 0.01 and 0.015 by more.
    p = torch.tensor([0.01, 0.011, 0.015], dtype=torch.float64)
    low = rank_bins(torch.stack([torch.zeros(3, dtype=torch.float64), p.logit()], dim=1))[:, 1]
    assert low[1] - low[0] <= 1
    assert low[2] > low[0]
    assert rank_bins(torch.tensor([[torch.nan, 1.0]])).shape == (1, 2)


def test_blocks_of_nodes_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(0)
    logits, label = torch.randn(50, 3, generator=generator), torch.randint(0, 3, (50,), generator=generator)
    whole = rank_counts(logits, label)
    monkeypatch.setattr(ranking, "BLOCK", 21)
    assert torch.equal(rank_counts(logits, label), whole)
    for one in range(3):
        assert int(whole[1, one].sum()) == int((label == one).sum())
        assert int(whole[:, one].sum()) == 50
        expected = torch.bincount(rank_bins(logits)[label == one, one], minlength=RANK_BINS)
        assert torch.equal(whole[1, one], expected)
