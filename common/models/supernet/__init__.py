"""The search space of DA-DFGAS: operations, cells, the supernet, and the networks that are cut out of it."""
