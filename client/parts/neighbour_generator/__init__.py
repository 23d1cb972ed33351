"""Missing neighbours (FedSage+): a generator is trained on impaired graphs, and mends the client's own."""
