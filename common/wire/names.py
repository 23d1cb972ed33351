"""What a client may be called."""

from __future__ import annotations

import re

CLIENT_NAME = re.compile(r"[\w][\w .@-]{0,63}")
"""It becomes a folder and stands in every table."""
