"""The coordinator's side: rounds, strategies, tracking, report."""
