"""FedGC on the side of the coordinator."""
