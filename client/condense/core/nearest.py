"""The nearest of many vectors without comparing all pairs."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

# Of the graph of Malkov and Yashunin (2018): links a vector has, and how many are looked at to place and to find one.
_LINKS = 16
_PLACING = 40
_FINDING = 32


def nearest(
    vectors: Float[Tensor, "rows dim"], count: int
) -> tuple[Int[Tensor, "rows count"], Float[Tensor, "rows count"]]:
    """The vectors with about the largest inner products with each one, itself left out.

    By FAISS's hierarchical graph of small worlds, at about O(rows · log rows · dim). Built on one thread, since the
    graph depends on the order in which vectors are placed: the same on each call. It is searched on the host, whatever
    the device.

    Args:
        vectors: of unit length.
        count: >= 1.

    Returns:
        For each vector ids by falling product, and the products; where fewer were found, the number of rows as the id,
        and −inf.
    """
    # A heavy library (65 MB installed), which graphs of usual size never need.
    import faiss

    rows = vectors.shape[0]
    host = vectors.detach().float().cpu().contiguous().numpy()
    index = faiss.IndexHNSWFlat(vectors.shape[1], _LINKS, faiss.METRIC_INNER_PRODUCT)
    index.hnsw.efConstruction = _PLACING
    index.hnsw.efSearch = max(_FINDING, 2 * count)
    faiss.omp_set_num_threads(1)
    index.add(host)
    faiss.omp_set_num_threads(torch.get_num_threads())
    products, ids = (torch.from_numpy(part).to(vectors.device) for part in index.search(host, count + 1))
    others = (ids >= 0) & (ids != torch.arange(rows, device=ids.device).unsqueeze(1))
    # Others come first in their order; of a vector that did not find itself the last one is too many.
    order = torch.sort((~others).long(), dim=1, stable=True).indices[:, :count]
    found = others.gather(1, order)
    ids, products = ids.gather(1, order), products.gather(1, order).to(vectors.dtype)
    return torch.where(found, ids, rows), torch.where(found, products, -torch.inf)
