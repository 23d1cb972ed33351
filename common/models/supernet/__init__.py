"""A search space of architectures: operations, cells, the supernet, and the networks that are cut out of it.

Liu et al., Differentiable Federated Graph Neural Architecture Search with Distribution-Aware Attentive Aggregation.
"""
