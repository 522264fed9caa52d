"""Makes a disaster: known files on an array, and the commands that break it.

The machine's clock shows a time in the past meanwhile, so superblocks show when each member was last in use.
"""

from __future__ import annotations

import hashlib
import re
import shlex
from datetime import UTC, datetime, timedelta
from pathlib import Path
from uuid import uuid4

from lab.disks.guard import MOUNT_FOLDER
from lab.drills.disks import drill_disks, environment, run_lines
from lab.drills.schema import DataStep, DrillStep, ReadyDrill
from lab.drills.truth import FileMap, map_files, note_truth
from lab.errors import DrillError, LabError, SpecError
from lab.faults.oracle import Oracle
from lab.gates.decoding import digits
from lab.gates.text import visible
from lab.host.files import write_file
from lab.machine import RUN_FOLDER, Machine, TargetKind
from lab.plans import Danger, Step
from lab.session.session import LabSession
from lab.units import KIB

_UNITS = {"year": 365.0, "month": 30.0, "week": 7.0, "day": 1.0, "hour": 1 / 24}
_MIDDLE_MONTH = {"spring": 4, "summer": 7}
_LEAST_DAYS = 60
"""A season of this year counts only if its date is at least this long ago; otherwise it is the season of last year."""
_SETTLE_SECONDS = "0.6"
"""Longer than md waits before it marks an array clean (md/safe_mode_delay, 0.2 s). The first write after the clock was
set then marks the array dirty again, and md stores the new time in the superblocks.
"""
_FORM = re.compile(r"([1-9][0-9]?) (year|month|week|day|hour)s? ago")


def moment_of(when: str, now: datetime, seed: str) -> datetime:
    """The time that ``when`` means; it is before ``now``. Raises SpecError for any other text."""
    share = int.from_bytes(hashlib.blake2b(f"{when}/{seed}".encode(), digest_size=4).digest(), "big") / (1 << 32)
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    if when in _MIDDLE_MONTH:
        found = midnight.replace(month=_MIDDLE_MONTH[when], day=5) + timedelta(days=20 * share)
        return found if found < now - timedelta(days=_LEAST_DAYS) else found.replace(year=found.year - 1)
    if when == "yesterday":
        return midnight - timedelta(hours=15 - 6 * share)
    if when == "last night":
        found = midnight + timedelta(hours=1 + 3 * share)
        return found if found < now - timedelta(minutes=30) else found - timedelta(days=1)
    match = _FORM.fullmatch(when)
    if match is None:
        raise SpecError(
            f"'{visible(when)}' is no time of a drill",
            hint="write 'spring', 'summer', 'yesterday', 'last night', or such as '2 weeks ago'",
        )
    # Add less than one unit, so that '2 weeks ago' is before '1 week ago'.
    return now - timedelta(days=_UNITS[match[2]] * (int(match[1]) + 0.4 * share))


class DrillClock:
    """The clock of a lab's own machine: ``show`` sets it to a time, ``put_right`` restores it.

    Other machines keep their clock, because other programs use it.
    """

    def __init__(self, session: LabSession, seed: str) -> None:
        self._machine, self._seed = session.machine, seed
        self._may_set = session.target.kind is TargetKind.UML
        self._began: tuple[float, float] | None = None

    def show(self, when: str) -> None:
        """Set the clock to this time. Raises CommandFailed."""
        if not when or not self._may_set:
            return
        if self._began is None:
            self._began = _clocks(self._machine)
        self._machine.run(("sleep", _SETTLE_SECONDS))
        now = datetime.fromtimestamp(self._now(), UTC)
        self._set(moment_of(when, now, self._seed).timestamp())

    def put_right(self) -> None:
        """Set the clock to the correct time. Raises CommandFailed."""
        if self._began is not None:
            self._set(self._now())
            self._began = None

    def _now(self) -> float:
        """The time that an unchanged clock would show."""
        assert self._began is not None
        return self._began[0] + _clocks(self._machine)[1] - self._began[1]

    def _set(self, seconds: float) -> None:
        self._machine.run(("date", "-u", "-s", f"@{seconds:.0f}"))


def _clocks(machine: Machine) -> tuple[float, float]:
    """Seconds since 1970, and since the machine started."""
    shown = digits(machine.run(("date", "+%s")).stdout.strip()) or 0
    uptime = (machine.read(["/proc/uptime"])["/proc/uptime"] or "0").split()[0]
    return float(shown), float(uptime)


PLACE = f"{MOUNT_FOLDER}/drill"
"""Mount point of the file system while the drill is made and when it is judged."""
GUEST_FOLDER = f"{RUN_FOLDER}/drill"
SUMS = "SHA256SUMS"
_HERE = Path(__file__).resolve().parent
_STRICT = "set -euo pipefail\n"


class DisasterMaker:
    """Runs the steps that make the disaster: a file system with ``uuid``, whose files have ``blocks`` of 4 KiB."""

    def __init__(self, session: LabSession, drill: ReadyDrill, folder: Path) -> None:
        self.session, self.drill, self.folder = session, drill, folder
        self.uuid, self.blocks = "", 0
        self.clock = DrillClock(session, f"{drill.id}/{drill.seed}")
        self.environment = environment({disk.name: disk.node for disk in drill_disks(session, drill)}, drill)

    def do(self, step: DrillStep) -> None:
        """Run one step, with the clock at its time. Raises DrillError with the failure."""
        try:
            self.clock.show(step.when)
            if step.data is None:
                run_lines(self.session, _STRICT + step.run, self.environment)
            else:
                self._data(step)
        except LabError as error:
            raise DrillError(f"drill {self.drill.id} could not be made: {error.message}", hint=error.hint) from error

    def _data(self, step: DrillStep) -> None:
        machine = self.session.machine
        if step.data is DataStep.BEGIN:
            self._format(step.on)
            self._oracle().fill()
        elif step.data is DataStep.MORE:
            if machine.run(("mountpoint", "-q", PLACE), check=False).status != 0:
                machine.run(("mount", "-t", self.drill.drill.file_system, step.on, PLACE))
            self._oracle().advance(step.operations)
        else:
            machine.run(("sync",))
            machine.run(("bash", "-c", "echo 3 > /proc/sys/vm/drop_caches"))
            verdict = self._oracle().check()
            if not verdict.is_intact:
                raise DrillError(f"drill {self.drill.id} does not begin with its data intact: {verdict.sentence}")
            self.blocks = sum(verdict.verdicts.values())
            list_sums = 'cd "$1" && find . -type f -print0 | sort -z | xargs -0 sha256sum'
            sums = machine.run(("bash", "-c", list_sums, "bash", PLACE)).stdout
            write_file(self.folder / SUMS, sums.encode())
            files = map_files(self.session, PLACE, step.on, self.drill.drill.file_system)
            machine.run(("umount", PLACE))
            self._note(step, files)

    def _note(self, step: DrillStep, files: FileMap) -> None:
        """Record the location of the data from here on; this is known for md arrays only."""
        if step.on.removeprefix("/dev/") in {status.name for status in self.session.statuses()}:
            chunk = (digits(step.next_chunk) or 0) * KIB
            disks = drill_disks(self.session, self.drill)
            note_truth(self.session, disks, self.folder, step.on, files, next_chunk_bytes=chunk)

    def _format(self, node: str) -> None:
        machine, kind = self.session.machine, self.drill.drill.file_system
        self.uuid = str(uuid4())
        make = {
            "ext4": ("mkfs.ext4", "-F", "-q", "-b", "4096", "-U", self.uuid, node),
            "xfs": ("mkfs.xfs", "-f", "-q", "-m", f"uuid={self.uuid}", node),
        }[kind]
        self.session.lab.guard.check(
            Step(make, "The file system of the drill.", danger=Danger.DATA, writes_devices=(node,))
        )
        machine.run(make)
        machine.run(("mkdir", "-p", PLACE))
        machine.run(("mount", "-t", kind, node, PLACE))

    def _oracle(self) -> Oracle:
        names = self.drill.drill.names
        return Oracle.open(self.session.lab, self.folder, PLACE, seed=self.drill.seed or "drill", mix={"names": names})


def guest_files(folder: Path) -> str:
    """Lines for bash that put the lab's programs and the checksums of the files on the machine."""
    sums = (folder / SUMS).read_text(encoding="utf-8")
    # Overlays made by hand need these modules; on other machines udev loads them on demand.
    lines = [
        "modprobe -qa loop dm-snapshot",
        f"mkdir -p {GUEST_FOLDER} {RUN_FOLDER}/bin",
        _put(f"{GUEST_FOLDER}/{SUMS}", sums),
    ]
    programs = {
        f"{RUN_FOLDER}/bin/{path.stem}": path.read_text(encoding="utf-8") for path in sorted(_HERE.glob("guest/*.sh"))
    }
    lines += [_put(path, text) for path, text in programs.items()]
    return "\n".join([*lines, f"chmod 755 {' '.join(programs)}", ""])


def _put(path: str, text: str) -> str:
    """A shell command that writes a file without another process.

    It runs at each reset, and an embedded kernel starts processes slowly.
    """
    return f"printf %s {shlex.quote(text)} > {path}"
