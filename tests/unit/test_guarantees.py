"""Every guarantee that SECURITY.md and docs/machines.md give is checked by tests, which are named here."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LAYERS = "tests/unit/machine/test_confinement.py::test_what_each_layer_leaves"
WRITING = "tests/kernel/test_confinement.py::test_confined_none_of_it_has_an_effect"
READING = "tests/kernel/test_confinement.py::test_confined_no_file_of_the_user_is_read"
# The beginning of each sentence of the list in docs/machines.md, and of each row of the first table in SECURITY.md.
MACHINES = {
    "With the namespace, or with Landlock and seccomp together, nothing": (LAYERS, WRITING),
    "With the namespace or Landlock, no file": (LAYERS, READING),
    "With the namespace, other files, processes, abstract sockets": (LAYERS, READING),
    "With the namespace or seccomp, no message": (LAYERS,),
    "With the namespace, the guest's programs stop": (
        "tests/kernel/test_machine.py::test_no_program_of_the_guest_outlives_its_kernel",
    ),
    "Without the namespace, the guest sees the same files": (READING,),
}
SECURITY = {
    "other people's files": (
        "tests/unit/gates/test_foreign.py::test_a_foreign_file_is_named_with_what_it_may_do",
        "tests/hardening/test_guests.py::test_a_drill_from_outside_reads_no_file_of_the_user",
        "tests/hardening/test_stored.py::",
    ),
    "other users of the same computer": (
        "tests/unit/gates/test_own.py::",
        "tests/unit/gates/test_trust.py::",
        "tests/unit/cli/test_traps.py::test_every_command_prints_its_help",
        "tests/hardening/test_written.py::",
        "tests/unit/test_written_files.py::",
    ),
    "students on one machine": (WRITING, READING, LAYERS),
    "a network": ("tests/hardening/test_process.py::", "tests/unit/sweep/"),
    "a machine that raidlab controls": ("tests/unit/machine/test_channel.py::",),
}


def listed(file: str, heading: str, start: str) -> list[str]:
    """The lines of one section that begin with ``start``, without it."""
    section = (ROOT / file).read_text(encoding="utf-8").partition(f"{heading}\n")[2].partition("\n#")[0]
    return [line.removeprefix(start) for line in section.splitlines() if line.startswith(start)]


@pytest.mark.parametrize(
    ("found", "checked"),
    [
        (listed("docs/machines.md", "### The computer's files", "- "), MACHINES),
        (listed("SECURITY.md", "## Threats", "| ")[1:], SECURITY),
    ],
)
def test_every_guarantee_has_its_tests(found: list[str], checked: dict[str, tuple[str, ...]]) -> None:
    assert len(found) >= 5
    assert [line for line in found if not any(line.startswith(start) for start in checked)] == []
    assert [start for start in checked if not any(line.startswith(start) for line in found)] == []
    for tests in checked.values():
        assert tests
        for test in tests:
            path, _, name = test.partition("::")
            assert (ROOT / path).exists(), test
            text = (ROOT / path).read_text(encoding="utf-8") if name else ""
            assert not name or f"def {name}" in text, test
