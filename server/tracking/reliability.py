"""The calibration bins that a summary holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fedtag.common.errors import RunError
from fedtag.common.numerics.scores import CALIBRATION_BINS, ReliabilityBin


def read_bins(record: Sequence[Mapping[str, float | None]] | None, where: str) -> tuple[ReliabilityBin, ...]:
    """The bins in a summary; empty where it has none, as in runs of earlier versions.

    Raises:
        RunError: there are other than 15, or one is no bin.
    """
    if not record:
        return ()
    try:
        bins = tuple(
            ReliabilityBin(int(entry["nodes"] or 0), entry["confidence"], entry["accuracy"])
            for entry in record
        )
        if len(bins) != CALIBRATION_BINS or any(not _is_bin(one) for one in bins):
            raise ValueError(f"{len(bins)} bins")
    except (KeyError, TypeError, ValueError) as error:
        raise RunError(
            f"{where} holds no {CALIBRATION_BINS} bins of nodes, confidence and accuracy ({error}): restore the file"
        ) from error
    return bins if any(one.nodes for one in bins) else ()


def _is_bin(one: ReliabilityBin) -> bool:
    if one.nodes < 0:
        return False
    means = (one.confidence, one.accuracy)
    return all(mean is not None and 0 <= mean <= 1 for mean in means) if one.nodes else means == (None, None)
