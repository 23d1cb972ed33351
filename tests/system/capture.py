"""Writes every frame of an interface to a file: `python capture.py INTERFACE FILE`, until it is ended."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

EVERY_PROTOCOL = 3


def main(interface: str, path: Path) -> None:
    with (
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(EVERY_PROTOCOL)) as wire,
        path.open("wb") as file,
    ):
        wire.bind((interface, 0))
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**24)
        while True:
            frame = wire.recv(2**17)
            file.write(len(frame).to_bytes(4, "big") + frame)
            file.flush()


def tcp_ports(frame: bytes) -> tuple[int, ...]:
    """Both ports of a TCP segment over IPv4; nothing for other frames."""
    if frame[12:14] != b"\x08\x00" or frame[23] != 6:
        return ()
    segment = frame[14 + 4 * (frame[14] & 15) :]
    return int.from_bytes(segment[:2], "big"), int.from_bytes(segment[2:4], "big")


def frames(data: bytes) -> list[bytes]:
    found, at = [], 0
    while at + 4 <= len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        found.append(data[at + 4 : at + 4 + size])
        at += 4 + size
    return found


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
