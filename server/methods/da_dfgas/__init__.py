"""DA-DFGAS on the side of the coordinator."""
