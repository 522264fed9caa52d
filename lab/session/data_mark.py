"""Known data on an array, and a verdict on their state at any later time.

Loads do not touch the known data, because the two use regions of the array that do not overlap.
"""

from __future__ import annotations

import secrets
from dataclasses import replace

import msgspec

from lab.arrays import filesystem
from lab.arrays.discovery import plain_uuid
from lab.arrays.filesystem import FileSystem, free_bytes
from lab.arrays.kinds import names_array
from lab.arrays.levels import kernel_name
from lab.errors import ArrayError, CommandFailed, LabError
from lab.gates.decoding import SizeBytes, decode_json
from lab.host.clock import utc_second_text, utc_text
from lab.measure.job import LoadTarget
from lab.measure.rebuild import LONGEST_SECONDS, MARK_DATA, DataVerdict
from lab.session.session import LabSession
from lab.store import RecordFile
from lab.units import KIB, MIB, human_bytes

MARK_BYTES = 16 * MIB
_MARK_FRACTION = 8


def mark_bytes(size_bytes: int) -> int:
    """Return the size of the part of a bare array reserved for the mark: 16 MiB, but at most an eighth of the array.

    The eighth is rounded down to whole MiB, or to whole 4 KiB if the array is smaller than 16 MiB. If the array does
    not end at a multiple of 4 KiB, the remainder is added.
    """
    wanted = min(MARK_BYTES, size_bytes // _MARK_FRACTION)
    unit = MIB if wanted >= 2 * MIB else 4 * KIB
    return wanted - wanted % unit + size_bytes % (4 * KIB)


def load_target(session: LabSession, word: str) -> LoadTarget:
    """Return the target of loads on the array or free disk with this name, and mount its file system if it has one.

    The free space of a file system is not determined here, but by ``with_free_bytes``. Raises ArrayError if the array
    is not running or has unknown content, and DeviceRefused if the disk is in use.
    """
    target = _whole_target(session, word)
    mark = read_marks(session).get(target.uuid) if target.array and target.is_raw else None
    if mark is None or not mark.is_raw:
        return target
    # If the array has grown since, its mark is still at the former end.
    return replace(target, available_bytes=min(target.available_bytes, mark.start_bytes))


def _whole_target(session: LabSession, word: str) -> LoadTarget:
    """Like ``load_target``, but the target extends to the place where a new mark would begin."""
    if not names_array(word):
        disk = session.lab.disk(word)
        session.check_free([disk.node])
        return LoadTarget(None, disk.node, (disk.kernel_name,), FileSystem.RAW, disk.size_bytes)
    array = session.array(word)
    status = array.status()
    kind = file_system_on(session, status.device)
    if kind is not FileSystem.RAW and not array.mounted_on:
        session.run(filesystem.mount(kind, status.device))
    members = tuple(kernel_name(member.device) for member in status.members)
    reserved = mark_bytes(status.size_bytes) if kind is FileSystem.RAW else 0
    uuid = status.uuid or (plain_uuid(array.found.uuid) if array.found else word)
    return LoadTarget(word, status.device, members, kind, status.size_bytes - reserved, uuid, reserved)


def with_free_bytes(session: LabSession, target: LoadTarget) -> LoadTarget:
    """Return the target with the free space of its file system. Raises ArrayError if the lab has not mounted it."""
    if target.is_raw:
        return target
    return replace(target, available_bytes=filesystem.free_bytes(session.machine, _mount_of(session, target)))


def file_system_on(session: LabSession, device: str) -> FileSystem:
    """Return the file system on an array, or RAW if the beginning of the array can be read and has no signature.

    Raises ArrayError if there is anything else on it, such as partitions or several signatures, so that nothing is
    overwritten, and DeviceRefused if the array is in use.
    """
    types = session.lab.guard.carried([device]).get(device, ())
    if len(types) == 1 and types[0] in tuple(FileSystem):
        return FileSystem(types[0])
    if types:
        raise ArrayError(
            f"{device} contains {', '.join(types)}, which the lab does not overwrite",
            hint=f"use an array with ext4, xfs or no file system, or run 'raidlab exec -- wipefs --all {device}'",
        )
    # An unreadable device is not blank: it may hold a file system whose first block is damaged.
    argv = ("dd", f"if={device}", "of=/dev/null", "bs=64K", "count=2", "iflag=direct", "status=none")
    if session.machine.run(argv, check=False).status != 0:
        raise ArrayError(
            f"the beginning of {device} cannot be read, so the lab cannot tell what is on it",
            hint="scrub the array or replace the member that cannot be read, then try again",
        )
    session.lab.guard.check_unused([device])
    return FileSystem.RAW


def _mount_of(session: LabSession, target: LoadTarget) -> str:
    """Return the mount point of an array's file system. Raises ArrayError if the lab did not mount it."""
    name, expected = target.array or "", filesystem.mount_point(target.device)
    folders = session.array(name).mounted_on
    if expected in folders:
        return expected
    raise ArrayError(
        f"{name} is mounted on {', '.join(folders) or 'nothing'}", hint=f"mount it on {expected}, or unmount it"
    )


_MARKS_FILE = "marks.json"
_VERDICTS_FILE = "verdicts.json"
_MARK_FILE_NAME = ".raidlab-mark"
_BLOCK_BYTES = 4 * KIB
_NAMED_STRETCHES = 3
_MOST_MARKS = 64


class DataMark(msgspec.Struct, frozen=True, kw_only=True):
    """The location of known data, and the seed that generates them."""

    array: str
    uuid: str
    path: str
    """The array's device, or a file on its file system."""
    start_bytes: SizeBytes
    length_bytes: SizeBytes
    seed: str
    written_utc: str

    @property
    def is_raw(self) -> bool:
        return self.path.startswith("/dev/")


class MarkVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a mark's data."""

    verdict: DataVerdict
    sentence: str
    changed: tuple[tuple[int, int], ...] = ()
    """The start and length of each region that differs, in bytes from the start of ``DataMark.path``."""
    unreadable: tuple[tuple[int, int], ...] = ()
    """Regions for which md returns an I/O error."""

    @property
    def is_intact(self) -> bool:
        return self.verdict is DataVerdict.INTACT


class LastVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a mark's data at the last verification."""

    verdict: DataVerdict
    checked_utc: str
    unreadable: tuple[tuple[int, int], ...] = ()
    """The first few regions of ``MarkVerdict.unreadable``."""


class _Found(msgspec.Struct, frozen=True):
    """What mark_program.py reports."""

    changed: tuple[tuple[int, int], ...]
    unreadable: tuple[tuple[int, int], ...]


def write_mark(session: LabSession, name: str) -> DataMark:
    """Write known data to the end of a bare array, or to a file on its file system, in place of any older mark."""
    target = _whole_target(session, name)
    path, start, length = _where(session, name, target)
    mark = DataMark(
        array=name,
        uuid=target.uuid,
        path=path,
        start_bytes=start,
        length_bytes=length,
        seed=secrets.token_hex(8),
        written_utc=utc_second_text(session.host.clock),
    )
    others = {uuid: each for uuid, each in read_marks(session).items() if uuid != mark.uuid}
    # Delete the older mark first: if this command were killed during the write, a verification of the old mark would
    # report good data as changed.
    _save(session, others)
    _call(session, "write", mark)
    _save(session, {**others, mark.uuid: mark})
    _store_verdict(session, mark.uuid, None)
    return mark


def verify_mark(session: LabSession, mark: DataMark) -> MarkVerdict:
    """Read a mark with direct I/O, and store and return the verdict, even if data are lost. Raises MachineLost."""
    found = _verify(session, mark)
    _store_verdict(session, mark.uuid, found)
    return found


def _verify(session: LabSession, mark: DataMark) -> MarkVerdict:
    try:
        target = load_target(session, mark.array)
        if target.uuid != mark.uuid:
            raise ArrayError(f"{mark.array} is now a different array: the one with the known data no longer exists")
        if not mark.is_raw:
            _mount_of(session, target)
        found = _call(session, "verify", mark)
    except LabError as error:
        if error.exit_code != LabError.exit_code:
            raise
        return MarkVerdict(verdict=DataVerdict.UNREADABLE, sentence=f"no byte can be read: {error.message}")
    return _judge(mark, found)


def _judge(mark: DataMark, found: _Found) -> MarkVerdict:
    size = human_bytes(mark.length_bytes)
    changed = tuple((mark.start_bytes + start, length) for start, length in found.changed)
    unreadable = tuple((mark.start_bytes + start, length) for start, length in found.unreadable)
    lost = sum(length for _, length in unreadable)
    if changed:
        wrong = human_bytes(sum(length for _, length in changed))
        sentence = f"{wrong} of {size} differ from what was written, {_places(mark, changed)}, and md reported no error"
        if lost:
            sentence += f"; {human_bytes(lost)} cannot be read"
        return MarkVerdict(verdict=DataVerdict.CHANGED, sentence=sentence, changed=changed, unreadable=unreadable)
    if unreadable:
        sentence = f"{human_bytes(lost)} of {size} cannot be read, {_places(mark, unreadable)}, and md reports an error"
        return MarkVerdict(verdict=DataVerdict.UNREADABLE, sentence=sentence, unreadable=unreadable)
    blocks = mark.length_bytes // _BLOCK_BYTES
    return MarkVerdict(
        verdict=DataVerdict.INTACT,
        sentence=f"all {blocks} blocks ({size}) are as they were written at {mark.written_utc}",
    )


def _places(mark: DataMark, stretches: tuple[tuple[int, int], ...]) -> str:
    named = [f"{human_bytes(length)} at byte {start}" for start, length in stretches[:_NAMED_STRETCHES]]
    more = len(stretches) - len(named)
    where = mark.array if mark.is_raw else mark.path
    return f"{', '.join(named)}{f' and {more} more regions' if more else ''} of {where}"


def mark_of(session: LabSession, name: str) -> DataMark | None:
    """Return the mark on a running array. Raises ArrayError if the array is not running."""
    uuid = session.array(name).status().uuid
    marks = read_marks(session)
    return marks.get(uuid) if uuid else next((mark for mark in marks.values() if mark.array == name), None)


def require_mark(session: LabSession, name: str) -> DataMark:
    """Like ``mark_of``, but raises ArrayError if the array has no mark."""
    mark = mark_of(session, name)
    if mark is None:
        raise ArrayError(f"{name} contains no known data", hint=f"write known data first: raidlab array mark {name}")
    return mark


def read_marks(session: LabSession) -> dict[str, DataMark]:
    """Return all marks of this lab by the UUID of their array, or none if the file is damaged."""
    marks = RecordFile(session.folder / _MARKS_FILE, tuple[DataMark, ...]).read_or(())
    return {mark.uuid: mark for mark in marks}


def last_verdicts(session: LabSession) -> dict[str, LastVerdict]:
    """Return the last verdict on each mark, by the UUID of its array, without reading data from the array."""
    return RecordFile(session.folder / _VERDICTS_FILE, dict[str, LastVerdict]).read_or({})


def _where(session: LabSession, name: str, target: LoadTarget) -> tuple[str, int, int]:
    """Return the path, start and length of the mark on a target. Raises ArrayError if the target is not an array."""
    if not target.uuid:
        raise ArrayError(f"{name} is not an array", hint="mark an array")
    if target.is_raw:
        return target.device, target.available_bytes, target.mark_bytes - target.mark_bytes % _BLOCK_BYTES
    folder = _mount_of(session, target)
    length = min(MARK_BYTES, free_bytes(session.machine, folder) // 4)
    if length < _BLOCK_BYTES:
        raise ArrayError(f"{folder} has no space for known data", hint="delete some files there")
    return f"{folder}/{_MARK_FILE_NAME}", 0, length - length % _BLOCK_BYTES


def _call(session: LabSession, action: str, mark: DataMark) -> _Found:
    place = (mark.path, str(mark.start_bytes), str(mark.length_bytes), mark.seed)
    try:
        found = session.machine.call(MARK_DATA, (action, *place), timeout_seconds=LONGEST_SECONDS)
    except CommandFailed as error:
        what = f"the data mark of {mark.array} could not be {_PAST[action]}"
        raise LabError(f"{what}: {error.stderr_tail}", hint="check the array's state") from error
    return decode_json(found, _Found)


_PAST = {"write": "written", "verify": "read"}


def _save(session: LabSession, marks: dict[str, DataMark]) -> None:
    """Store only the newest marks, so that the file does not grow without bound."""
    _store(session, _MARKS_FILE, tuple(marks.values())[-_MOST_MARKS:])


def _store_verdict(session: LabSession, uuid: str, verdict: MarkVerdict | None) -> None:
    """Store the verdict on a mark; None removes an older verdict, for data that have not been verified yet."""
    verdicts = last_verdicts(session)
    verdicts.pop(uuid, None)
    if verdict is not None:
        lost = verdict.unreadable[:_NAMED_STRETCHES]
        verdicts[uuid] = LastVerdict(verdict=verdict.verdict, checked_utc=utc_text(session.host.clock), unreadable=lost)
    _store(session, _VERDICTS_FILE, dict(tuple(verdicts.items())[-_MOST_MARKS:]))


def _store(session: LabSession, name: str, value: object) -> None:
    folder = session.host.state.make(session.folder, what="the lab's folder")
    RecordFile(folder / name, object).replace(value)
