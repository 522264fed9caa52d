"""Opens disposable machines for injecting faults, with blank drives that record what is written to them.

The drives of the lab's own kernel (``make uml-kernel``) keep a record, both in virtual and in real time. So do the
drives that a program serves to a stock kernel in QEMU (lab/disks/served_drives.py). Other machines have ordinary lab
disks, which are sufficient for everything that does not need a record.

The fault lab's programs on a machine (guest/) receive a job as JSON and print one JSON document per line.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lab.disks import DiskKind, Lab, open_lab
from lab.disks.attaching import KERNEL_DRIVE_NODE, is_kernel_drive
from lab.disks.kinds import specs
from lab.disks.lab import packed
from lab.disks.served_drives import built_server, start_server
from lab.errors import LabError, MachineLost
from lab.host.signals import Interrupted
from lab.machine import GuestProgram, Host, Machine, Target, TargetKind
from lab.machine.kernel_image import find_kernel
from lab.machine.programs import Change, unchanged
from lab.units import MIB

LONGEST_SILENCE_SECONDS = 300.0
"""A machine that reports nothing for this long is closed."""
DRIVES = 8
DRIVE_MODEL = "ssd"
DRIVE_BYTES = 8 * MIB
"""Small, because whole arrays are read repeatedly."""

# Discards may have been switched off on a journal's drive; see accept_discards() in guest/player.py. A drive that still
# refuses them is filled with zeros, and its name is printed.
_ACCEPT_DISCARDS = """
for drive; do
  cd "/sys/block/$drive/queue" && test "$(cat discard_max_bytes)" = 0 || continue
  most=$(cat discard_max_hw_bytes) granule=$(cat discard_granularity)
  test "$granule" = 0 || echo $((most - most % granule)) >discard_max_bytes
  test "$(cat discard_max_bytes)" = 0 || continue
  blkdiscard --force --zeroout "/dev/$drive" && echo "$drive"
done
"""


@dataclass(frozen=True, slots=True)
class FaultPlace:
    """An open machine with blank drives."""

    lab: Lab
    nodes: tuple[str, ...]
    has_record: bool
    """Whether the drives can be recorded, and restored to a state that a power cut could have left."""

    @property
    def has_own_kernel(self) -> bool:
        """Whether the kernel is the lab's own, which has all device-mapper targets built in."""
        return self.has_record and all(node.startswith(KERNEL_DRIVE_NODE) for node in self.nodes)

    def blank(self) -> None:
        """Unmount file systems, remove device-mapper devices, stop arrays, and blank the drives."""
        machine = self.lab.machine
        machine.run(("sh", "-c", "umount -a -t ext4,xfs; dmsetup remove_all --force; mdadm --stop --scan"), check=False)
        refusing = machine.run(("sh", "-c", _ACCEPT_DISCARDS, "accept", *(disk.kernel_name for disk in self.lab.disks)))
        self.lab.reset([disk for disk in self.lab.disks if disk.kernel_name not in refusing.stdout.split()])

    @property
    def is_as_new(self) -> bool:
        """Whether all drives accept discards, which some kernels cannot enable again (see accept_discards())."""
        paths = [f"/sys/block/{disk.kernel_name}/queue/discard_max_bytes" for disk in self.lab.disks]
        return not self.has_record or "0" not in {
            (text or "").strip() for text in self.lab.machine.read(paths).values()
        }


def with_own_kernel(target: Target, host: Host) -> Target:
    """Return the target with the kernel that the lab builds, in virtual time unless the target specifies real time.

    Raises ToolMissing, whose hint gives the command that builds the kernel.
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
    drives: int = DRIVES,
    size_bytes: int = DRIVE_BYTES,
    seed: int = 1,
    on_notice: Callable[[str], None] = lambda _: None,
) -> Iterator[FaultPlace]:
    """Open a new machine with this many blank drives; it is discarded at the end of the context."""
    target = with_own_kernel(target, host)
    kind, model = (DiskKind.SPINDLE, DRIVE_MODEL) if target.is_embedded else (DiskKind.FILE, "")
    disks = specs(drives, kind, size_bytes=size_bytes, model=model)
    server = built_server(host) if target.kind is TargetKind.QEMU else None

    def prepare(machine: Machine) -> None:
        if server:
            start_server(machine, server)

    shown = (server,) if server else ()
    with open_lab(target, host, wanted=disks, seed=seed, shown=shown, on_notice=on_notice, on_machine=prepare) as lab:
        yield FaultPlace(lab, tuple(disk.node for disk in lab.disks), all(map(is_kernel_drive, lab.disks)))


_GUEST = Path(__file__).with_name("guest")
PLAYER = GuestProgram(_GUEST / "player.py", "fault-player")
CAMPAIGN = GuestProgram(_GUEST / "campaign.py", "fault-campaign")
FILES = GuestProgram(_GUEST / "files.py", "fault-files")
SCENARIO = GuestProgram(_GUEST / "scenario.py", "fault-scenario")


def run_program(
    machine: Machine, program: GuestProgram, job: Mapping[str, Any], *, change: Change = unchanged
) -> Iterator[dict[str, Any]]:
    """Start a program with a job, and yield its documents as they arrive. For ``change``, see Machine.install.

    Closing the iterator ends the program. Raises LabError with the program's last message if it ends prematurely.
    """
    path = machine.install(program, change)
    argv, text = packed(("python3", "-IS", path), json.dumps(job, separators=(",", ":")))
    running = machine.stream(argv, stdin_text=text)
    rest, has_ended = "", False
    try:
        for chunk in running.chunks():
            *lines, rest = (rest + chunk).split("\n")
            for line in lines:
                document = _document(line)
                has_ended = has_ended or "end" in document
                yield document
    except (KeyboardInterrupt, Interrupted):
        # An interrupt closes the machine anyway, and in virtual time a request to stop would reach its agent late.
        has_ended = True
        raise
    finally:
        if not has_ended:
            # If the machine is lost, the program has ended too.
            with suppress(MachineLost):
                running.stop(signal_number=9)
    result = running.result()
    if result.status or not has_ended:
        message = (result.stderr.strip().splitlines() or ["no message"])[-1]
        raise LabError(
            f"the program {path} on {machine.facts.target} exited with status {result.status}: {message}",
            hint="run it again; if it happens again, the machine may have too little memory"
            if machine.facts.is_embedded
            else "check whether the machine's kernel killed it: raidlab exec dmesg",
        )


def _document(line: str) -> dict[str, Any]:
    with suppress(ValueError):
        if isinstance(found := json.loads(line), dict):
            return found
    raise LabError(
        f"the machine sent a line that is not a JSON document: {line[:80]}",
        hint="check whether anything else writes to the machine's serial line",
    )
