"""A drill on an open lab: the disaster made, put back, counted while the student works, and committed."""

from __future__ import annotations

import json
import secrets
import shutil
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

from lab.disks.guard import MOUNT_FOLDER
from lab.disks.inventory import read_devices
from lab.disks.kinds import DiskKind, LabDisk
from lab.drills import images_program
from lab.drills.case import CaseRecord, DrillCase
from lab.drills.pictures import look_at_members
from lab.drills.schema import DataStep, DrillStep, ReadyDrill
from lab.errors import CommandFailed, DrillError, LabError
from lab.fault_lab.oracle import Oracle
from lab.gates.numbers import digits
from lab.host.clock import utc_text
from lab.machine import RUN_FOLDER, AgentProgram, TargetKind
from lab.plans import Danger, Step
from lab.session.arrival import Arrival, arrive, keep_arrival
from lab.session.session import LabSession
from lab.units import SECTOR_BYTES

PLACE = f"{MOUNT_FOLDER}/drill"
"""Where the file system is mounted while the drill is made, and when it is judged."""
GUEST_FOLDER = f"{RUN_FOLDER}/drill"
SUMS = "SHA256SUMS"
_IMAGES = AgentProgram(Path(images_program.__file__), "disk-images")
_MACHINE_FOLDER = "/var/lib/raidlab/drill"
_GUEST_PROGRAMS = Path(__file__).with_name("guest")
_STEP_SECONDS = 120.0
_KEPT_SECONDS = 5.0
_STRICT = "set -euo pipefail\n"


class DrillDesk:
    """``DrillDesk.begin(session, drill)``, or ``DrillDesk(session, case)`` of one that is open; then ``look()`` often.

    Only one thread at a time.
    """

    def __init__(self, session: LabSession, case: DrillCase) -> None:
        self.session, self.case = session, case
        self.disks = drill_disks(session, case.drill)
        self._since = time.monotonic()
        self._written = self._counters()

    @classmethod
    def begin(cls, session: LabSession, drill: ReadyDrill) -> DrillDesk:
        """Make the disaster on blank disks, keep them as they are then, and let the machine start as it would.

        Raises DrillError if it cannot be made, or the lab's disks are in use.
        """
        disks = drill_disks(session, drill)
        folder = session.folder / "drill"
        shutil.rmtree(folder, ignore_errors=True)
        session.host.state.make(folder, what="the folder of the drill")
        keep_arrival(session.folder, None)
        maker = _Maker(session, drill, folder)
        for step in drill.drill.setup:
            maker.do(step)
        release(session, disks)
        record = CaseRecord(
            drill=drill.id if drill.path.parent.name == "catalogue" else str(drill.path.absolute()),
            seed=drill.seed,
            target=str(session.target),
            began_utc=utc_text(session.host.clock),
            file_system_uuid=maker.uuid,
            blocks=maker.blocks,
            before=look_at_members(session.machine, disks),
        )
        case = DrillCase(folder, record, drill)
        _images(session, case, disks, "keep")
        case.change()
        desk = cls(session, case)
        desk._arrive()
        return desk

    @property
    def minutes(self) -> float:
        """How long the lab was open in this drill."""
        return (self.case.record.open_seconds + time.monotonic() - self._since) / 60

    def look(self, *, is_last: bool = False) -> None:
        """Count what was written and the time: often, so that whatever ends the program costs a moment.

        What is written is kept at once, the time alone every few seconds, or when it ``is_last``.
        """
        now, written = time.monotonic(), self._counters()
        grown = sum(max(0, written[node] - self._written.get(node, 0)) for node in written)
        seconds = self.case.record.open_seconds + now - self._since
        touched = self.case.record.touched_bytes + (0 if self.case.is_committed else grown)
        if touched == self.case.record.touched_bytes and now - self._since < _KEPT_SECONDS and not is_last:
            return
        self._since, self._written = now, written
        self.case.change(open_seconds=round(seconds, 1), touched_bytes=touched)

    def note_command(self, line: str) -> None:
        """Keep what was typed."""
        self.case.add_command(line, self.minutes * 60)

    def commit(self) -> int:
        """The student says that the disks may be written; returns the bytes that had been written before."""
        self.look(is_last=True)
        if not self.case.is_committed:
            touched = max(self.case.record.touched_bytes, self.changed_bytes())
            self.case.change(
                committed_utc=utc_text(self.session.host.clock),
                committed_seconds=self.case.record.open_seconds,
                touched_bytes=touched,
            )
        return self.case.record.touched_bytes

    def reset(self) -> None:
        """The disks as they were when the drill began, and the machine started anew; hints and time go on counting.

        Raises DrillError if something holds the disks that cannot be stopped.
        """
        self.look(is_last=True)
        release(self.session, self.disks)
        _images(self.session, self.case, self.disks, "put_back")
        self.case.change(resets=self.case.record.resets + 1, touched_bytes=0, committed_utc="", committed_seconds=0.0)
        self.note_command("drill reset")
        self._arrive()

    def close(self) -> None:
        """End the drill; the disks stay as they are."""
        keep_arrival(self.session.folder, None)
        self.case.forget()

    def changed(self) -> dict[str, list[list[int]]]:
        """Name of a disk -> bytes [first, end) that are not as they were when the drill began."""
        _flush(self.session, self.disks)
        found = _images(self.session, self.case, self.disks, "changed")
        return {disk.name: ranges for disk, ranges in zip(self.disks, found, strict=True) if ranges}

    def environment(self) -> dict[str, str]:
        """What the drill's lines find: disks by name, and the values of the seed."""
        return environment(self.disks, self.case.drill)

    def _arrive(self) -> None:
        """Start as the machine would, and remember what that writes: it is nobody's doing."""
        arrival = Arrival(
            title=self.case.drill.drill.title,
            script=_guest_files(self.case) + self.case.drill.drill.arrive,
            environment=self.environment(),
        )
        keep_arrival(self.session.folder, arrival)
        arrive(self.session.machine, arrival)
        self.session.rescan()
        self.case.change(own_ranges=self.changed())
        self._written = self._counters()

    def changed_bytes(self) -> int:
        """What differs, beyond what the machine's own start had changed."""
        total = 0
        for name, ranges in self.changed().items():
            own = self.case.record.own_ranges.get(name, [])
            total += sum(_outside(first, end, own) for first, end in ranges)
        return total

    def _counters(self) -> dict[str, int]:
        """Node -> bytes written since the machine started (iostats.rst, field 7: sectors of 512 bytes)."""
        paths = {disk.node: f"/sys/block/{disk.kernel_name}/stat" for disk in self.disks}
        texts = self.session.machine.read(list(paths.values()))
        fields = {node: (texts[path] or "").split() for node, path in paths.items()}
        return {node: (digits(words[6]) or 0) * SECTOR_BYTES for node, words in fields.items() if len(words) > 6}


class _Maker:
    """Carries out what makes the disaster."""

    def __init__(self, session: LabSession, drill: ReadyDrill, folder: Path) -> None:
        self.session, self.drill, self.folder = session, drill, folder
        self.uuid, self.blocks = "", 0
        self.environment = environment(drill_disks(session, drill), drill)

    def do(self, step: DrillStep) -> None:
        """One step. Raises DrillError with what failed."""
        try:
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
            (self.folder / SUMS).write_text(sums, encoding="utf-8")
            machine.run(("umount", PLACE))

    def _format(self, node: str) -> None:
        machine, kind = self.session.machine, self.drill.drill.file_system
        self.uuid = _uuid()
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


def needs_clearing(session: LabSession, drill: ReadyDrill) -> bool:
    """Whether something is on the lab's disks. Raises DrillError if the drill's disks are not there."""
    return bool(_busy(session, drill)) or bool(session.statuses())


def _busy(session: LabSession, drill: ReadyDrill) -> set[str]:
    needed = {disk.name for disk in drill_disks(session, drill)}
    return needed - {disk.name for disk in session.free_disks()}


def require_blank(session: LabSession, drill: ReadyDrill) -> None:
    """Raises DrillError unless the lab has the drill's disks, free, and no array runs."""
    busy = _busy(session, drill)
    if busy or session.statuses():
        used = f"{', '.join(sorted(busy))} {'is' if len(busy) == 1 else 'are'} in use" if busy else "arrays are running"
        raise DrillError(
            f"drill {drill.id} is made on blank disks, and {used}",
            hint=f"'raidlab drill start {drill.id} --reset' makes all disks blank: their data are gone",
        )


def drill_disks(session: LabSession, drill: ReadyDrill) -> tuple[LabDisk, ...]:
    """The lab's disks that the drill uses. Raises DrillError if some are missing."""
    there = {disk.name: disk for disk in session.disks}
    missing = [name for name in drill.disk_names if name not in there]
    if missing:
        raise DrillError(
            f"drill {drill.id} uses {drill.disk_names[0]} to {drill.disk_names[-1]}, and the lab has no "
            f"{', '.join(missing)}",
            hint=f"add some: raidlab disks add --kind file --count {len(missing)}",
        )
    return tuple(there[name] for name in drill.disk_names)


def environment(disks: Sequence[LabDisk], drill: ReadyDrill) -> dict[str, str]:
    """``$disk01`` is a device; a value that names disks is their devices, with spaces between."""
    nodes = {disk.name: disk.node for disk in disks}
    found = dict(nodes)
    for name, value in drill.values.items():
        words = str(value).split(",")
        is_disks = all(word in nodes for word in words)
        found[name] = " ".join(nodes[word] for word in words) if is_disks else str(value)
    return found


def run_lines(session: LabSession, lines: str, values: dict[str, str]) -> str:
    """Lines for bash on the machine, as root. Raises CommandFailed with what the failing one said."""
    words = [f"{name}={value}" for name, value in values.items()]
    result = session.machine.run(
        ("env", *words, "bash", "-c", lines), check=False, timeout_seconds=_STEP_SECONDS, stdin_text=""
    )
    if result.status:
        said = (result.stderr or result.stdout).strip()[-1000:]
        raise CommandFailed(("bash", lines.strip().splitlines()[-1][:100]), result.status, said)
    return result.stdout


def release(session: LabSession, disks: Iterable[LabDisk]) -> None:
    """Unmount and stop all that lies on these disks: file systems, volumes, arrays, overlays.

    Raises DrillError if something stays.
    """
    machine = session.machine
    roots = {disk.kernel_name for disk in disks}
    held: list[str] = []
    for _ in range(4):
        devices = read_devices(machine)
        held = _above(roots, {name: device.holders for name, device in devices.items()})
        places = [place for name in (*held, *roots) if name in devices for place in devices[name].mounted_on]
        if not held and not places:
            break
        for place in sorted(places, reverse=True):
            machine.run(("umount", place), check=False, timeout_seconds=30)
        for name in held:
            if name.startswith("md"):
                machine.run(("mdadm", "--stop", f"/dev/{name}"), check=False, timeout_seconds=30)
            elif name.startswith("dm-") and name in devices:
                machine.run(("dmsetup", "remove", "--retry", devices[name].mapped_name), check=False)
    else:
        raise DrillError(
            f"{', '.join(held) or 'a mounted disk'} could not be stopped",
            hint="end what uses it, or start the machine again",
        )
    _flush(session, tuple(disks))


def _above(roots: Iterable[str], holders: dict[str, tuple[str, ...]]) -> list[str]:
    """All devices that lie on these, the uppermost first."""
    found: list[str] = []
    edge = list(roots)
    while edge:
        edge = [holder for name in edge for holder in holders.get(name, ())]
        found = [*edge, *(name for name in found if name not in edge)]
    return list(dict.fromkeys(found))


def _flush(session: LabSession, disks: Sequence[LabDisk]) -> None:
    """What the machine has in its caches is on the disks, and is read anew."""
    nodes = [disk.node for disk in disks]
    session.machine.run(("bash", "-c", 'sync; for d in "$@"; do blockdev --flushbufs "$d"; done', "bash", *nodes))


def _images(session: LabSession, case: DrillCase, disks: Sequence[LabDisk], work: str) -> list[list[list[int]]]:
    """``keep``, ``put_back`` or ``changed`` of all disks: on this computer where they are files of the lab's folder."""
    if work == "put_back":
        why = "The disks as they were when the drill began."
        session.lab.guard.check(Step(("true",), why, writes_devices=tuple(disk.node for disk in disks)))
    is_own = session.target.kind is TargetKind.UML and all(disk.kind is DiskKind.FILE for disk in disks)
    folder = str(case.images) if is_own else _MACHINE_FOLDER
    pairs = [[disk.backing if is_own else disk.node, f"{folder}/{disk.name}.img"] for disk in disks]
    arguments = [work, json.dumps(pairs)]
    try:
        text = (
            images_program.main(arguments, lambda: False)
            if is_own
            else session.machine.call(_IMAGES, arguments, timeout_seconds=600)
        )
    except OSError as error:
        raise DrillError(f"the copies of the disks: {error}", hint="see the room on the disk that holds them") from None
    found: list[list[list[int]]] = json.loads(text)
    return found


def _guest_files(case: DrillCase) -> str:
    """Lines that put the list of sums on the machine, to see whether files are whole, and the lab's own programs."""
    sums = (case.folder / SUMS).read_text(encoding="utf-8")
    # Elsewhere udev loads what somebody asks for who makes an overlay by hand.
    lines = [
        "modprobe -qa loop dm-snapshot",
        f"mkdir -p {GUEST_FOLDER} {RUN_FOLDER}/bin",
        _here(f"{GUEST_FOLDER}/{SUMS}", sums),
    ]
    for path in sorted(_GUEST_PROGRAMS.glob("*.sh")):
        program = f"{RUN_FOLDER}/bin/{path.stem}"
        lines += [_here(program, path.read_text(encoding="utf-8")), f"chmod 755 {program}"]
    return "\n".join([*lines, ""])


def _here(path: str, text: str) -> str:
    return f"cat > {path} <<'END OF {path}'\n{text}END OF {path}"


def _outside(first: int, end: int, own: Sequence[Sequence[int]]) -> int:
    """Bytes of [first, end) that lie in none of these ranges, which do not overlap."""
    inside = sum(max(0, min(end, stop) - max(first, start)) for start, stop in own)
    return end - first - inside


def _uuid() -> str:
    word = secrets.token_hex(16)
    return f"{word[:8]}-{word[8:12]}-4{word[13:16]}-8{word[17:20]}-{word[20:]}"
