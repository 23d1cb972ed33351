"""From files as people have them to a data folder: what a file is, which column is what, which edges follow."""
