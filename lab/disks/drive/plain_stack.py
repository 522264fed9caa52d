"""Mark a shared object as not needing an executable stack, if the compiler has not done so.

tcc writes no PT_GNU_STACK header. Without this header, the loader assumes that the object needs an executable stack,
and since glibc 2.41 it refuses to load such an object into a running program (elf(5); release notes of glibc 2.41,
dlopen).
"""

import struct
import sys

HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
SEGMENT = struct.Struct("<IIQQQQQQ")
PT_GNU_STACK = 0x6474E551
READ_WRITE = 6


def main(path: str) -> None:
    """Add the header to the 64-bit object at this path, unless it already has one.

    The program header table becomes longer and moves to the end of the file.
    """
    with open(path, "r+b") as file:
        content = file.read()
        header = list(HEADER.unpack_from(content))
        start, count = header[5], header[10]
        table = content[start : start + SEGMENT.size * count]
        if any(segment[0] == PT_GNU_STACK for segment in SEGMENT.iter_unpack(table)):
            return
        padding = bytes(-len(content) % 8)
        file.write(padding + table + SEGMENT.pack(PT_GNU_STACK, READ_WRITE, 0, 0, 0, 0, 0, 16))
        header[5], header[10] = len(content) + len(padding), count + 1
        file.seek(0)
        file.write(HEADER.pack(*header))


if __name__ == "__main__":
    main(sys.argv[1])
