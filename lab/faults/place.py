"""Where faults are played: a machine that can be thrown away, with blank drives that record what is written to them.

The kernel of the lab (``make uml-kernel``) is used in virtual and in real time: only its drives keep a record. Another
machine gets plain lab disks, on which all that needs no record can be tried.

A program of the fault lab on a machine (guest/) gets a job as JSON and answers with one JSON document a line.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.disks import DiskKind, DiskSpec, Lab, open_lab
from lab.disks.kernel_drives import is_kernel_drive
from lab.disks.kinds import specs
from lab.disks.lab import packed
from lab.errors import LabError, MachineLost
from lab.host.clock import HostClock
from lab.host.signals import Interrupted
from lab.machine import GuestProgram, Host, Machine, Target, TargetKind
from lab.machine.guest_program import Change, unchanged
from lab.machine.kernel_image import find_kernel
from lab.units import MIB

LONGEST_SILENCE_SECONDS = 300.0
DRIVE_MODEL = "ssd"
DRIVE_BYTES = 8 * MIB
"""Small, since whole arrays are read again and again."""


@dataclass(frozen=True, slots=True)
class FaultPlace:
    """An open machine with its drives, all blank."""

    lab: Lab
    nodes: tuple[str, ...]
    has_record: bool
    """Whether its drives can be recorded, and made to hold what a power cut could have left."""

    @property
    def numbers(self) -> tuple[int, ...]:
        """The drives' numbers in lines to their driver, in the order of ``nodes``."""
        return tuple(range(len(self.nodes)))

    def blank(self) -> None:
        """No array and blank drives again, whatever was done."""
        machine = self.lab.machine
        machine.run(("sh", "-c", "umount -a -t ext4,xfs; dmsetup remove_all --force; mdadm --stop --scan"), check=False)
        self.lab.reset(self.lab.disks)


class SilenceWatchdog:
    """Closes a machine that has reported nothing for so many seconds of this computer: its users get MachineLost.

    In virtual time a program that computes without end leaves the clock of the machine where it is, and nothing in the
    machine can end it.
    """

    def __init__(self, machine: Machine, seconds: float = LONGEST_SILENCE_SECONDS) -> None:
        self.is_silent = False
        self._machine, self._seconds = machine, seconds
        self._clock = HostClock()
        self._last = self._clock.monotonic_seconds()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="raidlab-fault-silence", daemon=True)

    def __enter__(self) -> SilenceWatchdog:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def feed(self) -> None:
        """The machine has just reported something."""
        self._last = self._clock.monotonic_seconds()

    def _watch(self) -> None:
        while not self._is_over.wait(max(0.05, self._last + self._seconds - self._clock.monotonic_seconds())):
            if self._clock.monotonic_seconds() - self._last >= self._seconds:
                self.is_silent = True
                with suppress(LabError):
                    self._machine.close()
                return


def with_own_kernel(target: Target, host: Host) -> Target:
    """The target on the kernel that the lab builds: in virtual time unless it says otherwise.

    Raises ToolMissing with the command that builds it.
    """
    if target.kind is not TargetKind.UML:
        return target
    if "time" not in target.options:
        target = target.with_option("time", "virtual")
    if target.is_virtual_time or "kernel" in target.options:
        return target
    return target.with_option("kernel", str(find_kernel(host.processes, host.files, virtual_time=True).path))


@contextmanager
def open_place(
    target: Target,
    host: Host,
    *,
    drives: int = 8,
    size_bytes: int = DRIVE_BYTES,
    seed: int = 1,
    on_notice: Callable[[str], None] = lambda _: None,
) -> Iterator[FaultPlace]:
    """Open a machine of its own with so many blank drives; nothing of it is left when it closes."""
    target = with_own_kernel(target, host)
    kind = DiskKind.SPINDLE if target.kind is TargetKind.UML else DiskKind.FILE
    wanted: tuple[DiskSpec, ...] = specs(
        drives, kind, size_bytes=size_bytes, model=DRIVE_MODEL if kind is DiskKind.SPINDLE else ""
    )
    with open_lab(target, host, wanted=wanted, seed=seed, on_notice=on_notice) as lab:
        yield FaultPlace(lab, tuple(disk.node for disk in lab.disks), all(map(is_kernel_drive, lab.disks)))


_GUEST = Path(__file__).with_name("guest")
PLAYER = GuestProgram(_GUEST / "player.py", "fault-player")
CRASH = GuestProgram(_GUEST / "crash.py", "fault-crash")
CAMPAIGN = GuestProgram(_GUEST / "campaign.py", "fault-campaign")
CONTROLS = GuestProgram(_GUEST / "controls.py", "fault-controls")
FILES = GuestProgram(_GUEST / "files.py", "fault-files")
SCENARIO = GuestProgram(_GUEST / "scenario.py", "fault-scenario")


def run_program(
    machine: Machine, program: GuestProgram, job: Mapping[str, Any], *, change: Change = unchanged
) -> Iterator[dict[str, Any]]:
    """Start a program with a job; its documents as they come. ``change``: see Machine.install.

    Closing the iterator ends the program. Raises LabError with its last words if it ends without having come to its
    end.
    """
    path = machine.install(program, change)
    argv, text = packed(("python3", "-IS", path), json.dumps(job, separators=(",", ":")))
    running = machine.stream(argv, stdin_text=text, keeps_output=False)
    rest, has_ended = "", False
    try:
        for chunk in running.chunks():
            *lines, rest = (rest + chunk).split("\n")
            for line in lines:
                document = _document(line)
                has_ended = has_ended or "end" in document
                yield document
    except (KeyboardInterrupt, Interrupted):
        # Who interrupts closes the machine too: in virtual time its agent hears of a stop only after a while.
        has_ended = True
        raise
    finally:
        if not has_ended:
            # With a lost machine the program has ended too.
            with suppress(MachineLost):
                running.stop(signal_number=9)
    result = running.result()
    if result.status or not has_ended:
        said = (result.stderr.strip().splitlines() or ["no word"])[-1]
        raise LabError(
            f"the program {path} on {machine.facts.target} ended with status {result.status}: {said}",
            hint="the machine's kernel may have killed it: raidlab exec dmesg",
        )


def _document(line: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise LabError(
            f"the machine answered what is no document: {line[:80]}", hint="see what else writes to its line"
        )
    return found
