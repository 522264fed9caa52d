from __future__ import annotations

import subprocess
import sys

import msgspec
import pytest

from lab.gates.decoding import convert, decode_json

RACE = """
import sys, threading, types
from lab.gates.decoding import convert, decode_json

sys.setswitchinterval(1e-6)
TREE = {"f": 1, "inner": {"f": 1, "inner": {"f": 1}}}
TEXT = b'{"f": 1, "inner": {"f": 1, "inner": {"f": 1}}}'


def nested(number):
    source = "import msgspec\\n"
    for depth in range(6):
        source += f"class Level{depth}(msgspec.Struct):\\n    f: 'int | None' = None\\n"
        source += "".join(f"    f{field}: 'int | None' = None\\n" for field in range(20))
        source += f"    inner: 'Level{depth - 1} | None' = None\\n" if depth else ""
    module = types.ModuleType(f"made{number}")
    sys.modules[module.__name__] = module
    exec(source, module.__dict__)
    return module.Level5


problems = []


def decode(kind, barrier, way):
    barrier.wait()
    try:
        found = way(kind)
        assert found.inner.inner.f == 1, found
    except BaseException as problem:
        problems.append(repr(problem))


for number in range(60):
    kind, barrier = nested(number), threading.Barrier(3)
    ways = (lambda kind: convert(TREE, kind), lambda kind: decode_json(TEXT, kind), lambda kind: convert(TREE, kind))
    threads = [threading.Thread(target=decode, args=(kind, barrier, way)) for way in ways]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
print(problems or "whole")
"""


def test_threads_that_decode_a_type_for_the_first_time_together_get_it_whole() -> None:
    """A process of its own: without the gate it is ended by a segmentation fault."""
    ended = subprocess.run([sys.executable, "-c", RACE], capture_output=True, text=True, timeout=60, check=False)
    assert ended.returncode == 0, f"ended with {ended.returncode}: {ended.stderr[-2000:]}"
    assert ended.stdout.strip() == "whole"


def test_what_is_of_another_kind_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError):
        convert({"a": "x"}, dict[str, int])
    with pytest.raises(msgspec.ValidationError):
        decode_json(b'{"a": "x"}', dict[str, int])
    with pytest.raises(msgspec.DecodeError):
        decode_json(b"{", dict[str, int])
