"""FedC4 on the side of the coordinator."""
