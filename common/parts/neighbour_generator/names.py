"""The generator of missing neighbours as client and server speak of it."""

from __future__ import annotations

GENERATE_PHASE = "generate"
"""In which clients train the received generator on impaired graphs of theirs."""

GENERATOR = "generator"
"""Kind of record: the generator by which a client mends its graph; also the first part of its tensors' names in a
released model."""

EXCHANGE = "generator_exchange"
"""Number of the exchange that trains the generator, from 1."""

GENERATOR_PART = "neighbour-generator"
"""The name of the part."""
