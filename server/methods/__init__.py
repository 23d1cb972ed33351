"""The server's part of each method, one module or package each, found by name."""
