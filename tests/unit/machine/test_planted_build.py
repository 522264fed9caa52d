"""build-uml.sh planted: the kernel with virtual time, with planted bugs after its own patches."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.machine.kernel_source import Workshop, make_workshop

BUG = """\
Says a third word. Why: to be found.

--- a/greeting.c
+++ b/greeting.c
@@ -1 +1 @@
-goodbye
+nothing
"""


@pytest.fixture
def shop(tmp_path: Path) -> Workshop:
    """With one small bug in place of the real ones; its patch applies after the small patch."""
    made = make_workshop(tmp_path)
    made.place_source()
    folder = made.clone / "provision/kernel/planted"
    for patch in folder.iterdir():
        patch.unlink()
    (folder / "01-word.patch").write_text(BUG)
    return made


def test_the_planted_kernel_has_what_the_one_with_virtual_time_has_and_the_bugs(shop: Workshop) -> None:
    with shop.held_up("planted"):
        assert (shop.tree / "greeting.c").read_text() == "nothing\n"
        assert (shop.tree / "arch/um/drivers/lab/lab_drive_kern.c").exists()
        settings = (shop.tree / ".config").read_text().splitlines()
    assert "CONFIG_UML_TIME_TRAVEL_SUPPORT=y" in settings
    # If an option occurs several times, Kconfig uses the last.
    assert [line for line in settings if "CONFIG_LOCALVERSION=" in line][-1] == 'CONFIG_LOCALVERSION="-raidlab-planted"'
    assert shop.build("planted").returncode == 0
    result = {path.name for path in (shop.kernels / "planted").iterdir()}
    assert {"linux", "quick_clock.so", "release"} <= result


def test_a_bug_that_changes_builds_that_kernel_again_and_no_other(shop: Workshop) -> None:
    for flavour in ("virtual-time", "planted"):
        assert shop.build(flavour).returncode == 0
    shop.edit("provision/kernel/planted/01-word.patch")
    assert shop.build("virtual-time").stderr == ""
    assert "planted 6.1.7-raidlab-vt ready" in shop.build("planted").stderr
    assert shop.build("planted").stderr == ""
