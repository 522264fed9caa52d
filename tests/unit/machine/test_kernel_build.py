"""build-uml.sh with a miniature kernel source: unpacking, patching, resuming, and refusals."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from tests.unit.machine.kernel_source import REPOSITORY, Workshop, make_workshop
from tests.waiting import is_running, wait_until

pytestmark = pytest.mark.wide

OBJECTS = ["one.o", "three.o", "two.o"]


@pytest.fixture
def shop(tmp_path: Path) -> Workshop:
    made = make_workshop(tmp_path)
    made.place_source()
    return made


def leftovers(shop: Workshop) -> list[str]:
    return sorted(path.name for path in (shop.kernels / ".build").iterdir())


def test_every_real_patch_begins_with_its_reason() -> None:
    for patch in (REPOSITORY / "provision/kernel/patches").iterdir():
        assert patch.read_text().partition("\n--- a/")[0].count(".") >= 2, patch.name


def test_a_kernel_in_virtual_time_lies_with_all_that_belongs_to_it_in_a_folder(shop: Workshop) -> None:
    built = shop.build("virtual-time")
    assert (built.returncode, shop.compiled) == (0, OBJECTS), built.stderr
    result = shop.kernels / "virtual-time"
    names = ["config", "inputs", "linux", "modules", "quick_clock.so", "release"]
    assert sorted(path.name for path in result.iterdir()) == names
    assert os.access(result / "linux", os.X_OK)
    assert (result / "release").read_text() == "6.1.7-raidlab-vt\n"
    assert "CONFIG_UML_TIME_TRAVEL_SUPPORT=y" in (result / "config").read_text().splitlines()
    assert "this source has no CONFIG_MD_LINEAR=y\n" in built.stderr
    assert leftovers(shop) == []
    again = shop.build("virtual-time")
    assert (again.returncode, again.stderr, shop.compiled) == (0, "", [])


def test_the_standard_kernel_has_no_patch_and_no_driver(shop: Workshop) -> None:
    with shop.held_up("standard"):
        assert (shop.tree / "greeting.c").read_text() == "hello\n"
        assert not (shop.tree / "arch/um/drivers/lab").exists()


def test_the_source_is_patched_and_has_the_driver_and_nothing_of_other_processors(shop: Workshop) -> None:
    with shop.held_up("virtual-time"):
        tree = shop.tree
    assert (tree / "greeting.c").read_text() == "goodbye\n"
    assert (tree / "arch/um/drivers/Makefile").read_text().endswith("\nobj-y += lab/\n")
    assert {"Makefile", "lab_drive_kern.c", "mechanics.h"} <= {p.name for p in (tree / "arch/um/drivers/lab").iterdir()}
    assert [path.name for path in (tree / "arch/arm").rglob("*") if path.is_file()] == ["Kconfig"]


@pytest.mark.parametrize(
    ("flavour", "names"),
    [
        ("virtual-time", ["patches/word.patch", "driver/lab_drive_kern.c", "driver/Makefile", "virtual-time.config"]),
        ("virtual-time", ["lab.config", "quick_clock.c", "fio_libraries.sh", "../../lab/disks/drive/mechanics.h"]),
        ("planted", ["planted/01-word.patch"]),
    ],
)
def test_what_a_kernel_is_made_of_changes_and_it_is_built_again(shop: Workshop, flavour: str, names: list[str]) -> None:
    assert shop.build(flavour).returncode == 0
    for name in names:
        assert len(shop.compiled) == len(OBJECTS)
        shop.edit(f"provision/kernel/{name}")
        assert shop.build(flavour).returncode == 0, name
    assert len(shop.compiled) == len(OBJECTS)


def test_no_kernel_is_built_again_for_what_it_is_not_made_of(shop: Workshop) -> None:
    for flavour in ("virtual-time", "standard"):
        assert shop.build(flavour).returncode == 0
    shop.edit("provision/kernel/standard.config")
    shop.edit("provision/kernel/planted/01-word.patch")
    shop.place_source("linux-source-6.1.tar.gz", greeting_c="hello\n")
    assert shop.build("virtual-time").stderr == ""
    shop.edit("provision/kernel/driver/lab_drive_kern.c")
    shop.edit("provision/kernel/standard.config", "\n")
    assert "ready" in shop.build("standard").stderr
    assert "ready" in shop.build("virtual-time").stderr
    assert shop.build("standard").stderr == ""


def test_a_chosen_source_has_a_separate_folder_and_is_rebuilt_if_it_changes(shop: Workshop) -> None:
    chosen = shop.place_source("linux-source-6.12.tar.gz")
    for words, folder in (
        ((), "standard"),
        (("virtual-time",), "virtual-time"),
        (("virtual-time", "--source", str(chosen)), "virtual-time-6.12"),
    ):
        assert shop.build(*words).returncode == 0
        assert (shop.kernels / folder / "linux").exists()
    assert shop.build("virtual-time", "--source", str(chosen)).stderr == ""
    os.utime(chosen, (1, 1))
    assert "virtual-time-6.12 6.1.7-raidlab-vt ready" in shop.build("virtual-time", "--source", str(chosen)).stderr
    assert shop.build("virtual-time").stderr == ""


@pytest.mark.parametrize(
    ("words", "status", "expected"),
    [
        (("quick",), 2, "usage: build-uml.sh"),
        (("--source", "/nowhere/linux-source-6.1.tar.gz"), 2, "No such file"),
        (("--source", "/bin/sh"), 2, "/sh does not tell the kernel's version"),
    ],
)
def test_a_wrong_call_is_refused(shop: Workshop, words: tuple[str, ...], status: int, expected: str) -> None:
    refused = shop.build(*words)
    assert refused.returncode == status
    assert expected in refused.stderr
    assert not shop.kernels.exists()


def test_missing_requirements_are_reported(shop: Workshop) -> None:
    (shop.sources / "linux-source-6.1.tar.gz").unlink()
    without_source = shop.build("virtual-time")
    assert (without_source.returncode, "apt-get install linux-source" in without_source.stderr) == (3, True)
    (shop.root / "tools/uname").write_text("#!/bin/sh\necho aarch64\n")
    elsewhere = shop.build("virtual-time")
    assert (elsewhere.returncode, "x86-64 only, this is aarch64" in elsewhere.stderr) == (3, True)


def cut_off(shop: Workshop) -> None:
    source = shop.sources / "linux-source-6.1.tar.gz"
    source.write_bytes(source.read_bytes()[:300])


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (
            lambda shop: shop.edit(
                "provision/kernel/patches/word.patch", "@@ -7 +7 @@\n-what nobody wrote\n+anything\n"
            ),
            "word.patch does not apply to Linux 6.1.7",
        ),
        *(
            (
                lambda shop, text=text: shop.place_source(**{"arch/um/drivers/Makefile": text}),
                "linux-source-6.1.tar.gz has no arch/um/drivers/Makefile as the lab's drives need it",
            )
            for text in ("", "obj-y :=\n")
        ),
        (cut_off, "linux-source-6.1.tar.gz cannot be unpacked"),
    ],
    ids=["patch", "no-makefile", "makefile", "cut-off"],
)
def test_a_failed_build_is_reported_and_leaves_nothing_behind(
    shop: Workshop, spoil: Callable[[Workshop], object], message: str
) -> None:
    assert shop.build("virtual-time").returncode == 0
    spoil(shop)
    # Another source alone does not invalidate a kernel.
    shop.edit("provision/kernel/lab.config")
    refused = shop.build("virtual-time")
    assert refused.returncode == 1
    assert message in refused.stderr
    assert leftovers(shop) == []
    assert (shop.kernels / "virtual-time/linux").exists()


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)])
def test_an_interrupted_build_leaves_no_process_and_can_be_resumed(shop: Workshop, number: int, status: int) -> None:
    with shop.held_up("virtual-time") as build:
        build.send_signal(number)
        assert build.wait(60) == status
        wait_until(lambda: not any(map(is_running, map(int, shop.held.read_text().split()))))
    assert shop.compiled[0] == "one.o"
    resumed = shop.build("virtual-time")
    assert resumed.returncode == 0
    assert "going on with what was interrupted" in resumed.stderr
    assert "unpacking" not in resumed.stderr
    assert shop.compiled == ["three.o", "two.o"]
    assert leftovers(shop) == []


def test_an_interrupted_unpacking_is_begun_anew(shop: Workshop) -> None:
    with shop.held_up("virtual-time"):
        pass
    shop.tree.rename(shop.tree.with_name("unpacked"))
    assert "kernel: unpacking" in shop.build("virtual-time").stderr


def test_an_unfinished_build_with_other_inputs_is_removed(shop: Workshop) -> None:
    with shop.held_up("virtual-time"):
        (before,) = leftovers(shop)
    shop.edit("provision/kernel/virtual-time.config")
    with shop.held_up("virtual-time"):
        (now,) = leftovers(shop)
    assert now != before


def test_of_two_at_once_the_second_waits(shop: Workshop) -> None:
    with shop.held_up("virtual-time") as first, shop.begun("virtual-time") as second:
        assert second.stdout
        assert second.stdout.readline() == "kernel: another build is under way; waiting for its end\n"
        shop.gate.touch()
        assert (first.wait(60), second.wait(60)) == (0, 0)
        assert (second.stdout.read(), shop.compiled) == ("", OBJECTS)


def test_a_compile_error_is_reported_and_compiled_files_are_reused(shop: Workshop) -> None:
    shop.place_source("linux-source-6.1.tar.gz", wrong_c="nonsense\n")
    failed = shop.build("virtual-time")
    assert failed.returncode == 1
    assert "wrong.c:1: error: no such thing" in failed.stderr
    assert "linux-source-6.1.tar.gz cannot be compiled" in failed.stderr
    (shop.tree / "wrong.c").unlink()
    assert shop.build("virtual-time").returncode == 0


def test_a_terminal_shows_how_far_it_is_in_one_line(shop: Workshop) -> None:
    leader, follower = pty.openpty()
    shown = b""
    with subprocess.Popen(shop.argv("virtual-time"), env=shop.environment, stderr=follower) as build:
        os.close(follower)
        # At its end, reading from the terminal fails.
        with suppress(OSError):
            while True:
                shown += os.read(leader, 4096)
        assert build.wait(60) == 0
    os.close(leader)
    assert shown.count(b"\r\x1b[Kkernel: ") >= len(OBJECTS)


def test_the_planted_kernel_has_what_the_one_with_virtual_time_has_and_the_bugs(shop: Workshop) -> None:
    with shop.held_up("planted"):
        assert (shop.tree / "greeting.c").read_text() == "nothing\n"
        assert (shop.tree / "arch/um/drivers/lab/lab_drive_kern.c").exists()
        settings = (shop.tree / ".config").read_text().splitlines()
    assert "CONFIG_UML_TIME_TRAVEL_SUPPORT=y" in settings
    # If an option occurs several times, Kconfig uses the last.
    assert [line for line in settings if "CONFIG_LOCALVERSION=" in line][-1] == 'CONFIG_LOCALVERSION="-raidlab-planted"'
    assert shop.build("planted").returncode == 0
    assert {"linux", "quick_clock.so", "release"} <= {path.name for path in (shop.kernels / "planted").iterdir()}
