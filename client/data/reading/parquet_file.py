"""Parquet files as tables."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

from fedtag.client.data.problems import Problems, shown
from fedtag.client.data.reading.forms import COPY_AGAIN, CUT_OFF
from fedtag.client.data.tables import Table, repeats

MAGIC = b"PAR1"


def read_parquet(path: Path, problems: Problems) -> Table | None:
    """The table of a Parquet file; None where it cannot be read, which is reported."""
    try:
        with parquet.ParquetFile(path) as file:
            content = file.read()
    except pa.ArrowException as error:
        whole = path.read_bytes()
        if whole.startswith(MAGIC) and not whole.endswith(MAGIC):
            problems.add(path.name, CUT_OFF, COPY_AGAIN)
        else:
            problems.add(path.name, f"is not a readable Parquet file ({shown(str(error))})", "write it again")
        return None
    if repeats(path.name, content.column_names, problems):
        return None
    columns = {name: content.column(name) for name in content.column_names}
    return Table(path.name, columns, np.arange(1, content.num_rows + 1), typed=True)
