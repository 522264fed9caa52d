"""A real kernel, agent and disks that stop: what is recognised, what is restarted, and what evidence is kept."""

from __future__ import annotations

import ctypes
import os
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lab.errors import LabError, MachineLost
from lab.machine import EmbeddedOptions, GuestProgram, Machine, open_machine
from lab.machine.disk_rescue import CHECK_SECONDS, RESCUED, STALLED_CHECKS
from lab.machine.stand_still import EVIDENCE_FOLDER, SILENT_SECONDS, STILL_SECONDS, Vigil
from tests.kernel.place import disk_name, host_at, kernel_target, record_of
from tests.kernel.test_machine import processes_of, sparse_disks
from tests.waiting import PATIENCE_SECONDS, wait_until

pytestmark = [pytest.mark.kernel, pytest.mark.wide]

PIDFD_GETFD = 438
EVENTS = 64
RECOGNISED_SECONDS = 3 * STILL_SECONDS
"""More of the vigil's own seconds than recognition takes: eleven. Without recognition there would be SILENT_SECONDS."""
STOLEN_SECONDS = 3 * STALLED_CHECKS * CHECK_SECONDS
"""Enough for two attempts to restart a disk whose events are all stolen, unless the computer is busy."""
RESCUE_SECONDS = 2 * PATIENCE_SECONDS
HANGS = "import time\ntime.sleep(1000)\n"


@pytest.fixture
def state() -> Iterator[Path]:
    """A state folder with a path short enough for the management console's socket; a test's path may be too long."""
    with tempfile.TemporaryDirectory(prefix="raidlab-") as name:
        yield Path(name)


@contextmanager
def lost_with_evidence(state: Path, why: str) -> Iterator[None]:
    """Require that the block ends with the loss of the machine within RECOGNISED_SECONDS, and leaves evidence."""
    took: list[int] = []

    def note_seconds(vigil: Vigil, group: int, what: str) -> LabError:
        # The vigil does not count seconds in which others have the processor, which may be many on a busy computer.
        took.append(vigil._silent)
        return lose(vigil, group, what)

    lose = Vigil._lost
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Vigil, "_lost", note_seconds)
        with pytest.raises(MachineLost, match=why) as lost:
            yield
    assert len(took) == 1
    assert took[0] < RECOGNISED_SECONDS < SILENT_SECONDS
    (kept,) = (state / EVIDENCE_FOLDER).iterdir()
    assert str(kept) in lost.value.hint
    text = kept.read_text(encoding="utf-8")
    assert "== console" in text
    assert "schedstat" in text


def test_a_stopped_kernel_is_recognised_and_its_console_stored(state: Path) -> None:
    with open_machine(kernel_target(), host_at(state)) as machine:
        os.kill(record_of(state)["kernel_group"], signal.SIGSTOP)
        with lost_with_evidence(state, r"is hung: its process is stopped"):
            machine.run(["sleep", "1000"], timeout_seconds=2000)
    assert processes_of(state) == []
    assert list((state / "machines").glob("[0-9]*")) == []


def test_an_agent_that_hangs_is_recognised_while_its_kernel_runs(state: Path, tmp_path: Path) -> None:
    hanging = tmp_path / "hanging.py"
    hanging.write_text(HANGS, encoding="ascii")
    with open_machine(kernel_target(), host_at(state)) as machine:
        machine.run(["true"])
        # Loading the program runs its code, on the agent's only thread.
        with lost_with_evidence(state, r"is hung: it runs, but its agent"):
            machine.call(GuestProgram(hanging, "hanging"), ())
    kept = next((state / EVIDENCE_FOLDER).iterdir()).read_text(encoding="utf-8")
    assert "management console, version: Linux raidlab" in kept
    assert "Show Blocked State" in kept


def test_a_long_silent_command_is_not_judged_as_a_hang(state: Path) -> None:
    with open_machine(kernel_target(), host_at(state)) as machine:
        assert machine.run(["sleep", str(STILL_SECONDS + 5)]).status == 0
    assert not (state / EVIDENCE_FOLDER).exists()


class EventThief:
    """Takes events from the kernel's epoll instance, which reports each event only once, as if the kernel lost them."""

    def __init__(self, kernel: int) -> None:
        folder = Path(f"/proc/{kernel}/fd")
        (number,) = (int(path.name) for path in folder.iterdir() if "eventpoll" in str(path.readlink()))
        self._libc = ctypes.CDLL(None, use_errno=True)
        process = os.pidfd_open(kernel)
        self.descriptor = self._libc.syscall(PIDFD_GETFD, process, number, 0)
        os.close(process)
        assert self.descriptor >= 0, os.strerror(ctypes.get_errno())

    def steal(self, seconds: float) -> int:
        """Return the number of events taken within this time."""
        # struct epoll_event is packed on x86-64: 12 bytes.
        events, count, end = ctypes.create_string_buffer(12 * EVENTS), 0, time.monotonic() + seconds
        while time.monotonic() < end:
            count += max(0, self._libc.epoll_wait(self.descriptor, events, EVENTS, 0))
        return count


def rescued_disks(machine: Machine) -> str:
    """The names of the disks that were reported to do nothing, in any number of reports."""
    parts = (line.partition(RESCUED) for line in machine.run(["dmesg"]).stdout.splitlines())
    return " ".join(before for before, found, _ in parts if found)


def test_disks_with_a_lost_event_are_restarted(state: Path, tmp_path: Path) -> None:
    options = EmbeddedOptions(disks=sparse_disks(tmp_path, 2))
    with open_machine(kernel_target(), host_at(state), embedded=options) as machine:
        thief = EventThief(record_of(state)["kernel_group"])
        read = "while [ ! -e /run/over ]; do dd if=/dev/ubda of=/dev/null bs=64k iflag=direct status=none; done"
        load = machine.stream(["sh", "-c", read])

        def rescued_after_theft(seconds: float) -> str:
            thief.steal(seconds)
            return rescued_disks(machine)

        # Without the rescue the load would stall permanently after the first stolen event.
        wait_until(lambda: rescued_after_theft(0.05), RESCUE_SECONDS)
        # The read that restarts the disk is such a request too: if its own event is stolen, another read must follow.
        # The other disk has no request but that.
        wait_until(lambda: disk_name(1) in rescued_after_theft(STOLEN_SECONDS), RESCUE_SECONDS)
        machine.write("/run/over", "")
        assert load.result().status == 0
        os.close(thief.descriptor)
