"""Create, reset, commit and close a drill on an open lab, and count what the student writes to the disks.

The disaster is created with the machine's clock set to times in the past, so superblocks show when each member was
last used. When the files of a drill are complete, the location and digest of each of their blocks are recorded, as are
those of their parity. When the drill is judged, the disks are searched for these blocks, whichever arrays are running
and whatever the superblocks say. A block can be recovered if it is found, or if it can be computed from blocks that are
found. All other blocks are destroyed.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import msgspec

from lab.arrays.discovery import plain_uuid
from lab.arrays.geometry import ChunkKind, period_rows, stripe_rows
from lab.arrays.levels import LevelName, Raid10, Raid10Layout
from lab.arrays.status import ArrayStatus, read_array
from lab.checks.state import MemberPicture, examine_members
from lab.disks.guard import MOUNT_FOLDER
from lab.disks.inventory import read_devices
from lab.disks.kinds import DiskKind, LabDisk
from lab.drills import disks_program
from lab.drills.case import CaseRecord, DrillCase, ExamTerms, forget_drill, require_no_exam, stored_name
from lab.drills.disks_program import PAGE_BYTES
from lab.drills.schema import DataStep, DrillStep, ReadyDrill, file_digest
from lab.errors import CommandFailed, DrillError, LabError, SpecError
from lab.faults.oracle import Oracle
from lab.gates.decoding import convert, digits
from lab.gates.files import MOST_DOCUMENT_BYTES
from lab.gates.text import visible
from lab.host.clock import utc_text
from lab.host.files import write_file
from lab.lessons.student import named_disks
from lab.machine import RUN_FOLDER, GuestProgram, Machine
from lab.plans import Danger, Step
from lab.session.session import (
    Arrival,
    LabSession,
    Leftovers,
    arrive,
    require_kernel,
    require_mdadm,
    store_arrival,
    store_leftovers,
)
from lab.store import RecordFile
from lab.units import KIB, SECTOR_BYTES, counted

MACHINE_FOLDER = "/var/lib/raidlab/drill"
_PROGRAM = GuestProgram(Path(disks_program.__file__), "drill-disks")
_STEP_SECONDS = 300.0
SETTLE = Path(__file__).with_name("settle.bash").read_text(encoding="utf-8")
"""Shell functions that the lines of a drill may call, in addition to installed programs."""


def require_possible(session: LabSession, drill: ReadyDrill) -> None:
    """Raises DrillError or UnfitVersion if disks, kernel or mdadm are unsuitable. Call this before deleting data."""
    drill_disks(session, drill)
    require_kernel(session.machine, drill.drill.needs_kernel, f"drill {drill.id}")
    require_mdadm(session.machine, drill.drill.needs_mdadm, f"drill {drill.id}")


def drill_disks(session: LabSession, drill: ReadyDrill) -> tuple[LabDisk, ...]:
    """Return the lab's disks that the drill uses. Raises DrillError if any are missing."""
    return named_disks(session, drill.disk_names, f"drill {drill.id}", DrillError)


def environment(nodes: Mapping[str, str], drill: ReadyDrill) -> dict[str, str]:
    """Return the variables for bash: one for each disk, such as ``$disk01``, and one for each value of the seed.

    A disk's variable contains its device. A value that names disks is replaced by their devices, separated by spaces.
    ``nodes`` maps the name of each disk to its device.
    """
    found = dict(nodes)
    for name, value in drill.values.items():
        words = str(value).split(",")
        is_disks = all(word in nodes for word in words)
        found[name] = " ".join(nodes[word] for word in words) if is_disks else str(value)
    return found


def run_lines(session: LabSession, lines: str, values: dict[str, str]) -> str:
    """Run lines in bash as root on the machine, with ``settle`` defined, and return the output.

    Raises CommandFailed with the error message of the line that failed.
    """
    words = [f"{name}={value}" for name, value in values.items()]
    result = session.machine.run(
        ("env", *words, "bash", "-c", SETTLE + lines), check=False, timeout_seconds=_STEP_SECONDS, stdin_text=""
    )
    if result.status:
        output = (result.stderr or result.stdout).strip()[-1000:]
        raise CommandFailed(("bash", lines.strip().splitlines()[-1][:100]), result.status, output)
    return result.stdout


def release(session: LabSession, disks: Iterable[LabDisk]) -> None:
    """Unmount or stop everything that uses these disks: file systems, volumes, arrays and overlays.

    Raises DrillError if something cannot be stopped.
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
            hint="stop the programs that use it, or restart the machine",
        )
    flush(session, tuple(disks))


def _above(roots: Iterable[str], holders: dict[str, tuple[str, ...]]) -> list[str]:
    """Return all devices that are stacked on these, uppermost first."""
    found: list[str] = []
    edge = list(roots)
    while edge:
        edge = [holder for name in edge for holder in holders.get(name, ())]
        found = [*edge, *(name for name in found if name not in edge)]
    return list(dict.fromkeys(found))


def flush(session: LabSession, disks: Sequence[LabDisk]) -> None:
    """Write the machine's dirty pages to its disks, and drop the page cache of the given disks."""
    session.machine.call(_PROGRAM, ["flush", json.dumps([disk.node for disk in disks])], timeout_seconds=60)


def images_of(session: LabSession, own_folder: Path, disks: Sequence[LabDisk], work: str) -> list[list[list[int]]]:
    """Do ``work`` (``keep``, ``put_back`` or ``changed``) for all disks, and return one result for each disk.

    If the disks are files in the lab's folder, the work is done on this computer, and the copies are in ``own_folder``.
    Raises DrillError or CommandFailed.
    """
    if work == "put_back":
        why = "Restore the disks as they were when the drill began."
        session.lab.guard.check(Step(("true",), why, writes_devices=tuple(disk.node for disk in disks)))
    folder = str(own_folder) if _are_own_files(session, disks) else MACHINE_FOLDER
    pairs = [[path, f"{folder}/{disk.name}.img"] for disk, path in zip(disks, _paths(session, disks), strict=True)]
    try:
        found: list[list[list[int]]] = _work_on(session, disks, work, pairs)
    except OSError as error:
        raise DrillError(
            f"cannot copy, compare or restore the disks: {error}",
            hint="check the free space on the disk that holds the copies",
        ) from None
    return found


def _work_on(session: LabSession, disks: Sequence[LabDisk], work: str, asked: object) -> Any:
    """Run the program on this computer if the disks are files here, otherwise on the machine."""
    arguments = [work, json.dumps(asked)]
    if _are_own_files(session, disks):
        return json.loads(disks_program.main(arguments, lambda: False))
    return json.loads(session.machine.call(_PROGRAM, arguments, timeout_seconds=600))


def _are_own_files(session: LabSession, disks: Sequence[LabDisk]) -> bool:
    """Whether all of these disks are files on this computer."""
    return session.target.is_embedded and all(disk.kind is DiskKind.FILE for disk in disks)


def _paths(session: LabSession, disks: Sequence[LabDisk]) -> list[str]:
    """Return the paths of the disks' files on this computer, or of their devices on the machine."""
    is_own = _are_own_files(session, disks)
    return [disk.backing if is_own else disk.node for disk in disks]


_FILE = "truth.json"
_GIVE_UP = "give the drill up with 'raidlab drill leave'"
_LETTERS = {ChunkKind.DATA: "D", ChunkKind.COPY: "D", ChunkKind.P: "P", ChunkKind.Q: "Q"}


@dataclass(frozen=True, slots=True)
class DiskTruth:
    """How much of a drill's data its disks hold."""

    recoverable_percent: float
    """Percentage of the files' 4 KiB blocks that are on the disks or can be computed from what is there."""
    begun_percent: float
    """The value of ``recoverable_percent`` when the drill began."""
    lost_meta: int
    """Number of metadata blocks destroyed since the drill began. Files that they listed have lost their names."""
    damaged_data: int
    """Number of the members' data blocks that were correct when the drill began and are wrong now."""
    damaged_parity: int
    """The same number for parity blocks."""
    uuid: str


class _Noted(msgspec.Struct):
    """The content of ``_FILE``, which is the answer of ``disks_program.note`` and the result of ``_slots``."""

    geometries: list[list[tuple[int, list[tuple[int, int, str, int]], list[list[int]]]]]
    files: list[int]
    meta: list[int]
    slots: list[list[list[int]]]
    uuid: str


class _Examined(msgspec.Struct):
    """The answer of ``disks_program.examine``."""

    files: list[int]
    """The pages of the drill's files that have been destroyed."""
    meta: list[int]
    """The pages of the file system's metadata that have been destroyed."""
    cells: str
    """One letter for each cell of the array: what belongs there, and whether the member still holds it."""


def percent_of(count: int, total: int) -> float:
    """Return a share in per cent, rounded down so that one lost block is visible; 0 if there are no blocks."""
    return int(10_000 * count / total) / 100 if total else 0.0


def map_files(session: LabSession, node: str, file_system: str) -> dict[str, list[int]]:
    """Return the 4 KiB pages of ``node`` that hold the ``files`` and the metadata (``meta``) of its file system.

    The file system must be mounted on ``PLACE`` and synced. Raises CommandFailed.
    """
    answer = session.machine.call(_PROGRAM, ["mapped", json.dumps({"place": PLACE})], timeout_seconds=_STEP_SECONDS)
    found = json.loads(answer)
    meta = found["folders"]
    if file_system == "ext4":
        text = session.machine.run(("dumpe2fs", node), check=False).stdout
        for first, last in re.findall(r"Inode table at ([0-9]+)-([0-9]+)", text):
            meta += range(int(first), int(last) + 1)
    return {"files": found["files"], "meta": meta}


def note_truth(
    session: LabSession,
    disks: Sequence[LabDisk],
    folder: Path,
    node: str,
    files: Mapping[str, list[int]],
    next_chunk_bytes: int,
) -> None:
    """Record in ``folder`` where the data of an array are.

    The files must be complete, and the file system must be unmounted. ``files`` is the result of ``map_files``, and
    ``next_chunk_bytes`` is the chunk size after a later reshape, or 0. Raises DrillError if the data areas of the
    members do not begin at multiples of 4 KiB.
    """
    name = node.removeprefix("/dev/")
    status = read_array(session.machine, name)
    chunks = [status.chunk_bytes or PAGE_BYTES, *([next_chunk_bytes] if next_chunk_bytes else [])]
    asked = {
        "node": node,
        **files,
        # Every repair and every writable mount writes the first block of a file system.
        "also": [0],
        "geometries": [geometry_of(status, chunk) for chunk in chunks],
    }
    noted = json.loads(session.machine.call(_PROGRAM, ["note", json.dumps(asked)], timeout_seconds=_STEP_SECONDS))
    pictures = examine_members(session.machine, disks)
    noted["slots"] = _slots(disks, status, pictures)
    noted["uuid"] = next((pictures[disk.name].uuid for disk in disks if disk.node in _members(status).values()), "")
    text = json.dumps(noted)
    write_file(folder / _FILE, text.encode())
    if not _are_own_files(session, disks):
        session.machine.run(("mkdir", "-p", MACHINE_FOLDER))
        session.machine.write(f"{MACHINE_FOLDER}/{_FILE}", text)


def begin_truth(session: LabSession, disks: Sequence[LabDisk], folder: Path) -> None:
    """Record what the disks hold when the drill begins, because data that are destroyed by then cannot be saved."""
    if noted := _noted(folder):
        _begun_in(folder).replace(_examine(session, disks, folder, noted))


def read_truth(session: LabSession, disks: Sequence[LabDisk], folder: Path) -> DiskTruth | None:
    """Return what the disks hold now, or None if the drill's data were not recorded. Caches must have been flushed.

    Raises DrillError if a record is damaged, or if the machine's answer is invalid.
    """
    try:
        noted, begun = _noted(folder), _begun_in(folder).read()
    except DrillError as error:
        # These records cannot be created again during the drill.
        raise DrillError(error.message, hint=_GIVE_UP) from error
    if noted is None or begun is None:
        return None
    now = _examine(session, disks, folder, noted)
    if len(begun.cells) != len(now.cells):
        recorded = f"'{_begun_in(folder).path}' has {counted(len(begun.cells), 'cell')}"
        raise DrillError(f"{recorded}, but {len(now.cells):,} were examined", hint=_GIVE_UP)
    marks = list(zip(begun.cells, now.cells, strict=True))
    blocks = len(noted.files)
    return DiskTruth(
        recoverable_percent=percent_of(blocks - len(now.files), blocks),
        begun_percent=percent_of(blocks - len(begun.files), blocks),
        lost_meta=len({*now.meta} - {*begun.meta}),
        damaged_data=sum(mark == "D" != after for mark, after in marks),
        damaged_parity=sum(mark == "P" != after for mark, after in marks),
        uuid=noted.uuid,
    )


def _noted(folder: Path) -> _Noted | None:
    return RecordFile(folder / _FILE, _Noted, DrillError, most_bytes=MOST_DOCUMENT_BYTES).read()


def _begun_in(folder: Path) -> RecordFile[_Examined]:
    return RecordFile(folder / "truth-begun.json", _Examined, DrillError, indent=0, most_bytes=MOST_DOCUMENT_BYTES)


def _examine(session: LabSession, disks: Sequence[LabDisk], folder: Path, noted: _Noted) -> _Examined:
    place = folder if _are_own_files(session, disks) else MACHINE_FOLDER
    asked = {"noted": f"{place}/{_FILE}", "disks": _paths(session, disks), "slots": noted.slots}
    try:
        return convert(_work_on(session, disks, "look", asked), _Examined)
    except CommandFailed as error:
        raise DrillError(f"the disks could not be examined: {error.message}", hint=_GIVE_UP) from error
    except (msgspec.ValidationError, ValueError, LookupError, RecursionError) as error:
        raise DrillError(f"the examination of the disks gave an invalid answer: {error}", hint=_GIVE_UP) from None


def geometry_of(status: ArrayStatus, chunk_bytes: int) -> dict[str, Any]:
    """Return the layout of an array in the form that ``disks_program.note`` takes.

    ``chunk_bytes`` may be the chunk size after a later reshape.
    """
    level = status.raid
    layout = status.layout if level.name in (LevelName.RAID5, LevelName.RAID6) else None
    used = status.component_bytes or min((member.data_size_kib or 0) * KIB for member in status.members)
    rows = stripe_rows(level, layout, status.raid_disks, period_rows(level, status.raid_disks))
    return {
        "chunk": chunk_bytes // PAGE_BYTES,
        "member": used // PAGE_BYTES,
        "parts": level.copies if isinstance(level, Raid10) and level.layout is Raid10Layout.FAR else 1,
        "parities": level.parity_members,
        "pattern": [[row.part, row.row, [[_LETTERS[each.kind], each.number] for each in row.chunks]] for row in rows],
    }


def _members(status: ArrayStatus) -> dict[int, str]:
    """Return the device in each slot."""
    return {member.slot: member.device for member in status.members if member.slot is not None}


def _slots(
    disks: Sequence[LabDisk], status: ArrayStatus, pictures: Mapping[str, MemberPicture]
) -> list[list[list[int]]]:
    """Return for each slot the disks that may be in it, as [index of the disk, first page of its data]."""
    places = {disk.node: number for number, disk in enumerate(disks)}
    offsets = {disk.node: pictures[disk.name].data_offset_sectors for disk in disks}
    if any(sectors * SECTOR_BYTES % PAGE_BYTES for sectors in offsets.values()):
        raise DrillError(
            "the data of a drill must begin at a multiple of 8 sectors", hint="use a different --data-offset"
        )
    members = _members(status)
    uuids = {pictures[disk.name].uuid for disk in disks if disk.node in members.values()}
    away = [disk.node for disk in disks if pictures[disk.name].uuid in uuids and disk.node not in members.values()]
    nodes_of_slots = [[members[slot]] if slot in members else away for slot in range(status.raid_disks)]
    return [
        [[places[node], offsets[node] * SECTOR_BYTES // PAGE_BYTES] for node in nodes if node in places]
        for nodes in nodes_of_slots
    ]


_UNITS = {"year": 365.0, "month": 30.0, "week": 7.0, "day": 1.0, "hour": 1 / 24}
_MIDDLE_MONTH = {"spring": 4, "summer": 7}
_LEAST_DAYS = 60
"""A season means that of this year only if its date is at least this long ago; otherwise it means that of last year."""
_SETTLE_SECONDS = "0.6"
"""Longer than md waits before it marks an array clean (md/safe_mode_delay, 0.2 s). The first write after the clock was
set then marks the array dirty again, and md stores the new time in the superblocks.
"""
_FORM = re.compile(r"([1-9][0-9]?) (year|month|week|day|hour)s? ago")


def moment_of(when: str, now: datetime, seed: str) -> datetime:
    """Return the time before ``now`` that ``when`` denotes. Raises SpecError if ``when`` is not valid."""
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
            f"'{visible(when)}' is not a valid time",
            hint="write 'spring', 'summer', 'yesterday', 'last night', or a time such as '2 weeks ago'",
        )
    # Add less than one unit, so that '2 weeks ago' is before '1 week ago'.
    return now - timedelta(days=_UNITS[match[2]] * (int(match[1]) + 0.4 * share))


class DrillClock:
    """The clock of a lab's own machine, which ``show`` sets to a time and ``put_right`` restores.

    The clocks of other machines are not changed, because other programs use them.
    """

    def __init__(self, session: LabSession, seed: str) -> None:
        self._machine, self._seed = session.machine, seed
        self._may_set = session.is_embedded
        self._began: tuple[float, float] | None = None

    def show(self, when: str) -> None:
        if not when or not self._may_set:
            return
        if self._began is None:
            self._began = _clocks(self._machine)
        self._machine.run(("sleep", _SETTLE_SECONDS))
        now = datetime.fromtimestamp(self._now(), UTC)
        self._set(moment_of(when, now, self._seed).timestamp())

    def put_right(self) -> None:
        if self._began is not None:
            self._set(self._now())
            self._began = None

    def _now(self) -> float:
        assert self._began is not None
        return self._began[0] + _clocks(self._machine)[1] - self._began[1]

    def _set(self, seconds: float) -> None:
        self._machine.run(("date", "-u", "-s", f"@{seconds:.0f}"))


def _clocks(machine: Machine) -> tuple[float, float]:
    shown = digits(machine.run(("date", "+%s")).stdout.strip()) or 0
    uptime = (machine.read(["/proc/uptime"])["/proc/uptime"] or "0").split()[0]
    return float(shown), float(uptime)


PLACE = f"{MOUNT_FOLDER}/drill"
"""Mount point of the file system while the drill is made and when it is judged."""
GUEST_FOLDER = f"{RUN_FOLDER}/drill"
SUMS = "SHA256SUMS"
_HERE = Path(__file__).resolve().parent
_STRICT = "set -euo pipefail\n"
# Overlays made by hand need these modules; on other machines udev loads them on demand.
_MODULES = "modprobe -qa loop dm-snapshot\n"


class DisasterMaker:
    """Runs the steps that create the disaster.

    Afterwards ``uuid`` is the UUID of the file system, and ``blocks`` is the number of 4 KiB blocks of its files.
    """

    def __init__(self, session: LabSession, drill: ReadyDrill, folder: Path) -> None:
        self.session, self.drill, self.folder = session, drill, folder
        self.uuid, self.blocks = "", 0
        self.clock = DrillClock(session, f"{drill.id}/{drill.seed}")
        self.disks = drill_disks(session, drill)

    def do(self, step: DrillStep) -> None:
        """Run one step with the machine's clock set to the step's time. Raises DrillError if the step fails."""
        try:
            self.clock.show(step.when)
            if step.data is None:
                nodes = {disk.name: disk.node for disk in self.disks}
                run_lines(self.session, _STRICT + step.run, environment(nodes, self.drill))
            else:
                self._data(step)
        except LabError as error:
            raise DrillError(f"drill {self.drill.id} could not be created: {error.message}", hint=error.hint) from error

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
                raise DrillError(f"the data of drill {self.drill.id} are damaged before it begins: {verdict.sentence}")
            self.blocks = sum(verdict.verdicts.values())
            list_sums = 'cd "$1" && find . -type f -print0 | sort -z | xargs -0 sha256sum'
            sums = machine.run(("bash", "-c", list_sums, "bash", PLACE)).stdout
            write_file(self.folder / SUMS, sums.encode())
            files = map_files(self.session, step.on, self.drill.drill.file_system)
            machine.run(("umount", PLACE))
            # On devices other than md arrays, the location of the data cannot be determined.
            if step.on.removeprefix("/dev/") in {status.name for status in self.session.statuses()}:
                chunk = (digits(step.next_chunk) or 0) * KIB
                note_truth(self.session, self.disks, self.folder, step.on, files, chunk)

    def _format(self, node: str) -> None:
        machine, kind = self.session.machine, self.drill.drill.file_system
        self.uuid = str(uuid4())
        make = {
            "ext4": ("mkfs.ext4", "-F", "-q", "-b", "4096", "-U", self.uuid, node),
            "xfs": ("mkfs.xfs", "-f", "-q", "-m", f"uuid={self.uuid}", node),
        }[kind]
        self.session.lab.guard.check(
            Step(make, "Create the file system of the drill.", danger=Danger.DATA, writes_devices=(node,))
        )
        machine.run(make)
        machine.run(("mkdir", "-p", PLACE))
        machine.run(("mount", "-t", kind, node, PLACE))

    def _oracle(self) -> Oracle:
        names = self.drill.drill.names
        return Oracle.open(self.session.lab, self.folder, PLACE, seed=self.drill.seed or "drill", mix={"names": names})


RESET_LINE = "drill reset"
"""The entry in the list of commands that stands for a reset of the disks."""
_STORE_SECONDS = 5.0


class DrillDesk:
    """A drill on an open lab.

    Create it with ``begin``, or from the case of an open drill, and then call ``update`` often. Only the thread that
    runs plans may change the drill with ``commit``, ``reset`` or ``close``.
    """

    def __init__(self, session: LabSession, case: DrillCase) -> None:
        self.session, self.case = session, case
        self.disks = drill_disks(session, case.drill)
        self.is_over = False
        self.lock = threading.RLock()
        """Held while counters are updated and while the drill is changed."""
        self._since = time.monotonic()
        self._written = self._counters()

    @classmethod
    def begin(
        cls, session: LabSession, drill: ReadyDrill, begin_exam: Callable[[], ExamTerms] | None = None
    ) -> DrillDesk:
        """Create the disaster on blank disks, copy the disks, and start the machine as the drill specifies.

        ``begin_exam`` records an attempt at an exam, and is called once the disaster exists.

        Raises UnfitVersion if the kernel or mdadm is unsuitable. Raises DrillError if the disaster cannot be created,
        or if an exam is open (another attempt may replace an exam in this drill).
        """
        require_no_exam(session.folder, besides=stored_name(drill.id, drill.path) if begin_exam else "")
        require_possible(session, drill)
        disks = drill_disks(session, drill)
        folder = session.folder / "drill"
        shutil.rmtree(folder, ignore_errors=True)
        session.host.state.make(folder, what="the folder of the drill")
        store_arrival(session.folder, None)
        maker = DisasterMaker(session, drill, folder)
        try:
            for step in drill.drill.setup:
                maker.do(step)
        finally:
            maker.clock.put_right()
        release(session, disks)
        record = CaseRecord(
            drill=stored_name(drill.id, drill.path),
            drill_file=file_digest(drill.path),
            seed=drill.seed,
            target=str(session.target),
            began_utc=utc_text(session.host.clock),
            file_system_uuid=maker.uuid,
            blocks=maker.blocks,
            before=examine_members(session.machine, disks),
        )
        case = DrillCase(folder, record, drill)
        images_of(session, case.images, disks, "keep")
        begin_truth(session, disks, folder)
        # Record the attempt only now, because a disaster that cannot be created must not count as an attempt.
        case.change(exam=begin_exam() if begin_exam else None)
        desk = cls(session, case)
        desk._arrive()
        return desk

    @property
    def minutes(self) -> float:
        return (self.case.record.open_seconds + time.monotonic() - self._since) / 60

    def update(self, *, is_last: bool = False) -> None:
        """Count the bytes written and the time. Call this often, so that little is lost if the program ends.

        New writes are stored immediately. If only the time has changed, it is stored every few seconds, and when
        ``is_last`` is true.
        """
        with self.lock:
            if self.is_over:
                return
            now, written = time.monotonic(), self._counters()
            grown = sum(max(0, written[node] - self._written.get(node, 0)) for node in written)
            seconds = self.case.record.open_seconds + now - self._since
            touched = self.case.record.touched_bytes + (0 if self.case.is_committed else grown)
            if touched == self.case.record.touched_bytes and now - self._since < _STORE_SECONDS and not is_last:
                return
            self._since, self._written = now, written
            self.case.change(open_seconds=round(seconds, 1), touched_bytes=touched)

    @property
    def now_utc(self) -> str:
        return utc_text(self.session.host.clock)

    def note_command(self, line: str) -> None:
        if not self.is_over:
            self.case.add_command(line, self.minutes * 60)

    def commit(self) -> int:
        """Record that the student writes to the disks from now on. Returns the number of bytes written before.

        Raises DrillError if the time for an exam is up.
        """
        with self.lock:
            self.update(is_last=True)
            self.case.record.require_time(self.now_utc)
            if not self.case.is_committed:
                touched = max(self.case.record.touched_bytes, self.beyond_own(self.changed()))
                self.case.change(
                    committed_utc=self.now_utc,
                    committed_seconds=self.case.record.open_seconds,
                    touched_bytes=touched,
                )
        return self.case.record.touched_bytes

    def reset(self) -> None:
        """Restore the disks as they were when the drill began, and start the machine again.

        The number of hints taken and the time are not reset.

        Raises DrillError if a program that uses the disks cannot be stopped, or if the time for an exam is up.
        """
        with self.lock:
            self.update(is_last=True)
            self.case.record.require_time(self.now_utc)
            release(self.session, self.disks)
            images_of(self.session, self.case.images, self.disks, "put_back")
            resets = self.case.record.resets + 1
            self.case.change(resets=resets, touched_bytes=0, committed_utc="", committed_seconds=0.0)
            self.note_command(RESET_LINE)
            self._arrive()

    def leave(self) -> None:
        """Give up the drill without a verdict. Raises DrillError in an exam, unless a verdict is impossible."""
        if self.case.record.exam and self._can_be_judged():
            raise DrillError("an exam cannot be given up", hint="end it with 'raidlab drill debrief --as-it-is'")
        self.close()

    def _can_be_judged(self) -> bool:
        """Whether the records and the copies of the disks, on which a verdict depends, can be read."""
        try:
            self.changed()
            self.truth()
        except (DrillError, CommandFailed):
            return False
        return True

    def close(self) -> None:
        """End the drill without changing the disks."""
        with self.lock:
            self.is_over = True
            pictures = examine_members(self.session.machine, self.disks)
            close_case(self.session.folder, self.case, pictures)

    def changed(self) -> dict[str, list[list[int]]]:
        """Return the byte ranges [first, end) that have changed since the drill began, by disk name."""
        flush(self.session, self.disks)
        found = images_of(self.session, self.case.images, self.disks, "changed")
        return {disk.name: ranges for disk, ranges in zip(self.disks, found, strict=True) if ranges}

    def truth(self) -> DiskTruth | None:
        """Return how much of the data can still be recovered from the disks, or None if this is unknown."""
        flush(self.session, self.disks)
        return read_truth(self.session, self.disks, self.case.folder)

    def environment(self) -> dict[str, str]:
        return environment({disk.name: disk.node for disk in self.disks}, self.case.drill)

    def _arrive(self) -> None:
        """Start the arrays as the machine would at boot.

        What this changes on the disks is recorded, so that it does not count as the student's work.
        """
        programs = {f"{RUN_FOLDER}/bin/{path.stem}": path for path in sorted(_HERE.glob("guest/*.sh"))}
        files = {f"{GUEST_FOLDER}/{SUMS}": self.case.folder / SUMS, **programs}
        arrival = Arrival(
            title=self.case.drill.drill.title,
            script=_MODULES + self.case.drill.drill.arrive,
            files={name: path.read_text(encoding="utf-8") for name, path in files.items()},
            environment=self.environment(),
        )
        store_arrival(self.session.folder, arrival)
        if self.session.is_embedded:
            # The kernel log shows how the drill was made. This machine belongs to the lab, so its log may be cleared.
            self.session.machine.run(("dmesg", "--clear"), check=False)
        arrive(self.session.machine, arrival)
        self.session.rescan()
        self.case.change(own_ranges=self.changed())
        self._written = self._counters()

    def beyond_own(self, changed: Mapping[str, Sequence[Sequence[int]]]) -> int:
        """Return the number of bytes in ``changed`` that were not already changed by the start of the machine."""
        own = self.case.record.own_ranges
        return sum(_outside(first, end, own.get(name, [])) for name, ranges in changed.items() for first, end in ranges)

    def _counters(self) -> dict[str, int]:
        """Return the bytes written to each device since the machine started (iostats.rst, field 7, in sectors)."""
        paths = {disk.node: f"/sys/block/{disk.kernel_name}/stat" for disk in self.disks}
        texts = self.session.machine.read(list(paths.values()))
        fields = {node: (texts[path] or "").split() for node, path in paths.items()}
        return {node: (digits(words[6]) or 0) * SECTOR_BYTES for node, words in fields.items() if len(words) > 6}


def close_case(folder: Path, case: DrillCase, now: Mapping[str, MemberPicture]) -> None:
    """Remove the open drill and its arrival script from the lab's folder.

    The disks are not changed, but are recorded as leftovers of the drill.
    ``now`` contains those of their current superblocks that are known.
    """
    uuids = {plain_uuid(picture.uuid) for picture in (*case.record.before.values(), *now.values()) if picture.uuid}
    left = Leftovers(title=case.drill.drill.title, disks=case.drill.disk_names, uuids=tuple(sorted(uuids)))
    store_leftovers(folder, left)
    store_arrival(folder, None)
    forget_drill(folder)


def _outside(first: int, end: int, own: Sequence[Sequence[int]]) -> int:
    """Return the number of bytes of [first, end) that lie outside these ranges, which must not overlap."""
    inside = sum(max(0, min(end, stop) - max(first, start)) for start, stop in own)
    return end - first - inside


def open_desk(session: LabSession) -> DrillDesk | None:
    """Return the open drill of this lab, or None if there is none. The drill records each typed command from now on.

    Raises LabError if the drill cannot be read.
    """
    case = DrillCase.find(session.folder)
    if case is None:
        return None
    desk = DrillDesk(session, case)
    session.on_typed = desk.note_command
    return desk
