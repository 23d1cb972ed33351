"""The server's side of each method, one module or package each, found by its specification."""
