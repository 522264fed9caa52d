"""The drive's plugin comes to a machine once, compiled there, and what is missing is named."""

from __future__ import annotations

import pytest

from lab.disks.drive_models import install_drive
from lab.errors import LabError, ToolMissing
from tests.unit.fakes import FakeMachine, Scripted

PLUGIN = "/run/raidlab/drive.so"


def test_the_sources_are_compiled_once() -> None:
    machine = FakeMachine()
    install_drive(machine, PLUGIN)
    assert [path.rpartition("/")[2] for path, _ in machine.writes] == ["mechanics.h", "parameters.h", "plugin.c"]
    assert machine.runs[-1][-2:] == (PLUGIN, f"{PLUGIN}.d/plugin.c")
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
