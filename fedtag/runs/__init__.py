"""Runs on this machine: settings, the grid of clients, predictions by what was released."""
