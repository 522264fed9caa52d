"""Write numbers to the sectors of a device. Runs inside the agent and uses only the standard library.

number DEVICE SECTORS FIRST      write to each sector its number, starting with FIRST
blank DEVICE...                  write zeros everywhere
put DEVICE OFFSET HEX            write a whole page at a byte offset
"""

from __future__ import annotations

import os

from lab.faults.guest.arrays import write_direct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SECTOR_BYTES = 512
MARK = 0x5A << 56


def sector(number: int) -> bytes:
    return (MARK | number + 1).to_bytes(8, "big") * (SECTOR_BYTES // 8)


def main(arguments: Sequence[str], is_stopped: Callable[[], bool]) -> str:
    action, *rest = arguments
    if action == "blank":
        for device in rest:
            with open(device, "rb") as file:
                write_direct(device, 0, bytes(file.seek(0, os.SEEK_END)))
    elif action == "put":
        device, offset, text = rest
        write_direct(device, int(offset), bytes.fromhex(text))
    else:
        device, sectors, first = rest
        write_direct(device, 0, b"".join(sector(int(first) + index) for index in range(int(sectors))))
    return ""
