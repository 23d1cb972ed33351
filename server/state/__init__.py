"""Where a run stands: its state, its checkpoint, what is seen of it."""
