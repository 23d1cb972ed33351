"""What crosses the network: typed records and how they become Flower messages."""
