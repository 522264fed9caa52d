"""Operations on arrays, their members, emulated drives and loads, and the parsing of their arguments.

The app imports this module before it shows its first screen, so modules that are needed only to run a verb are imported
on demand.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from lab.actions.action import (
    Action,
    Argument,
    ArrayAction,
    Choice,
    Fills,
    FreeDiskName,
    MemberAction,
    OperationAction,
    PlanAction,
)
from lab.arrays import operations
from lab.arrays.array import ArrayKind, ArraysToPlan, require_free_name
from lab.arrays.filesystem import FileSystem
from lab.arrays.kinds import free_name, kind_of_level
from lab.arrays.spec import ArraySpec, Bitmap, ConsistencyPolicy, Spec, bitmap_chunk_problem
from lab.disks import DiskKind, LabDisk
from lab.disks.kinds import find_disk
from lab.errors import ArrayError, SpecError
from lab.gates.decoding import (
    DiskCount,
    Name,
    NameOrNone,
    Names,
    Seconds,
    Share,
    SpareCount,
    SpeedKibPerSecond,
    checked,
    parse_bytes,
    real,
    whole,
)
from lab.plans import Plan
from lab.units import GIB, KIB

if TYPE_CHECKING:
    from lab.actions.action import Selection
    from lab.session.data_mark import DataMark, MarkVerdict
    from lab.session.session import LabSession
    from lab.workloads.workload import Workload

USUAL_LOADS = ("rand-mix-4k", "rand-read-4k", "rand-write-4k", "seq-read-1m", "seq-write-1m")


def _unless_working(it: Selection) -> str:
    return "" if it.member and not it.member.is_faulty else f"{it.disk_name} is not a working member of an array"


def _unless_in_sync(it: Selection) -> str:
    return "" if it.member and it.member.is_in_sync else f"{it.disk_name} is not a working member of an array"


def _unless_redundant(it: Selection) -> str:
    if it.array is None:
        return it.lack_of_array
    return "" if it.array.is_redundant else f"{it.array_name} has no redundancy"


def _unless_allowed(it: Selection, what: str) -> str:
    return f"{it.array_name} does not support this" if it.array and what in it.array.cannot else ""


def _unless_a_disk_suits(it: Selection) -> str:
    return "" if it.free_disk else f"no free disk suits {it.array_name}"


class Load(Action, frozen=True, kw_only=True, tag="load"):
    """Run one workload on an array and print its figures, with live values on standard error."""

    words, key, label, in_footer = "load", "w", "Load", True
    # A lesson may come from an unknown author, and a workload may be any file.
    in_lessons = False
    tooltip = "Put a workload on the array: reads and writes until you stop it"
    title, picks = "Load on {array}", "workload"
    intro = (
        "It runs until you stop it. It overwrites whatever is on an array without a file system, "
        "except your known data."
    )
    needs = (attrgetter("lack_of_array"), lambda it: "a load is already running" if it.has_load else "")
    workload: Annotated[
        str,
        Argument("A workload (see 'raidlab workloads'), or a .toml file's path.", is_placed=True, is_needed=True),
    ]
    array: Annotated[
        Name,
        Argument(
            "A running array or a free disk, which is overwritten unless it has a file system.",
            is_placed=True,
            is_needed=True,
            fills=Fills.ARRAY,
        ),
    ] = "md0"
    runtime: Annotated[Seconds, Argument("Seconds to measure; Ctrl-C ends the load early.")] = 10.0
    size: Annotated[str, Argument("The total size of the area that the load uses, such as 64M.")] = ""

    @classmethod
    def choices(cls) -> list[Choice]:
        return [
            Choice(each.id, each.id, each.title, str(number) if each.id in USUAL_LOADS else "")
            for number, each in enumerate(workloads(), start=1)
        ]

    def __post_init__(self) -> None:
        self.working_set_bytes  # noqa: B018 - raises for text that is not a size

    @property
    def working_set_bytes(self) -> int | None:
        return bytes_or_none(self.size, "size")


class StopLoad(Action, frozen=True, kw_only=True, tag="load.stop"):
    """End the running workload and show its figures."""

    words, key, label, in_footer, alias = "load", "w", "Stop load", True, "stop-load"
    tooltip = "End the running workload and show its figures"
    has_command = in_lessons = False
    needs = (lambda it: "" if it.has_load else "no load is running",)


def workloads() -> list[Workload]:
    """Return all workloads, the common ones first and the others sorted by name."""
    from lab.workloads.workload import all_workloads

    found = all_workloads()
    first = [name for name in USUAL_LOADS if name in found]
    return [found[name] for name in (*first, *(name for name in sorted(found) if name not in first))]


def disk_count(text: str) -> int | None:
    """Return how many disks ``text`` requests, or None if it names disks or is empty. Raises SpecError for too many."""
    if not re.fullmatch(r"\s*[+-]?\d+\s*", text):
        return None
    return checked(whole(text, "number of disks"), SpareCount, "number of disks")


def _chosen_disks(text: str, disks: Sequence[LabDisk], free: Sequence[LabDisk]) -> list[LabDisk]:
    """Return the disks that ``text`` names, or as many free disks as it requests. Raises ArrayError for too many."""
    count = disk_count(text)
    if count is None:
        return _named_disks(text, disks)
    if count > len(free):
        raise ArrayError(
            f"{count} disks were requested, but only {len(free)} of {len(disks)} are free",
            hint="'raidlab disks' shows what uses each disk; 'raidlab disks add' creates more",
        )
    return list(free[:count])


def split_words(text: str) -> list[str]:
    """Split ``text`` at commas and spaces. Raises SpecError if it has more words than the maximum number of disks."""
    words = [word for word in re.split(r"[,\s]+", text) if word]
    checked(len(words), SpareCount, "number of disks")
    return words


def _named_disks(text: str, disks: Sequence[LabDisk]) -> list[LabDisk]:
    return [find_disk(word, disks) for word in split_words(text)]


def bytes_or_none(text: str, what: str) -> int | None:
    """Return the size given in an option, in bytes, or None if it is empty. Raises SpecError if the size is invalid."""
    return parse_bytes(text, what=what) if text else None


_WAIT = "Wait until md has finished (the default on uml:)."
BreakArray = Annotated[bool, Argument("Proceed even if the array loses its data.")]


class Pull(PlanAction, MemberAction, frozen=True, kw_only=True, tag="array.pull"):
    """Make a member vanish, as if its cable were pulled; 'plug-in' brings it back."""

    words, key, label, asks = "array pull", "p", "Pull", "break_array"
    tooltip = "The selected disk vanishes while in use, as if its cable were pulled"
    needs = (lambda it: f"{it.disk_name} has already been pulled" if it.is_pulled else "",)
    break_array: BreakArray = False

    @classmethod
    def on_selection(cls, it: Selection, **more: Any) -> Pull:
        """Create the action without an array if the disk is not a member, because any disk can be pulled."""
        return super().on_selection(it, **{"array": it.array_name if it.member else "", **more})

    @classmethod
    def note(cls, it: Selection) -> str:
        return _failing_note(it)

    def plan(self, session: LabSession) -> Plan:
        from lab.session import breaking

        if self.array:
            session.array(self.array).status().member(session.node(self.disk))
        return breaking.pull(session, self.disk, breaks_array=self.break_array)


class PlugIn(PlanAction, MemberAction, frozen=True, kw_only=True, tag="array.plug-in"):
    """Bring a pulled disk back; then use 're-add' or 'add' to return it to the array."""

    words, key, label = "array plug-in", "p", "Plug in"
    tooltip = "Bring a pulled disk back; then add or re-add it"
    effect = "{disk} returns with its old contents; md does not add it to the array automatically."
    needs = (lambda it: "" if it.is_pulled else f"{it.disk_name} has not been pulled",)

    def plan(self, session: LabSession) -> Plan:
        from lab.session import breaking

        return breaking.plug_in(session, self.disk)


class Corrupt(PlanAction, MemberAction, frozen=True, kw_only=True, tag="disk.corrupt"):
    """Overwrite some of a member's data behind md's back, within the known data if there are any."""

    words, key, label = "array corrupt", "c", "Corrupt"
    tooltip = "Overwrite some of the member's data behind md's back: no error, wrong data"
    needs = (_unless_working, partial(_unless_allowed, what="corrupt"))
    effect = "md will not notice. A scrub (s) finds it if the array is redundant; verify (v) reads the known data."
    length: Annotated[str, Argument("The amount to overwrite, such as 64K.")] = "64K"

    def __post_init__(self) -> None:
        if parse_bytes(self.length, what="length") < operations.CORRUPTION_BLOCK_BYTES:
            raise ArrayError(
                "the length must be at least one block of 4 KiB", hint="specify a larger length, such as 64K"
            )

    def plan(self, session: LabSession) -> Plan:
        from lab.session import breaking

        return breaking.corrupt(session, self.array, self.disk, length_bytes=parse_bytes(self.length, what="length"))


def _unless_it_has_known_data(it: Selection) -> str:
    is_possible = it.member and it.member.is_in_sync and it.has_known_data
    return "" if is_possible else f"{it.disk_name} is not a working member of an array with known data"


class BadBlock(PlanAction, MemberAction, frozen=True, kw_only=True, tag="disk.bad_block"):
    """Add 4 KiB of a member to md's bad-block list, as md does after a read error that it could not correct."""

    words, key, label = "array bad-block", "u", "Bad block"
    tooltip = "Add a block of the known data to md's bad-block list"
    effect = "md treats 4 KiB of {disk} as unreadable until it can rewrite them, as a scrub does."
    needs = (_unless_redundant, partial(_unless_allowed, what="corrupt"), _unless_it_has_known_data)
    sector: Annotated[str, Argument("The sector on the disk; default: one in the middle of the known data.")] = ""

    def __post_init__(self) -> None:
        self._first  # noqa: B018 - raises for text that is not a number

    @property
    def _first(self) -> int | None:
        return whole(self.sector, "sector") if self.sector else None

    def plan(self, session: LabSession) -> Plan:
        from lab.microscope.picture import bad_block

        return bad_block(session, self.array, self.disk, self._first)


class Slow(PlanAction, frozen=True, kw_only=True, tag="disk.slow"):
    """Slow a spindle down to the speed of a slower drive model while the spindle is in use."""

    words, key, label = "disks slow", "d", "Slow down"
    tooltip = "Make an emulated drive answer more slowly from now on"
    title, picks = "Speed of {disk}", "model"
    intro = "Which model's speed should {disk} have from now on? It cannot be faster than its own model."
    needs = (
        attrgetter("lack_of_disk"),
        lambda it: "" if it.disk and it.disk.model else f"{it.disk_name} is not an emulated drive",
    )
    disk: Annotated[
        Name,
        Argument(
            "The emulated drive, such as disk02.", also="--name", is_placed=True, is_needed=True, fills=Fills.DISK
        ),
    ]
    model: Annotated[
        Name,
        Argument(
            "A drive model (see 'raidlab disks models'); the disk's own model restores its speed.",
            is_placed=True,
            is_needed=True,
        ),
    ]

    @classmethod
    def choices(cls) -> list[Choice]:
        from lab.disks.kinds import all_drive_models

        return [Choice(name, name, model.title) for name, model in all_drive_models().items()]

    def plan(self, session: LabSession) -> Plan:
        return operations.slow(session.lab.disk(self.disk), self.model)


class WriteMark(ArrayAction, frozen=True, kw_only=True, tag="mark.write"):
    """Write known data for 'verify' at the end of the array, or to a file on its file system."""

    words, key, label = "array mark", "m", "Mark"
    tooltip = "Write known data to the array, to prove later that nothing was lost"

    def perform(self, session: LabSession) -> DataMark:
        from lab.session import data_mark

        return data_mark.write_mark(session, self.array)


class VerifyMark(ArrayAction, frozen=True, kw_only=True, tag="mark.verify"):
    """Read the known data, bypassing the page cache, and report whether they are intact; exit with status 1 if not."""

    words, key, label = "array verify", "v", "Verify"
    tooltip = "Check whether the known data are intact, bypassing the page cache"
    needs = (lambda it: "" if it.has_known_data else f"{it.array_name} has no known data",)

    def perform(self, session: LabSession) -> MarkVerdict:
        from lab.session import data_mark

        return data_mark.verify_mark(session, data_mark.require_mark(session, self.array))


class Fail(OperationAction, MemberAction, frozen=True, kw_only=True, tag="array.fail"):
    """Mark a member as faulty, as md does when a disk stops answering."""

    words, key, label, in_footer, asks = "array fail", "f", "Fail", True, "break_array"
    tooltip = "Mark the selected disk as faulty, as md does when it stops answering"
    needs = (_unless_working,)
    disk: Annotated[Names, Argument("The disk, such as disk02.", is_placed=True, is_needed=True, fills=Fills.DISK)]
    break_array: BreakArray = False

    @classmethod
    def note(cls, it: Selection) -> str:
        return _failing_note(it)

    def __post_init__(self) -> None:
        if not self.disk:
            raise SpecError("no disk was specified", hint="name one: 'raidlab disks' lists them")

    @property
    def each(self) -> tuple[Fail, ...]:
        """One action for each disk, since a lesson file may name several disks, separated by commas."""
        return tuple(msgspec.structs.replace(self, disk=disk) for disk in self.disk.split(","))

    def by_hand(self) -> str:
        return super().by_hand() if len(self.each) == 1 else "\n".join(one.by_hand() for one in self.each)

    def plan(self, arrays: ArraysToPlan) -> Plan:
        """Return the plan for one disk only: whether a second may fail depends on the state after the first."""
        return arrays.array(self.array).fail(self.disk, breaks_array=self.break_array)

    def perform(self, session: LabSession) -> object:
        for one in self.each:
            session.run(one.plan(session))
        return None


def _unless_removable(it: Selection) -> str:
    is_removable = it.member and (it.member.is_faulty or it.member.is_spare)
    return "" if is_removable else f"{it.disk_name} is neither a faulty member nor a spare"


class Remove(OperationAction, MemberAction, frozen=True, kw_only=True, tag="array.remove"):
    """Remove a faulty or spare member from an array."""

    words, key, label, in_footer = "array remove", "x", "Remove", True
    tooltip = "Remove a faulty disk or a spare from its array"
    effect = "The disk leaves the array and is free for other uses."
    needs = (_unless_removable,)

    def plan(self, arrays: ArraysToPlan) -> Plan:
        return arrays.array(self.array).remove(self.disk)


class Add(OperationAction, ArrayAction, frozen=True, kw_only=True, tag="array.add"):
    """Add a disk as a spare; a degraded array rebuilds onto it."""

    words, key, label, in_footer = "array add", "a", "Add", True
    wait_help = _WAIT
    tooltip = "Add a disk: a degraded array rebuilds onto it, a complete array keeps it as a spare"
    needs = (_unless_redundant, _unless_a_disk_suits)
    long_work = "rebuild"
    disk: FreeDiskName

    @classmethod
    def note(cls, it: Selection) -> str:
        return it.array.adding_note if it.array else ""

    def plan(self, arrays: ArraysToPlan) -> Plan:
        return arrays.array(self.array).add(self.disk)


class Replace(OperationAction, MemberAction, frozen=True, kw_only=True, tag="array.replace"):
    """Replace a working member by copying it to another disk; the array keeps its redundancy throughout."""

    words, key, label = "array replace", "e", "Replace"
    wait_help = _WAIT
    tooltip = "Copy the selected member to a free disk, then retire it"
    needs = (_unless_in_sync, partial(_unless_allowed, what="replace"), _unless_redundant, _unless_a_disk_suits)
    effect = "{disk} is copied to {new}; {array} keeps its redundancy throughout."
    long_work = "copy"
    disk: Annotated[
        Name,
        Argument(
            "The disk to replace, such as disk02.", also="--old", is_placed=True, is_needed=True, fills=Fills.DISK
        ),
    ]
    new: FreeDiskName

    def plan(self, arrays: ArraysToPlan) -> Plan:
        return arrays.array(self.array).replace(self.disk, self.new)


def _unless_former_member(it: Selection) -> str:
    was_in = it.member.is_faulty if it.member else it.was_member
    is_possible = it.array and it.array.has_bitmap and was_in
    return "" if is_possible else f"{it.disk_name} is not a former member of an array with a bitmap"


class ReAdd(OperationAction, MemberAction, frozen=True, kw_only=True, tag="array.re-add"):
    """Put a former member back; with a bitmap, only the regions that have changed since it left are copied."""

    words, key, label, in_footer = "array re-add", "r", "Re-add", True
    wait_help = _WAIT
    tooltip = "Put a former member back; the bitmap records what it missed"
    effect = "The bitmap records the regions that changed while it was missing, and only these are copied."
    long_work = "rebuild"
    needs = (_unless_former_member,)

    def plan(self, arrays: ArraysToPlan) -> Plan:
        return arrays.array(self.array).re_add(self.disk)


class Speed(OperationAction, ArrayAction, frozen=True, kw_only=True, tag="array.speed"):
    """Limit the sync speed of one array; without a limit, the system-wide limit applies."""

    words, key, label, in_footer, alias = "array speed", "t", "Throttle", True, "throttle"
    tooltip = "Limit how fast rebuilds and checks run, and see what it does to the load"
    title, picks, is_volatile = "Throttle {array}", "maximum", True
    intro = "How fast may {array} be rebuilt or checked? The load gets the bandwidth that the sync leaves."
    needs = (_unless_redundant,)
    minimum: Annotated[
        str, Argument("Minimum bytes per second for each member, such as 10M; a bare number is in KiB.", option="--min")
    ] = ""
    maximum: Annotated[str, Argument("Maximum bytes per second for each member, such as 200M.", option="--max")] = ""

    @classmethod
    def choices(cls) -> list[Choice]:
        limits = [
            Choice(f"{speed}M", f"{speed} MiB/s", "at most, for each member", str(number))
            for number, speed in enumerate((1, 4, 16, 64), start=1)
        ]
        return [
            *limits,
            Choice("", "No separate limit", "md's defaults: the load comes first, but a sync gets 1 MB/s", "0"),
        ]

    @classmethod
    def chosen(cls, value: str) -> Mapping[str, Any]:
        return {"minimum": value, "maximum": value}

    def __post_init__(self) -> None:
        _kib_per_second(self.minimum)
        _kib_per_second(self.maximum)

    def plan(self, arrays: ArraysToPlan) -> Plan:
        return arrays.array(self.array).speed(
            minimum_kib_per_second=_kib_per_second(self.minimum), maximum_kib_per_second=_kib_per_second(self.maximum)
        )


class ScrubAction(StrEnum):
    """Scrub actions (md(4), SCRUBBING AND MISMATCHES)."""

    CHECK = "check"
    REPAIR = "repair"
    STOP = "stop"


class Scrub(OperationAction, ArrayAction, frozen=True, kw_only=True, tag="array.scrub"):
    """Check or repair a whole array by comparing copies or parity, or stop a running scrub."""

    words, key, label = "array scrub", "s", "Scrub"
    wait_help = _WAIT
    tooltip = "Compare copies or parity everywhere (check), or make them agree (repair)"
    title, picks = "Scrub {array}", "action"
    needs = (_unless_redundant,)
    action: Annotated[ScrubAction, Argument("check, repair or stop.", is_placed=True)] = ScrubAction.CHECK

    @classmethod
    def choices(cls) -> list[Choice]:
        return [
            Choice("check", "Check", "Read everything and count the sectors where copies or parity differ", "c"),
            Choice("repair", "Repair", "Make parity or copies agree with the data as read, right or wrong", "r"),
            Choice("stop", "Stop", "End a running check or repair", "s"),
        ]

    @property
    def waits_for(self) -> str:
        return "" if self.action is ScrubAction.STOP else self.action.value

    def plan(self, arrays: ArraysToPlan) -> Plan:
        return arrays.array(self.array).scrub(self.action)

    def perform(self, session: LabSession) -> object:
        session.run(self.plan(session))
        return session.array(self.array).wait() if self.waits_for else None


class StopArray(OperationAction, ArrayAction, frozen=True, kw_only=True, tag="array.stop"):
    """Stop an array; its data stay on the disks."""

    words, key, label = "array stop", "z", "Stop array"
    tooltip = "Stop the array; its data stay on the disks"
    effect = "The data stay on the disks; Enter on the array starts it again."

    def plan(self, arrays: ArraysToPlan) -> Plan:
        return arrays.array(self.array).stop()


class Destroy(OperationAction, ArrayAction, frozen=True, kw_only=True, tag="array.destroy"):
    """Stop an array and erase its superblocks, so that md no longer finds it."""

    words, key, label = "array destroy", "delete", "Destroy"
    tooltip = "Stop the array and erase its superblocks: md no longer finds it"
    effect = (
        "md will no longer find {array}, and its disks become free. The data stay on them until something "
        "overwrites them, such as the next array."
    )

    def plan(self, arrays: ArraysToPlan) -> Plan:
        return arrays.array(self.array).destroy()


class Assemble(OperationAction, frozen=True, kw_only=True, tag="array.assemble"):
    """Start a stopped array from its members, or every array on the lab's disks that can be started."""

    words = "array assemble"
    array: Annotated[
        NameOrNone, Argument("The array, such as md0; default: all arrays.", also="--name", is_placed=True)
    ] = ""
    force: Annotated[bool, Argument("Also use out-of-date members.")] = False
    disks: Annotated[Names, Argument("Use only these of its disks, such as disk01,disk03; default: all of them.")] = ""

    def __post_init__(self) -> None:
        if (self.force or self.disks) and not self.array:
            option = "--force" if self.force else "--disks"
            raise SpecError(
                f"{option} needs the name of an array", hint="name one: 'raidlab array show' lists the arrays"
            )

    def plan(self, arrays: ArraysToPlan) -> Plan:
        if not self.array:
            return arrays.start_stopped()
        return arrays.array(self.array).assemble(force=self.force, disks=split_words(self.disks))

    def perform(self, session: LabSession) -> object:
        return super().perform(session) if self.array else session.start_all()


class Grow(OperationAction, ArrayAction, frozen=True, kw_only=True, tag="array.grow"):
    """Grow an array: add members, use all space on larger members, or change the level."""

    words = "array grow"
    wait_help = "Wait for the end of the reshape (the default on uml:)."
    long_work = "reshape"
    members: Annotated[
        Names, Argument("The disks to add (such as disk04,disk05), or the new total number of members.")
    ] = ""
    size: Annotated[NameOrNone, Argument("'max' to use all space on each member.")] = ""
    level: Annotated[
        NameOrNone, Argument("raid5 for a raid1 array, or raid6 for a raid5 array (raid6 needs one more disk).")
    ] = ""

    def __post_init__(self) -> None:
        if self.size and (self.size != "max" or self.members or self.level):
            raise SpecError(
                "--size accepts only 'max' and cannot be combined with other options",
                hint="add members or change the level in a separate command",
            )
        if not (self.members or self.size or self.level):
            raise SpecError(
                "nothing to grow: no new size, level or member count given",
                hint="give --members, --size max or --level",
            )
        disk_count(self.members)

    def plan(self, arrays: ArraysToPlan) -> Plan:
        count = disk_count(self.members)
        disks = split_words(self.members) if count is None else []
        return arrays.array(self.array).grow(disks=disks, count=count, level=self.level or None)


class BitmapAction(OperationAction, ArrayAction, frozen=True, kw_only=True, tag="array.bitmap"):
    """Add or remove the write-intent bitmap of a running array."""

    words = "array bitmap"
    bitmap: Annotated[Bitmap, Argument("internal or none.", also="--kind", is_placed=True, is_needed=True)]
    chunk: Annotated[str, Argument("Bytes that one bit covers, such as 64K; mdadm's default is at least 64M.")] = ""

    def __post_init__(self) -> None:
        if self.chunk and self.bitmap is Bitmap.NONE:
            raise ArrayError(
                "a bitmap chunk size was given for an array without a bitmap", hint="omit --chunk, or write 'internal'"
            )
        chunk = bytes_or_none(self.chunk, "chunk")
        if chunk is not None and (problem := bitmap_chunk_problem(chunk)):
            raise ArrayError(problem, hint="use --chunk 64K, for example, or omit it, so that mdadm chooses")

    def plan(self, arrays: ArraysToPlan) -> Plan:
        return arrays.array(self.array).bitmap(self.bitmap, chunk_bytes=bytes_or_none(self.chunk, "chunk"))


class Wait(ArrayAction, frozen=True, kw_only=True, tag="array.wait"):
    """Wait for the end of any resync, rebuild, check or reshape of the array."""

    words = "array wait"

    def perform(self, session: LabSession) -> object:
        array = session.array(self.array)
        session.run(array.awake(array.status()))
        return array.wait()


def _kib_per_second(text: str) -> int | None:
    if not text:
        return None
    # md itself reads and writes a bare number, in KiB per second.
    is_bare = re.fullmatch(r"\d+", text)
    kib = whole(text, "speed") if is_bare else parse_bytes(text, what="speed") // KIB
    return checked(kib, SpeedKibPerSecond, "speed in KiB a second")


def _failing_note(it: Selection) -> str:
    if it.array is None or it.member is None:
        return "It does not belong to an array, so it simply vanishes."
    return it.array.failing_note(it.member, it.disk_name)


class Create(OperationAction, frozen=True, kw_only=True, tag="array.create"):
    """Create an array on blank lab disks."""

    words = "array create"
    wait_help, waits_on_uml = "Wait for the first resync.", False
    long_work = "first resync"
    array: Annotated[
        NameOrNone,
        Argument("The name, such as md0; default: the first free one.", also="--name", is_placed=True, left_out=""),
    ] = "md0"
    level: Annotated[
        Name, Argument("raid0, raid1, raid4, raid5, raid6, raid10; adapt5 or shr for disks of different sizes.")
    ]
    disks: Annotated[
        Names,
        Argument("Disks (such as disk01,disk02) or a number of free disks; default: the minimum, or all for adapt5."),
    ] = ""
    spares: Annotated[Names, Argument("Spares, in the same form as --disks; default: none.")] = ""
    chunk: Annotated[str, Argument("Chunk size, such as 64K; default: 512K, or 128K for adapt5.")] = ""
    layout: Annotated[NameOrNone, Argument("The layout, such as left-symmetric, or f2 for raid10.")] = ""
    bitmap: Annotated[Bitmap | None, Argument("none or internal.")] = None
    bitmap_chunk: Annotated[
        str, Argument("Bytes that one bit covers, such as 64K; mdadm's default is at least 64M.")
    ] = ""
    policy: Annotated[ConsistencyPolicy | None, Argument("resync, ppl or journal.")] = None
    journal: Annotated[NameOrNone, Argument("The disk for --policy journal.")] = ""
    file_system: Annotated[FileSystem, Argument("The file system to create: ext4, xfs or raw.", option="--fs")] = (
        FileSystem.RAW
    )
    assume_clean: Annotated[bool, Argument("Skip the first resync; safe only on blank disks.")] = False
    reference: Annotated[
        DiskCount | None,
        Argument("adapt5: data chunks in a full stripe; default: the number of disks minus one."),
    ] = None
    utilisation: Annotated[
        str, Argument("adapt5: how much of each disk to use, such as 1,1,0.5; default: all of each.")
    ] = ""

    def __post_init__(self) -> None:
        """Raises SpecError for errors that do not depend on the disks."""
        self.spec().validate()

    @property
    def kind(self) -> ArrayKind:
        return kind_of_level(self.level)

    @property
    def names_its_disks(self) -> bool:
        """Whether the disks are known without access to the machine."""
        return bool(self.disks) and disk_count(self.disks) is None and disk_count(self.spares) is None

    def spec(
        self, disks: Sequence[LabDisk] | None = None, free: Sequence[LabDisk] = (), taken: Sequence[str] = ()
    ) -> Spec:
        """Return the array's spec on ``disks``, of which ``free`` are unused; ``taken`` names all existing arrays.

        Without ``disks``, the spec uses placeholders of ample size, so that no error is due to the actual disks.
        Raises SpecError if a disk is unknown, and ArrayError if too few are free or the name is taken.
        """
        require_free_name(self.array, taken)
        shares = _shares(self.utilisation) if self.utilisation else None
        if disks is None:
            fewest = self.kind.member_count(self.level, len(shares or ()) or (self.reference or 0) + 2)
            members = _some_disks(self.disks, max(fewest, self.kind.raid(self.level).minimum_members), "disk")
            spares = _some_disks(self.spares, 0, "spare")
            journal = _some_disks("", 1 if self.journal else 0, "journal")
        else:
            journal = _named_disks(self.journal, disks)
            if len(journal) > 1:
                hint = "name one disk; an array has only one journal"
                raise SpecError(f"'{self.journal}' names {len(journal)} disks", hint=hint)
            words = [text for text in (self.disks, self.spares) if disk_count(text) is None]
            named = [disk for text in words for disk in _named_disks(text, disks)]
            free = [disk for disk in free if disk not in (*named, *journal)]
            members = _chosen_disks(self.disks or str(self.kind.member_count(self.level, len(free))), disks, free)
            rest = [each for each in free if each not in members]
            spares = _chosen_disks(self.spares, disks, rest) if self.spares else []
        asked = ArraySpec(
            level=self.level,
            members=tuple(disk.node for disk in members),
            name=self.array or free_name(self.kind, taken),
            spares=tuple(disk.node for disk in spares),
            chunk_bytes=bytes_or_none(self.chunk, "chunk"),
            layout=self.layout or None,
            bitmap=self.bitmap or (Bitmap.INTERNAL if self.bitmap_chunk else Bitmap.NONE),
            bitmap_chunk_bytes=bytes_or_none(self.bitmap_chunk, "bitmap chunk"),
            consistency_policy=self.policy or (ConsistencyPolicy.JOURNAL if self.journal else ConsistencyPolicy.RESYNC),
            journal_device=journal[0].node if journal else None,
            assume_clean=self.assume_clean,
            reference=self.reference,
            utilisation=shares,
        )
        return self.kind.spec(asked, members)

    def plan(self, arrays: ArraysToPlan) -> Plan:
        return arrays.creation(self.spec(arrays.disks, arrays.free_disks(), arrays.names()), self.file_system)


def _some_disks(words: str, count: int, prefix: str) -> list[LabDisk]:
    """Return a placeholder of ample size for each disk that ``words`` names or requests, or ``count`` if empty."""
    if words:
        asked = disk_count(words)
        count = len(split_words(words)) if asked is None else asked
    names = (f"{prefix}{number}" for number in range(count))
    return [LabDisk(name=name, kind=DiskKind.FILE, node=f"/dev/{name}", size_bytes=1024 * GIB) for name in names]


def _shares(text: str) -> tuple[float, ...]:
    return tuple(checked(real(word, "utilisation"), Share, "utilisation") for word in split_words(text))
