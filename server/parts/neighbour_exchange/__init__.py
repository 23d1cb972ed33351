"""The exchange of neighbour sums on the side of the coordinator."""
