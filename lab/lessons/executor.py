"""Runs the actions of a step in order, in one open lab if they need one.

Gathers the data for ``lab.checks.arrays``, if the lesson has such a check or reading.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from itertools import groupby

from lab.actions.action import Action
from lab.arrays.discovery import MD_HEAD_BYTES, superblocks_in
from lab.arrays.names import kernel_name
from lab.checks.arrays import DEEP_CHECKS, DeepSource, FileSays, FileSystemFills
from lab.checks.faults import APART_FROM_THE_LAB
from lab.checks.readings import ResultCheck
from lab.checks.state import Check, CheckedState, DeepState
from lab.disks.inventory import read_ends, read_heads
from lab.gates.decoding import digits
from lab.lessons.actions import ApartAction
from lab.lessons.engine import StepView
from lab.lessons.ready import ReadyLesson, ReadyStep
from lab.lessons.student import LessonSession, marks_of, require_no_drill
from lab.session.data_mark import read_marks
from lab.session.monitor import Snapshot, events_between, take_snapshot
from lab.session.session import LabSession
from lab.session.versions import require_mdadm

_EXT_SUPERBLOCK = 1024
_EXT_MAGIC = 0xEF53


def asks_for_disks(lesson: ReadyLesson) -> bool:
    """Whether a check or reading of the lesson needs the disks themselves."""
    sources = (step.read.source for step in lesson.steps if step.read)
    checks = (check for step in lesson.steps for check in _all_checks(step))
    return any(isinstance(each, DeepSource) for each in sources) or any(
        isinstance(each, DEEP_CHECKS) for each in checks
    )


def deep_state(lesson: ReadyLesson, session: LabSession, before: Snapshot, after: Snapshot) -> DeepState:
    """Data on the disks now, and counters since ``before``; empty for lessons that do not need them."""
    if not asks_for_disks(lesson):
        return DeepState()
    checks = [check for step in lesson.steps for check in _all_checks(step)]
    names = {disk.node: disk.name for disk in session.disks}
    ends = read_ends(session.machine, list(names), MD_HEAD_BYTES)
    running = {status.name for status in after.arrays}
    paths = {check.path for check in checks if isinstance(check, FileSays)}
    numbers = {name: f"/sys/class/block/{kernel_name(node)}/dev" for node, name in names.items()}
    read = session.machine.read([*paths, *numbers.values()])
    texts = {path: text for path in paths if (text := read[path]) is not None}
    # A read from an array with hanging members would block, so only lessons about file systems read arrays.
    has_systems = any(isinstance(check, FileSystemFills) for check in checks)
    nodes = [f"/dev/{name}" for name in sorted(running) if has_systems]
    array_heads = read_heads(session.machine, nodes, 2 * _EXT_SUPERBLOCK)
    sizes = {node.removeprefix("/dev/"): _ext_bytes(head) for node, head in array_heads.items()}
    superblocks = {names[node]: found for node, found in superblocks_in(ends).items()}
    written = _written_since(session, texts, (found.created_seconds for found in superblocks.values()))
    return DeepState(
        superblocks=superblocks,
        resting=frozenset(array.name for array in session.found.all if array.name not in running),
        marked_before=frozenset(mark.array for mark in read_marks(session).values()),
        read_bytes=_counted(names, before, after),
        waited_seconds={name: _waited(after, name) - _waited(before, name) for name in running},
        file_system_bytes={name: size for name, size in sizes.items() if size is not None},
        minors={name: minor for name, path in numbers.items() if (minor := _minor(read[path])) is not None},
        texts={path: texts[path] for path in written},
    )


def _written_since(session: LabSession, paths: Iterable[str], created_seconds: Iterable[int]) -> list[str]:
    """Those of the files that were written since the newest array was created; none without an array.

    An older file is from an earlier attempt at the lesson.
    """
    newest = max(created_seconds, default=None)
    if newest is None or not (listed := sorted(paths)):
        return []
    times = session.machine.run(("stat", "-c", "%Y %n", "--", *listed), check=False).stdout
    found = (line.partition(" ") for line in times.splitlines())
    return [path for seconds, _, path in found if (digits(seconds) or 0) >= newest]


def _all_checks(step: ReadyStep) -> Iterable[Check]:
    yield from step.checks
    for mistake in step.mistakes:
        yield from mistake.when


def _counted(names: Mapping[str, str], before: Snapshot, after: Snapshot) -> dict[str, int]:
    kernel_names = {name: kernel_name(node) for node, name in names.items()}
    return {
        name: after.disks[kernel].read_bytes - (before.disks[kernel].read_bytes if kernel in before.disks else 0)
        for name, kernel in kernel_names.items()
        if kernel in after.disks
    }


def _waited(look: Snapshot, array: str) -> float:
    counters = look.disks.get(array)
    return counters.read_wait_seconds + counters.write_wait_seconds if counters else 0.0


def _minor(text: str | None) -> int | None:
    return digits((text or "").strip().partition(":")[2])


def _ext_bytes(head: bytes) -> int | None:
    """Size of an ext2, ext3 or ext4 file system in bytes, or None (Documentation/filesystems/ext4/super.rst)."""
    if len(head) < 2 * _EXT_SUPERBLOCK:
        return None
    (blocks,) = struct.unpack_from("<I", head, _EXT_SUPERBLOCK + 4)
    (block_shift,) = struct.unpack_from("<I", head, _EXT_SUPERBLOCK + 24)
    (magic,) = struct.unpack_from("<H", head, _EXT_SUPERBLOCK + 56)
    return blocks << (10 + block_shift) if magic == _EXT_MAGIC and block_shift <= 6 else None


class Watch:
    """Records events while a lab is open, for the checks of the current step."""

    def __init__(self, opened: LessonSession, session: LabSession) -> None:
        self._opened = opened
        self._session = session
        self._before: Snapshot = take_snapshot(session)

    def checked_state(self) -> CheckedState:
        """The current state, and the events since the lab was opened."""
        session, after = self._session, take_snapshot(self._session)
        events = events_between(self._before, after)
        state = self._opened.checked_state(
            after, session.disks, marks=marks_of(session, after.arrays), events=events, since=self._before
        )
        return replace(state, deep=deep_state(self._opened.lesson, session, self._before, after))

    def look(self) -> StepView | None:
        """Evaluate the current step on the current state."""
        return self._opened.look(self.checked_state())


def carry_out(
    actions: Sequence[Action],
    opened: LessonSession,
    *,
    opener: Callable[[], AbstractContextManager[LabSession]],
    run_apart: Callable[[ApartAction], None],
    before_action: Callable[[Action], None] = lambda _: None,
) -> StepView | None:
    """Run all actions, and evaluate the step at the end, before the lab is closed if one was needed.

    Some actions need a separate lab, which some machines provide only while this one is closed.
    """
    view = None
    for is_apart, group in groupby(actions, key=lambda action: isinstance(action, ApartAction)):
        if is_apart:
            for action in group:
                if isinstance(action, ApartAction):
                    before_action(action)
                    run_apart(action)
            opened.find_results()
            view = None
            continue
        with opener() as session:
            require_no_drill(session, opened.lesson)
            require_mdadm(session.machine, opened.lesson.needs_mdadm, f"lesson {opened.lesson.id}")
            watch = Watch(opened, session)
            for action in group:
                before_action(action)
                action.perform(session)
            view = watch.look()
    return view or look_once_more(opened, opener)


def look_once_more(opened: LessonSession, opener: Callable[[], AbstractContextManager[LabSession]]) -> StepView | None:
    """Evaluate the current step; the lab is opened only if a check needs it."""
    step = opened.step
    if step is None:
        return None
    if not needs_lab(step):
        return opened.look(opened.state_apart)
    with opener() as session:
        require_no_drill(session, opened.lesson)
        return Watch(opened, session).look()


def needs_lab(step: ReadyStep) -> bool:
    """Whether a check of the step, or its reading, needs arrays, disks or data."""
    readings = (step.read, *(mistake.typed for mistake in step.mistakes))
    if any(reading is not None and reading.source.needs_lab for reading in readings):
        return True
    checks = (*step.checks, *(check for mistake in step.mistakes for check in mistake.when))
    return any(not isinstance(check, (ResultCheck, *APART_FROM_THE_LAB)) for check in checks)
