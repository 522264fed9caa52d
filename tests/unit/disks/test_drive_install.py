"""The drive's plugin comes to a machine once, compiled there, and what is missing is named."""

from __future__ import annotations

import ctypes
import runpy
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

import lab.disks
from lab.disks.kinds import install_drive
from lab.errors import LabError, ToolMissing
from tests.unit.fakes import FakeMachine, Scripted

PLUGIN = "/run/raidlab/drive.so"


def test_the_sources_are_compiled_once() -> None:
    machine = FakeMachine()
    install_drive(machine, PLUGIN)
    written = [path.rpartition("/")[2] for path, _ in machine.writes]
    assert written == ["mechanics.h", "parameters.h", "plugin.c", "plain_stack.py"]
    assert machine.runs[-1][-2:] == (PLUGIN, f"{PLUGIN}.d")
    runs = len(machine.runs)
    install_drive(machine, PLUGIN)
    assert machine.runs[runs:] == [("test", "-s", PLUGIN)]


def test_a_plugin_of_an_older_lab_is_compiled_anew() -> None:
    machine = FakeMachine()
    install_drive(machine, PLUGIN)
    machine.files[f"{PLUGIN}.d/mechanics.h"] = "older"
    runs = len(machine.runs)
    install_drive(machine, PLUGIN)
    assert machine.runs[-1][0] == "sh"
    assert len(machine.runs) == runs + 2


@pytest.mark.parametrize(
    ("answer", "kind", "said"),
    [
        (Scripted(status=127), ToolMissing, "no C compiler"),
        (
            Scripted(status=1, stderr="plugin.c:14: include file 'nbdkit-plugin.h' not found"),
            ToolMissing,
            "headers of nbdkit",
        ),
        (Scripted(status=1, stderr="plugin.c:7: error"), LabError, "cannot be compiled"),
    ],
)
def test_what_keeps_it_from_being_compiled_is_named(answer: Scripted, kind: type[LabError], said: str) -> None:
    machine = FakeMachine(answers={("sh", "-c"): answer})
    with pytest.raises(kind, match=said) as caught:
        install_drive(machine, PLUGIN)
    assert "tcc libc6-dev nbdkit-plugin-dev" in caught.value.hint


def segment_types(path: Path) -> list[int]:
    content = path.read_bytes()
    (start,), (size, count) = struct.unpack_from("<Q", content, 32), struct.unpack_from("<HH", content, 54)
    return [struct.unpack_from("<I", content, start + size * number)[0] for number in range(count)]


@pytest.mark.skipif(not shutil.which("tcc"), reason="tcc is not installed; next: provision/host/setup.sh lab")
def test_what_tcc_makes_asks_for_no_executable_stack(tmp_path: Path) -> None:
    source, built = tmp_path / "answer.c", tmp_path / "answer.so"
    source.write_text("int answer(void) { return 42; }\n")
    subprocess.run(["tcc", "-shared", "-o", built, source], check=True)
    program = Path(lab.disks.__file__).parent / "drive" / "plain_stack.py"
    plain_stack, gnu_stack = runpy.run_path(str(program))["main"], 0x6474E551
    before = segment_types(built)
    for _ in range(2):
        plain_stack(str(built))
        assert segment_types(built) == [*before, *([] if gnu_stack in before else [gnu_stack])]
    assert ctypes.CDLL(str(built)).answer() == 42
