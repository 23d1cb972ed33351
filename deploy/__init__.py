"""The composition root: command line, simulation, local federation, operations."""
