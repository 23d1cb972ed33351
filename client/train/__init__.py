"""Local training and scoring."""
