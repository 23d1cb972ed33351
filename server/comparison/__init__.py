"""Several methods on the same data and seeds: statistics, tables, plots, one page."""
