"""How much of anything a peer or the server may send: all limits of what crosses the network, in one place.

They leave room for tables over a thousand clients and models of thousands of tensors, and bound what it costs to
refuse the rest: a second of a processor, and memory in proportion to what was sent.
"""

from __future__ import annotations

MAX_HEADER_BYTES = 16 * 2**20
"""Of the JSON of a record, or of the addresses of its letters; ASCII, so that characters are bytes."""
MAX_DEPTH = 32
"""Tables and lists within one another."""
MAX_TABLES, MAX_VALUES = 2**18, 2**19
"""Tables and lists, and all that is in them; a mark in a text that looks like one of theirs counts, too."""
MAX_TEXT = 2**16
"""Characters of one text."""
MAX_NAME = 256
"""Characters of the name of a tensor, and of a key of a table."""
MAX_NUMBER = 64
"""Characters of one number."""
LARGEST_INTEGER = 2**63 - 1

MAX_TENSORS = 2**14
"""Of one record."""
MAX_TENSOR_HEADER = MAX_TENSORS * (MAX_NAME + 256)
"""Bytes of the table in front of tensors."""
MAX_RANK = 8
"""Dimensions of one tensor."""
MAX_EMPTY_SIDE = 2**24
"""Rows or columns of a tensor that has no value: nothing in it pays for them."""
DTYPES = frozenset({"F64", "F32", "F16", "BF16", "I64", "I32", "I16", "I8", "U8", "BOOL"})

MAX_LETTERS = 2**14
"""Of one record."""
MAX_ADDRESS = 64
"""Characters of the name of a letter's sender or recipient, and of its kind."""
MAX_SIGN_BYTES = 2048
"""Of what a site says while it works, and of the request for its answer."""
MAX_REASON = 500
"""Characters of what a site says of its failure."""
