"""Numbers on a device, sector by sector. Runs inside the agent, standard library alone.

number DEVICE SECTORS FIRST      each sector holds its own number, from FIRST on
blank DEVICE...                  zeros everywhere
put DEVICE OFFSET HEX            a whole page at a byte
"""

from __future__ import annotations

import mmap
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SECTOR_BYTES = 512
PIECE_BYTES = 65536
MARK = 0x5A << 56


def sector(number: int) -> bytes:
    return (MARK | number + 1).to_bytes(8, "big") * (SECTOR_BYTES // 8)


def write(device: str, data: bytes, start: int = 0) -> None:
    fd = os.open(device, os.O_WRONLY | os.O_DIRECT)
    buffer = mmap.mmap(-1, max(len(data), 1))
    buffer[: len(data)] = data
    done = 0
    try:
        while done < len(data):
            done += os.pwrite(fd, memoryview(buffer)[done : done + PIECE_BYTES], start + done)
        os.fsync(fd)
    finally:
        os.close(fd)


def size_of(device: str) -> int:
    fd = os.open(device, os.O_RDONLY)
    try:
        return os.lseek(fd, 0, os.SEEK_END)
    finally:
        os.close(fd)


def main(arguments: Sequence[str], is_stopped: Callable[[], bool]) -> str:
    action, *rest = arguments
    if action == "blank":
        for device in rest:
            write(device, bytes(size_of(device)))
    elif action == "put":
        device, offset, text = rest
        write(device, bytes.fromhex(text), int(offset))
    else:
        device, sectors, first = rest
        write(device, b"".join(sector(int(first) + index) for index in range(int(sectors))))
    return ""
