"""Carrying out one instruction: what comes in, what may leave."""
