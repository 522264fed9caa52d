"""Actions on the selected disk and array, the array that the user composes, and the next step for a new user."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from rich.style import Style

from lab.actions import ACTIONS
from lab.actions.action import Action, Choice, PlanAction, Selection
from lab.actions.arrays import Assemble, Create, Load, Scrub, ScrubAction, StopLoad, VerifyMark, Wait, WriteMark
from lab.arrays.array import ArrayKind
from lab.arrays.filesystem import FileSystem
from lab.arrays.kinds import free_name, kind_of_level, kinds
from lab.arrays.levels import Level, LevelName, layout_words
from lab.arrays.spec import ArrayPreview, ArraySpec, Bitmap, ConsistencyPolicy, Spec
from lab.arrays.status import ArrayState, ArrayStatus, MemberStatus
from lab.disks import DiskKind, DiskSpec, LabDisk
from lab.disks.lab import lab_folder
from lab.machine import parse_target
from lab.plans import Plan
from lab.session.session import LARGER_COUNT, LabSession, add_to_list, larger_bytes, larger_line, new_specs
from lab.units import KIB, MIB, counted, human_bytes
from tui.client import LabClient
from tui.frontend import Frontend
from tui.look import Tone
from tui.state import LabState, MachinePhase, condition, purpose
from tui.widgets import ChoiceRow, Line, RowsWidget

Done = Callable[[tuple[str, ...]], None]


def larger_command(state: LabState) -> str:
    """Return the command line that adds two larger disks to the lab."""
    return larger_line(state.disks, is_embedded=_is_embedded(state))


def ask_for_larger(frontend: Frontend, on_done: Done = lambda _: None) -> None:
    """Ask for confirmation, then add two larger disks. ``on_done`` gets their names, possibly before the disks exist.

    An embedded kernel is restarted for this, and its arrays are then reassembled.
    """
    state, size = frontend.lab, larger_bytes(frontend.lab.disks)
    how = (
        "The machine restarts for this; arrays and their data remain, but a running load ends."
        if _is_embedded(state)
        else "They are loop devices, available immediately."
    )
    choices = [
        Choice("add", "Add them", larger_command(state), "a"),
        Choice("leave", "Cancel", "nothing is changed", "l"),
    ]

    def added(names: tuple[str, ...]) -> None:
        frontend.show_message(f"{' and '.join(names)} of {human_bytes(size)} were added to the lab.")
        on_done(names)

    def then(chosen: str) -> None:
        if chosen != "add":
            return
        if _is_embedded(state):
            frontend.beside("Two larger disks", lambda: _add_to_list(frontend.client, size), on_done=added)
        else:
            frontend.job("Two larger disks", lambda session: _attach(session, size), on_done=added)

    title = f"Two disks of {human_bytes(size)}"
    frontend.pick(title, choices, then, intro=f"Two larger disks are added to the lab. {how}")


def _is_embedded(state: LabState) -> bool:
    return state.facts is not None and state.facts.is_embedded


def _attach(session: LabSession, size_bytes: int) -> tuple[str, ...]:
    taken = [disk.name for disk in session.disks]
    made = session.lab.attach(
        new_specs(taken, DiskSpec(name="", kind=DiskKind.LOOP, size_bytes=size_bytes), LARGER_COUNT)
    )
    session.rescan()
    return tuple(disk.name for disk in made)


def _add_to_list(client: LabClient, size_bytes: int) -> tuple[str, ...]:
    """Add the disks to an embedded lab's list while the lab is closed. This must not run on the lab's thread."""
    name = parse_target(client.target or "uml:").lab_name
    with client.released(), lab_folder(client.host.state, name) as folder:
        return add_to_list(folder, DiskSpec(name="", kind=DiskKind.FILE, size_bytes=size_bytes), LARGER_COUNT)


KEY_ACTIONS = tuple(each for each in ACTIONS if each.key)
FIRST_ARRAY_NOTE = (
    "Four disks: three disks' worth of data, one disk's worth of parity, spread over all four. Once the first sync is "
    "done, any one disk may fail without data loss. The other disks stay free, to replace the one that you will break."
)


def action_id(kind: type[Action]) -> str:
    """Return the id of an action's key in keymaps, which does not change between releases."""
    return f"lab.{kind.short_name()}"


def selected_disk(state: LabState) -> LabDisk | None:
    """Return the disk under the rack's cursor, or None."""
    return state.disk(state.selected_disk or "")


def selected_member(state: LabState) -> tuple[ArrayStatus, MemberStatus] | None:
    """Return the running array that the selected disk is a member of, with the member, or None if there is none."""
    return state.member_of(state.selected_disk or "")


def target_array(state: LabState) -> ArrayStatus | None:
    """Return the array that the selected disk is a member of, else the selected array."""
    found = selected_member(state)
    return found[0] if found else state.selected


def joining_disk(state: LabState) -> LabDisk | None:
    """Return the selected disk if it is free, else one that suits the array, or None if no disk can be added."""
    free, status = state.free_disks, target_array(state)
    chosen = next((disk for disk in free if disk.name == state.selected_disk), None)
    return status.disk_to_add(free, chosen, state.disks) if status else chosen or next(iter(free), None)


def selection_of(state: LabState) -> Selection:
    """Return the selection to which actions apply. It determines which actions are possible."""
    found, disk, array = selected_member(state), selected_disk(state), target_array(state)
    known = state.found.array(array.name) if state.found and array else None
    resting = next(iter(state.resting_arrays), None)
    return Selection(
        is_open=state.is_open,
        array=array,
        disk=disk,
        member=found[1] if found else None,
        free_disk=joining_disk(state),
        is_pulled=bool(disk and state.snapshot and disk.kernel_name in state.snapshot.vanished),
        was_member=bool(disk and known and disk.node in known.former_devices),
        has_known_data=bool(array and array.name in state.marks),
        has_load=state.running_load is not None,
        stopped_array=resting.name if resting else "",
    )


def applying(state: LabState) -> tuple[type[Action], ...]:
    """Return the actions that are possible for the current selection."""
    selection = selection_of(state)
    return tuple(each for each in KEY_ACTIONS if not each.obstacle(selection))


def choose(frontend: Frontend, kind: type[Action], it: Selection) -> None:
    """Show the menu of an action that has a choice, and perform the action with the chosen value."""
    frontend.pick(
        it.filled(kind.title),
        kind.choices(),
        lambda value: do(frontend, kind.on_selection(it, **kind.chosen(value))),
        intro=it.filled(kind.intro),
    )


def do(frontend: Frontend, action: Action) -> None:
    """Perform an action that needs no confirmation."""
    match action:
        case Load():
            frontend.loads.start(action.array, action.workload)
        case StopLoad():
            frontend.loads.stop()
        case WriteMark():
            frontend.marks.write(action.array)
        case VerifyMark():
            frontend.marks.verify(action.array)
        case Wait():
            frontend.show_message(waiting_words(frontend.lab, action.array))
        case PlanAction():
            if isinstance(action, Scrub) and action.action is ScrubAction.STOP:
                frontend.leave_volume(action.array)
            frontend.make_and_run(action.plan)
        case _:
            raise AssertionError(f"the app cannot perform {action}")


def waiting_words(state: LabState, name: str) -> str:
    """Say what ``array wait`` would wait for. The app does not wait, but reports the end of each sync."""
    status = state.array(name)
    if status is None:
        return f"{name} is not running."
    busy = status.sync_action.noun if status.sync_action.is_busy else ""
    return f"{name}: the end of its {busy} will be reported." if busy else f"{name} is idle."


def build(frontend: Frontend) -> None:
    """Offer a plan for the first array, or open the Build screen if there are arrays or too few blank disks."""
    if not frontend.lab.arrays and len(frontend.lab.blank_disks) >= FIRST_MEMBERS:
        frontend.ask(first_array, note=FIRST_ARRAY_NOTE)
    else:
        frontend.choose_freely()


def start_array(frontend: Frontend, name: str) -> None:
    """Show the plan that assembles a stopped array."""
    frontend.ask(Assemble(array=name).plan)


def first_array(session: LabSession) -> Plan:
    """Plan a RAID 5 on the first ``FIRST_MEMBERS`` free disks, with a bitmap chunk that suits small disks."""
    return Create(
        array="",
        level="raid5",
        disks=",".join(disk.name for disk in session.free_disks()[:FIRST_MEMBERS]),
        chunk="64K",
        bitmap=Bitmap.INTERNAL,
        bitmap_chunk="256K",
    ).plan(session)


_TITLES = ("level", "usable", "survives", "small write")
_NARROW_TITLES = ("level", "usable", "survives", "write")
_GAP_CELLS, _NARROW_GAP_CELLS = 3, 1


@dataclass(frozen=True, slots=True)
class LevelRow:
    """A row of the table as text. If the array cannot be built, ``usable`` is a dash."""

    level: str
    usable: str
    survives: str
    small_write: str
    is_current: bool = False


class LevelTable(RowsWidget[LevelRow]):
    """A table with one level per line. A colour and a character mark the current one."""

    HIDES_WHEN_EMPTY = False

    titles: tuple[str, str, str, str] = _TITLES
    narrow_titles: tuple[str, str, str, str] = _NARROW_TITLES
    """The titles of the columns on a wide and on a narrow screen. Both must be set before ``show``."""

    def paint(self, width: int, height: int) -> list[Line]:
        if not self._rows:
            return []
        cells = [(row.level, row.usable, row.survives, row.small_write) for row in self._rows]
        titles, gap = self.titles, _GAP_CELLS
        widths = _widths([titles, *cells])
        if 2 + sum(widths) + gap * (len(titles) - 1) > width:
            titles, gap = self.narrow_titles, _NARROW_GAP_CELLS
            widths = _widths([titles, *cells])
        lines = [self._line(width, " ", titles, widths, self.style("title"), gap)]
        for row, words in zip(self._rows, cells, strict=True):
            style = self.style("current" if row.is_current else "row")
            sign = self.glyphs.cursor if row.is_current else " "
            lines.append(self._line(width, sign, words, widths, style, gap))
        return lines

    def _line(self, width: int, sign: str, words: Sequence[str], widths: Sequence[int], style: Style, gap: int) -> Line:
        """Return a line of the table, preceded by ``sign``. Only the second column is right-aligned."""
        line = self.line(width).add(f"{sign} ", style)
        for column, (text, cells) in enumerate(zip(words, widths, strict=True)):
            line.add(text.rjust(cells) if column == 1 else text.ljust(cells), style).add(" " * gap)
        return line


def _widths(rows: Sequence[Sequence[str]]) -> list[int]:
    return [max(map(len, column)) for column in zip(*rows, strict=True)]


def level_rows(draft: Draft, disks: Sequence[LabDisk], *, has_current: bool = True) -> list[LevelRow]:
    """Return one row per level with the disks of the draft. Levels for unequal disks appear only if sizes differ."""
    by_name = {disk.name: disk for disk in disks}
    chosen = [by_name[name] for name in draft.disks if name in by_name]
    levels = [level for level in LEVELS if kind_of_level(level).suits(chosen)]
    rows = []
    for level in levels:
        other = replace(draft, level=level)
        shown = other.spec(other.kind.name(0), disks).preview(disks, other.file_system, has_plan=False)
        rows.append(
            LevelRow(
                title_of(level),
                human_bytes(shown.usable_bytes) if shown.usable_bytes else "–",
                survives_words(shown) if shown.usable_bytes else "needs more disks",
                shown.write_penalty.partition(":")[0] if shown.usable_bytes else "",
                has_current and level == draft.level,
            )
        )
    return rows


SYSTEM_TITLES = ("system", "usable", "of all", "full writes read")
NARROW_SYSTEM_TITLES = ("system", "usable", "of all", "reads")


def system_rows(shown: ArrayPreview, level: str) -> list[LevelRow]:
    """Return one row per system for unequal disks. All rows are for the same disks. ``level`` is the chosen system."""
    rows = []
    for each in shown.systems:
        usable = human_bytes(each.capacity_bytes) if each.capacity_bytes else "–"
        share = f"{100 * each.capacity_bytes / shown.raw_bytes:.0f} %" if each.capacity_bytes else "not possible"
        reads = each.reads_words if each.capacity_bytes else ""
        rows.append(LevelRow(title_of(each.system), usable, share, reads, each.system == level))
    return rows


def survives_words(shown: ArrayPreview) -> str:
    """Return how many failed disks the array survives, such as ``1 disk``, ``1 to 2 disks`` or ``0 disks``."""
    low, high = shown.failures_survived, shown.most_failures_survived
    return f"{low} to {counted(high, 'disk')}" if high > low else counted(low, "disk")


LEVELS = tuple(level for kind in kinds() for level in kind.levels if level != LevelName.SINGLE)
_SYSTEM_TITLES = {"adapt5": "AdaptRaid5", "shr": "SHR", "onlyfast": "largest alone"}
_IDEAS = {
    LevelName.RAID0: "stripes, no redundancy",
    LevelName.RAID1: "every disk the same",
    LevelName.RAID4: "stripes, one parity disk",
    LevelName.RAID5: "stripes, parity rotates",
    LevelName.RAID6: "stripes, two parities",
    LevelName.RAID10: "stripes of mirrors",
    "adapt5": "disks of different sizes",
    "shr": "the same, in plain tiers",
}
_CHUNKS = tuple(size * KIB for size in (4, 16, 64, 128, 256, 512, 1024))
_BITMAP_CHUNKS = {"64 KiB": 64 * KIB, "1 MiB": MIB, "64 MiB": 64 * MIB}
_COPIES = {"n2": "near 2", "n3": "near 3", "f2": "far 2", "o2": "offset 2"}
_NONE = "none"
_INTERNAL = "internal"
_PPL = "partial parity log"
_MOST_SPARES = 2
FIRST_MEMBERS = 4
"""The number of disks that are chosen at first, and of members in the first array."""


def next_array_name(state: LabState, draft: Draft) -> str:
    """Return the first free name for a new array."""
    taken = [status.name for status in state.arrays]
    taken += [array.name for array in state.found.all] if state.found else []
    return free_name(draft.kind, taken)


def title_of(level: str) -> str:
    """Return the title of a level, such as ``RAID 5``, or of a system for unequal disks."""
    return _SYSTEM_TITLES.get(level) or level.replace("raid", "RAID ")


@dataclass(frozen=True, slots=True)
class Draft:
    """All choices of the form. A choice that has no effect at the current level is kept for other levels."""

    level: str = LevelName.RAID5
    disks: tuple[str, ...] = ()
    """The names of the chosen disks, of which the last ``spares`` are spares."""
    spares: int = 0
    chunks: tuple[tuple[int, int], ...] = ()
    """(default chunk of a kind of array, chosen chunk) in bytes, for each kind whose chunk was chosen."""
    rotation: str = ""
    """The layout of RAID 5 and 6; empty for the first layout of the level."""
    copies: str = "n2"
    """The layout of RAID 10, which is a key of ``_COPIES``."""
    bitmap: str = _NONE
    file_system: FileSystem = FileSystem.RAW
    reference: int | None = None
    """Number of data chunks in a full stripe, which some kinds let users choose. None stands for members minus one."""

    @property
    def kind(self) -> ArrayKind:
        return kind_of_level(self.level)

    @property
    def options(self) -> frozenset[str]:
        """The fields of ``ArraySpec`` that can be set at this level."""
        return self.kind.options(self.level)

    @property
    def raid(self) -> Level:
        return self.kind.raid(self.level)

    @property
    def chunk_bytes(self) -> int:
        """The chosen chunk size, or the default of this kind of array. It has no effect at levels without chunks."""
        default = self.kind.default_chunk_bytes
        return dict(self.chunks).get(default, default)

    @property
    def layout(self) -> str | None:
        """The layout's name, or None if the level has only one."""
        words = self._layouts
        if self.level == LevelName.RAID10:
            return self.copies
        return (self.rotation if self.rotation in words else words[0]) if words else None

    @property
    def _layouts(self) -> tuple[str, ...]:
        return layout_words(self.raid.name) if "layout" in self.options else ()

    @property
    def spare_count(self) -> int:
        """The number of spares, which is 0 for levels without redundancy and for kinds without spares."""
        return min(self.spares, len(self.disks)) if self.raid.is_redundant and "spares" in self.options else 0

    @property
    def members(self) -> tuple[str, ...]:
        return self.disks[: len(self.disks) - self.spare_count]

    @property
    def spare_disks(self) -> tuple[str, ...]:
        return self.disks[len(self.members) :]

    def role(self, disk: str) -> str:
        """Return the role of a chosen disk, such as ``slot 0`` or ``spare``, or "" for other disks."""
        if disk in self.members:
            return f"slot {self.members.index(disk)}"
        return "spare" if disk in self.disks else ""

    def spec(self, name: str, disks: Sequence[LabDisk]) -> Spec:
        by_name = {disk.name: disk for disk in disks}
        members = tuple(by_name[disk].node for disk in self.members if disk in by_name)
        has_ppl = self.bitmap == _PPL and self.level == LevelName.RAID5
        chunk = _BITMAP_CHUNKS.get(self.bitmap) if "bitmap_chunk_bytes" in self.options else None
        reference = self.reference if "reference" in self.options else None
        has_bitmap = self.raid.is_redundant and bool(chunk or self._bitmap == _INTERNAL)
        return self.kind.spec(
            ArraySpec(
                level=self.level,
                members=members,
                name=name,
                spares=tuple(by_name[disk].node for disk in self.spare_disks if disk in by_name),
                chunk_bytes=self.chunk_bytes if self.raid.has_chunk else None,
                layout=self.layout,
                bitmap=Bitmap.INTERNAL if has_bitmap else Bitmap.NONE,
                bitmap_chunk_bytes=chunk if has_bitmap else None,
                consistency_policy=ConsistencyPolicy.PPL if has_ppl else ConsistencyPolicy.RESYNC,
                reference=reference if (reference or 0) < len(members) else None,
            ),
            disks,
        )

    def rows(self) -> tuple[ChoiceRow, ...]:
        file_system = _NONE if self.file_system is FileSystem.RAW else self.file_system.value
        return (
            ChoiceRow("level", "Level", tuple(map(title_of, LEVELS)), title_of(self.level), _IDEAS.get(self.level, "")),
            self._chunk_row(),
            self._layout_row(),
            self._bitmap_row(),
            self._spares_row(),
            ChoiceRow("file_system", "File system", (_NONE, "ext4", "xfs"), file_system),
        )

    def _chunk_row(self) -> ChoiceRow:
        if not self.raid.has_chunk:
            return ChoiceRow("chunk", "Chunk", note=f"{title_of(self.level)} has none")
        return ChoiceRow("chunk", "Chunk", tuple(map(human_bytes, _CHUNKS)), human_bytes(self.chunk_bytes))

    def _layout_row(self) -> ChoiceRow:
        if "reference" in self.options:
            return self._reference_row()
        if "layout" not in self.options:
            return ChoiceRow("layout", "Layout", note="fixed for each tier")
        if self.level == LevelName.RAID10:
            return ChoiceRow("layout", "Layout", tuple(_COPIES.values()), _COPIES[self.copies])
        if not self._layouts:
            return ChoiceRow("layout", "Layout", note="only one")
        return ChoiceRow("layout", "Layout", self._layouts, self.layout or "")

    def _reference_row(self) -> ChoiceRow:
        widest = len(self.members) - 1
        if widest < 2:
            return ChoiceRow("reference", "Full stripe", note="needs 3 disks")
        current = self.reference if self.reference and self.reference <= widest else widest
        widths = tuple(counted(chunks, "chunk") for chunks in range(widest, 0, -1))
        return ChoiceRow("reference", "Full stripe", widths, counted(current, "chunk"), "of data")

    @property
    def _bitmaps(self) -> tuple[str, ...]:
        if "bitmap_chunk_bytes" not in self.options:
            return (_NONE, _INTERNAL)
        return (_NONE, *_BITMAP_CHUNKS, *((_PPL,) if self.level == LevelName.RAID5 else ()))

    @property
    def _bitmap(self) -> str:
        return self.bitmap if self.bitmap in self._bitmaps else _NONE

    def _bitmap_row(self) -> ChoiceRow:
        if not self.raid.is_redundant:
            return ChoiceRow("bitmap", "Bitmap", note="no redundancy")
        return ChoiceRow("bitmap", "Bitmap", self._bitmaps, self._bitmap)

    def _spares_row(self) -> ChoiceRow:
        if not self.raid.is_redundant:
            return ChoiceRow("spares", "Spares", note="no redundancy")
        if "spares" not in self.options:
            return ChoiceRow("spares", "Spares", note="none: add one later")
        note = "the last of the chosen disks" if self.spare_count else ""
        return ChoiceRow("spares", "Spares", tuple(map(str, range(_MOST_SPARES + 1))), str(self.spare_count), note)

    def changed(self, key: str, value: str) -> Draft:
        """Return a copy in which one row has a new value. The value is text in the form that the row shows."""
        match key:
            case "level":
                return replace(self, level=next(level for level in LEVELS if title_of(level) == value))
            case "chunk":
                size = next(size for size in _CHUNKS if human_bytes(size) == value)
                chosen = {**dict(self.chunks), self.kind.default_chunk_bytes: size}
                return replace(self, chunks=tuple(chosen.items()))
            case "reference":
                members = int(value.split()[0])
                return replace(self, reference=None if members == len(self.members) - 1 else members)
            case "layout" if self.level == LevelName.RAID10:
                return replace(self, copies=next(word for word, title in _COPIES.items() if title == value))
            case "layout":
                return replace(self, rotation=value)
            case "bitmap":
                return replace(self, bitmap=value)
            case "spares":
                return replace(self, spares=int(value))
            case _:
                return replace(self, file_system=FileSystem.RAW if value == _NONE else FileSystem(value))

    def with_disks(self, disks: Sequence[str]) -> Draft:
        return replace(self, disks=tuple(disks))


_SYNC_WORDS = {
    "resync": "is being resynced",
    "recover": "is being rebuilt",
    "check": "is being checked",
    "repair": "is being repaired",
    "reshape": "is being reshaped",
}


def next_step(state: LabState) -> str:
    """Return what the user can do now, as a line of at most 76 characters, with markup that makes keys bold."""
    if state.phase is MachinePhase.OPENING:
        return "The machine is starting. [b]F1[/b] explains the screen."
    if state.phase is not MachinePhase.OPEN:
        return "[b]Ctrl+R[/b] restarts the machine. Stored results are not affected."
    if state.snapshot is None:
        return "Looking for arrays …"
    status = state.selected
    resting = state.resting_arrays
    if status is None and resting and all(each.obstacle for each in resting):
        return f"{resting[0].name} cannot be started: the list says why. [b]2[/b] builds another array."
    if status is None and resting:
        able = next(each for each in resting if not each.obstacle)
        return f"{able.name} is stopped; its data are on its disks. [b]Tab[/b] selects, [b]Enter[/b] starts it."
    if status is None:
        return "No array yet. [b]b[/b] creates a RAID 5 to start with; [b]2[/b] offers all choices."
    load = state.running_load
    if load and load.phase == "preparing":
        return f"{load.workload} first writes the data that it will read."
    return _about(state, status)


def _about(state: LabState, status: ArrayStatus) -> str:
    name = status.name
    has_load = state.running_load is not None
    if condition(state, status)[0] is Tone.BAD:
        return f"{name} has lost too many disks. [b]Del[/b] removes it; then create a new one."
    if name in state.first_syncs:
        return f"New: md {purpose(status)}. The array can be used: [b]m[/b] or [b]w[/b]."
    if status.sync_action.is_busy:
        activity = _SYNC_WORDS.get(str(status.sync_action), "is busy")
        more = "[b]t[/b] slows it down." if has_load else "[b]w[/b] starts a load on it."
        return f"{name} {activity}. {more}"
    mark = state.marks.get(name)
    if status.is_degraded:
        return _degraded(state, status)
    if not status.is_redundant:
        return f"{name} has no redundancy: one failed disk loses data. [b]w[/b] starts a load."
    if mark is None:
        return f"[b]m[/b] writes known data to {name}, to verify later that nothing was lost."
    if mark.verdict and mark.is_stale:
        return f"{name} has changed since the last check. [b]v[/b] verifies its data again."
    if mark.verdict and mark.verdict.is_intact and _was_broken(state):
        if not has_load:
            return "Done: the data are intact. Try RAID 6 with [b]2[/b], or fail two disks."
        return "The data are intact, under load. [b]w[/b] stops the load and shows its figures."
    if mark.verdict and not mark.verdict.is_intact:
        return "The data have changed. [b]s[/b] scrubs to find where, but not on which disk."
    if not has_load:
        return f"[b]w[/b] starts a load on {name}; then fail a disk with [b]f[/b]."
    return f"{name} is running. Select one of its disks and press [b]f[/b] to fail it."


def _was_broken(state: LabState) -> bool:
    return any(event.kind.value in ("member-faulty", "disk-vanished") for event in state.events)


def _degraded(state: LabState, status: ArrayStatus) -> str:
    name, disk = status.name, joining_disk(state)
    if disk and status.is_interrupted:
        return f"The rebuild of {name} on {disk.name} is interrupted. [b]a[/b] resumes it."
    if status.awaits_rebuild and status.state is ArrayState.READ_AUTO:
        # md(4), start_ro: an assembled array does not start a resync or rebuild before its first write.
        return f"{name} starts to rebuild at its first write: [b]m[/b] writes known data."
    if status.awaits_rebuild:
        return f"{name} lacks a member and has a spare: the rebuild is about to start."
    if disk:
        return f"{name} is degraded and still works. [b]a[/b] adds {disk.name}, and md rebuilds."
    fault = next((member for member in status.members if member.is_faulty), None)
    why = "No free disk is large enough" if state.free_disks else f"{name} is degraded"
    if fault:
        return f"{why}. [b]x[/b] removes {state.disk_name(fault.device)}, then [b]a[/b] adds it again."
    if state.free_disks:
        return f"{name} is degraded, and no free disk is large enough."
    return f"{name} is degraded and no disk is free: 'raidlab disks add' creates more."
