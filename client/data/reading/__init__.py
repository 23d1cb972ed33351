"""Files of a data folder as tables and arrays: Parquet, CSV, JSON lines, .npz; what is something else is called so."""
