"""Prototypes of classes in embedding space (DANCE, Eq. 4)."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Float, Int
from sklearn.cluster import MiniBatchKMeans
from torch import Tensor
from torch.nn.functional import normalize


def cluster(
    z: Float[Tensor, "nodes dim"], num_clusters: int, generator: np.random.Generator
) -> tuple[Float[Tensor, "clusters dim"], Int[Tensor, " nodes"]]:
    """Centres and assignment by mini-batch k-means; with at most `num_clusters` nodes, the nodes themselves.

    Args:
        z: embeddings.
        num_clusters: >= 1; some clusters may stay empty when embeddings coincide.
        generator: gives the seed of the initialisation, one draw whatever the sizes are.
    """
    seed = int(generator.integers(2**31))
    if z.shape[0] <= num_clusters:
        return z, torch.arange(z.shape[0], device=z.device)
    points = z.detach().cpu().numpy().astype(np.float32)
    means = MiniBatchKMeans(
        n_clusters=num_clusters,
        random_state=seed,
        n_init=1,
        max_iter=20,
        batch_size=max(1024, 2 * num_clusters),
        init_size=max(1024, 3 * num_clusters),
        reassignment_ratio=0.0,
    ).fit(points)
    centres = torch.as_tensor(means.cluster_centers_, dtype=z.dtype, device=z.device)
    return centres, torch.as_tensor(means.labels_, dtype=torch.long, device=z.device)


def prototype_scores(
    z: Float[Tensor, "nodes dim"],
    labels: Int[Tensor, " nodes"],
    num_classes: int,
    prototypes_per_class: int,
    generator: np.random.Generator,
) -> Float[Tensor, " nodes"]:
    """How well each node matches its class: s_v, the largest cosine to a prototype of the class (Eq. 4).

    Args:
        z: node embeddings of the received global model.
        labels: label or pseudo-label, -1 where unassigned.
        num_classes: C.
        prototypes_per_class: P; class c has min(P, |V_c|) prototypes.
        generator: seeds the clustering.

    Returns:
        s in [-1, 1]; -inf where unassigned.
    """
    scores = z.new_full((z.shape[0],), -torch.inf)
    for label in range(num_classes):
        members = (labels == label).nonzero().squeeze(1)
        if members.numel() == 0:
            continue
        centres, _ = cluster(z[members], prototypes_per_class, generator)
        cosine = normalize(z[members], dim=1) @ normalize(centres, dim=1).T
        scores[members] = cosine.amax(1).clamp(-1.0, 1.0)
    return scores
