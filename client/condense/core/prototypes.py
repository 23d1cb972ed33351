"""Prototypes of classes in embedding space (DANCE, Eq. 4)."""

from __future__ import annotations

import math

import numpy as np
import torch
from jaxtyping import Float, Int
from numpy.typing import NDArray
from sklearn.cluster import MiniBatchKMeans
from torch import Tensor
from torch.nn.functional import normalize

from fedtag.common.numerics.quotas import class_quotas

# Beyond as many, points are compared with the centres of their part only.
_MOST_AT_ONCE = 1024


def cluster(
    z: Float[Tensor, "nodes dim"], num_clusters: int, generator: np.random.Generator
) -> tuple[Float[Tensor, "clusters dim"], Int[Tensor, " nodes"]]:
    """Centres and assignment by mini-batch k-means; with at most `num_clusters` nodes, the nodes themselves.

    More than 1,024 clusters are made in two steps, so that the cost is not nodes times clusters: about √clusters parts
    first, then the share of clusters that is each part's due by its size.

    Args:
        z: embeddings.
        num_clusters: >= 1; some clusters may stay empty when embeddings coincide.
        generator: gives the seed of the initialisation, one draw whatever the sizes are.
    """
    seed = int(generator.integers(2**31))
    if z.shape[0] <= num_clusters:
        return z, torch.arange(z.shape[0], device=z.device)
    points = z.detach().cpu().numpy().astype(np.float32)
    centres, labels = _means(points, num_clusters, seed)
    return (
        torch.as_tensor(centres, dtype=z.dtype, device=z.device),
        torch.as_tensor(labels, dtype=torch.long, device=z.device),
    )


def _means(
    points: NDArray[np.float32], num_clusters: int, seed: int
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    if num_clusters > _MOST_AT_ONCE:
        return _means_of_parts(points, num_clusters, seed)
    if points.shape[0] <= num_clusters:
        return points, np.arange(points.shape[0])
    means = MiniBatchKMeans(
        n_clusters=num_clusters,
        random_state=seed,
        n_init=1,
        max_iter=20,
        batch_size=max(1024, 2 * num_clusters),
        init_size=max(1024, 3 * num_clusters),
        reassignment_ratio=0.0,
    ).fit(points)
    return means.cluster_centers_, means.labels_.astype(np.int64)


def _means_of_parts(
    points: NDArray[np.float32], num_clusters: int, seed: int
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    _, part = _means(points, math.isqrt(num_clusters), seed)
    if (part == part[0]).all():
        # They coincide, and no further step would part them.
        return points[:1], np.zeros(part.size, np.int64)
    sizes = torch.bincount(torch.as_tensor(part, dtype=torch.long))
    centres, labels, first = [], np.empty(part.size, np.int64), 0
    for number, quota in enumerate(class_quotas(sizes, num_clusters, sizes > 0).tolist()):
        if quota:
            members = np.flatnonzero(part == number)
            found, own = _means(points[members], quota, seed)
            centres.append(found)
            labels[members] = own + first
            first += len(found)
    return np.concatenate(centres), labels


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
