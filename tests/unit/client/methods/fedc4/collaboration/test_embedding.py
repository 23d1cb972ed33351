from __future__ import annotations

import numpy as np
import torch

from fedtag.client.methods.fedc4.collaboration.embedding import common_scale, portrait, random_directions
from fedtag.client.methods.fedc4.collaboration.selection import selected


def hidden(seed: int, rows: int) -> torch.Tensor:
    return torch.randn(rows, 4, generator=torch.Generator().manual_seed(seed)) + seed


def test_portraits_and_their_scale_are_those_of_the_equations() -> None:
    parts = {"b": hidden(1, 5), "a": hidden(2, 3)}
    portraits = {name: portrait(h) for name, h in parts.items()}
    scale = common_scale(portraits)
    means = np.stack([parts[name].numpy().mean(0) for name in ("a", "b")])
    centre = means.mean(0)
    spread = np.sqrt(((means - centre) ** 2).sum(1).mean())
    norms = np.concatenate([np.linalg.norm(h.numpy(), axis=1) for h in parts.values()])
    np.testing.assert_allclose(scale.centre.numpy(), centre, rtol=1e-5)
    np.testing.assert_allclose(
        [scale.spread, scale.line_centre, scale.line_spread], [spread, norms.mean(), norms.std()], rtol=1e-5
    )
    np.testing.assert_allclose(
        scale.embedded(parts["a"]).numpy(), (parts["a"].numpy() - centre) / spread, rtol=1e-4, atol=1e-5
    )
    assert portraits["a"].spectrum[0].tolist() == sorted(portraits["a"].spectrum[0].tolist())


def test_the_order_of_clients_changes_no_bit() -> None:
    portraits = {name: portrait(hidden(seed, 6)) for seed, name in enumerate("dacb")}
    scale, other = common_scale(portraits), common_scale(dict(sorted(portraits.items())))
    assert torch.equal(scale.centre, other.centre)
    assert (scale.spread, scale.line_centre, scale.line_spread) == (
        other.spread,
        other.line_centre,
        other.line_spread,
    )


def test_one_client_and_equal_clients_have_a_finite_scale() -> None:
    alone = common_scale({"a": portrait(torch.ones(1, 4))})
    assert torch.equal(alone.embedded(torch.ones(1, 4)), torch.zeros(1, 4))
    assert alone.placed(torch.full((1, 1), 2.0)).tolist() == [[0.0]]


def test_nodes_are_chosen_by_the_cosine_of_scaled_embeddings() -> None:
    mine, theirs = hidden(0, 30), hidden(1, 20)
    scale = common_scale({"a": portrait(mine), "b": portrait(theirs)})
    peer = theirs.mean(0)
    expected = []
    for place, row in enumerate(mine.double().numpy()):
        u = row - scale.centre.double().numpy()
        v = peer.double().numpy() - scale.centre.double().numpy()
        if u @ v / np.linalg.norm(u) / np.linalg.norm(v) > 0.1:
            expected.append(place)
    assert selected(mine, peer, scale, 0.1).tolist() == expected
    assert 0 < len(expected) < 30
    assert selected(mine, peer, scale, 1.0).numel() == 0


def test_projections_take_the_place_of_norms() -> None:
    directions = random_directions(5, 4, torch.Generator().manual_seed(1))
    assert torch.allclose(directions.norm(dim=1), torch.ones(5))
    h = hidden(1, 7)
    lines = portrait(h, directions).spectrum.numpy()
    np.testing.assert_allclose(lines, np.sort(directions.numpy() @ h.numpy().T, axis=1), rtol=1e-5)
