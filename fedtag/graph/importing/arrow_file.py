"""Parquet files, a few rows at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet

from fedtag.client.data.problems import Problems, shown
from fedtag.client.data.reading.forms import COPY_AGAIN, CUT_OFF
from fedtag.client.data.tables import BLOCK, Table
from fedtag.graph.importing.source import Source, check_names, refused


def parquet_source(path: Path, file: str) -> Source:
    """A Parquet file as a table.

    Raises:
        DataError: it cannot be read.
    """
    try:
        columns = tuple(parquet.read_schema(path).names)
    except pa.ArrowException as error:
        raise refused(file, CUT_OFF, COPY_AGAIN) from error
    check_names(file, columns)

    def blocks(names: Sequence[str], problems: Problems) -> Iterator[Table]:
        first = 1
        try:
            with parquet.ParquetFile(path) as content:
                for batch in content.iter_batches(BLOCK, columns=list(names)):
                    arrays = {name: batch.column(name) for name in names}
                    yield Table(file, arrays, np.arange(first, first + batch.num_rows), typed=True)
                    first += batch.num_rows
        except (pa.ArrowException, OSError) as error:
            what = f"is not a readable Parquet file ({shown(str(error))})"
            raise refused(file, what, COPY_AGAIN) from error

    return Source(file, "", columns, "Parquet", blocks)
