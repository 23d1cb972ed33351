"""Many clients trained at once: their parameters stacked, their graphs side by side as one."""
