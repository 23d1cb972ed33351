"""What clients tell each other of their condensed graphs, whom they choose by it, and what they rebuild (FedC4)."""
