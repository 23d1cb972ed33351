"""Parts on the side of the coordinator."""
