"""Whether a Flower program on this machine answers: `python health.py URL [CA.CRT]`; exit code 0 if it does.

The images have this file alone, so it imports nothing but Python's own library.
"""

from __future__ import annotations

import ssl
import sys
import urllib.request
from collections.abc import Sequence

_SECONDS = 5.0


def trouble(url: str, authority: str | None) -> str | None:
    """Why the program at the address does not answer as it should; None where it does.

    Args:
        url: of its health page.
        authority: the certificate that must vouch for an https address, an expired certificate fails.
    """
    context = None if authority is None else ssl.create_default_context(cafile=authority)
    handlers: list[urllib.request.BaseHandler] = [urllib.request.ProxyHandler({})]
    if context is not None:
        handlers.append(urllib.request.HTTPSHandler(context=context))
    try:
        with urllib.request.build_opener(*handlers).open(url, timeout=_SECONDS):
            return None
    except OSError as error:
        return f"{url}: {error}"


def main(arguments: Sequence[str]) -> int:
    """The exit code."""
    found = trouble(arguments[0], arguments[1] if len(arguments) > 1 else None)
    if found is not None:
        sys.stderr.write(found + "\n")
    return int(found is not None)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
