"""The matrix of a comparison: its description, its cells, and how they are run and resumed."""
