"""A server's end of TLS that passes everything on and keeps it in clear: for what crosses inside the encryption.

`python eavesdropper.py SERVER_FOLDER NAME ADDRESS FILE` listens on the loopback port 9092 as the server that the
folder's key belongs to, and speaks with the true one, NAME, at ADDRESS.
"""

from __future__ import annotations

import asyncio
import ssl
import sys
from pathlib import Path

PORT = 9092


async def main(folder: Path, name: str, address: str, path: Path) -> None:
    inward = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    inward.load_cert_chain(folder / "server.crt", folder / "server.key")
    inward.set_alpn_protocols(["h2"])
    outward = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    outward.set_alpn_protocols(["h2"])
    with path.open("wb") as file:

        async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
            while data := await source.read(2**16):
                file.write(data)
                file.flush()
                sink.write(data)
                await sink.drain()
            sink.close()

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            server = await asyncio.open_connection(address, PORT, ssl=outward, server_hostname=name)
            await asyncio.gather(pump(reader, server[1]), pump(server[0], writer), return_exceptions=True)

        async with await asyncio.start_server(connected, "127.0.0.1", PORT, ssl=inward) as listening:
            await listening.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], Path(sys.argv[4])))
