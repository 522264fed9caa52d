"""The verdict of a drill: the share of the data that the oracle finds again, and the state of the array.

Arrays that a student created or repaired and that are not running are started first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from lab.arrays.status import ArrayStatus
from lab.checks.state import CheckedState, DrillEnd, MemberPicture, all_hold, look_at_members
from lab.drills.case import CHANGED_FILE, OUTCOME_VERSION, DrillOutcome, DrillStore, EndedMistake, ended
from lab.drills.desk import PLACE, DiskTruth, DrillDesk, run_lines
from lab.drills.schema import ReadyDrill, file_digest
from lab.errors import CommandFailed, DrillError, LabError
from lab.faults.guest.ledger import ALLOWED
from lab.faults.oracle import Oracle
from lab.gates.decoding import digits
from lab.gates.text import shortened, visible
from lab.host.clock import utc_text
from lab.lessons.course import words_in
from lab.session.session import LabSession

_SECONDS = 30.0
_FIRST_NUMBER = 90
_LONGEST = 300


def start_what_was_repaired(desk: DrillDesk, has_data: Callable[[str], bool]) -> str:
    """Start an array with changed superblocks, if no running array ``has_data``.

    Arrays on overlays that still exist count too. Returns mdadm's messages if no array with the data could be started.
    """
    session = desk.session
    session.rescan()
    if any(has_data(status.name) for status in session.statuses()):
        return ""
    said: list[str] = []
    written = _written(desk.case.record.before, look_at_members(session.machine, desk.disks))
    if written:
        _stop_inactive(session)
    for number, uuid in enumerate(written, _FIRST_NUMBER):
        name = f"md{number}"
        argv = ("mdadm", "--assemble", "--readonly", "--run", f"/dev/{name}", f"--uuid={uuid}")
        result = session.machine.run(argv, check=False, timeout_seconds=_SECONDS)
        session.rescan()
        if any(has_data(status.name) for status in session.statuses()):
            session.machine.run(("mdadm", "--readwrite", f"/dev/{name}"), check=False, timeout_seconds=_SECONDS)
            return ""
        said.append(" ".join(result.stderr.split())[-_LONGEST:])
        session.machine.run(("mdadm", "--stop", f"/dev/{name}"), check=False, timeout_seconds=_SECONDS)
    session.rescan()
    return "; ".join(line for line in said if line)


def settle(desk: DrillDesk, name: str) -> None:
    """Wait for a running rebuild, for half a minute at most."""
    try:
        run_lines(desk.session, f"settle /dev/{name}", {})
    except CommandFailed:
        # There is no wait for an array that no longer exists.
        return


def _written(before: Mapping[str, MemberPicture], now: Mapping[str, MemberPicture]) -> list[str]:
    """UUIDs of arrays with a superblock that has changed since the drill began, without duplicates."""
    changed = [picture for name, picture in now.items() if picture.has_superblock and picture != before.get(name)]
    return list(dict.fromkeys(picture.uuid for picture in changed))


def _stop_inactive(session: LabSession) -> None:
    """Stop inactive arrays: they hold their disks, and cannot contain data in use."""
    text = session.machine.read(["/proc/mdstat"])["/proc/mdstat"] or ""
    for name in re.findall(r"^(md\S*) : inactive", text, re.MULTILINE):
        session.machine.run(("mdadm", "--stop", f"/dev/{name}"), check=False, timeout_seconds=_SECONDS)


_NOTHING_RUNS = "no running array has the drill's files, and they can still be recovered"
_START_FIRST = "start the array first; 'debrief --as-it-is' ends the drill without it"
_LONGEST_FOUND = 200
MISSING = "missing"
"""Verdict on blocks of a file that does not exist."""
_SCRUB = """
cd "/sys/block/$1/md"
# md takes the word of a read-only array, and does nothing; whether it was started so is no matter of the goal.
[ "$(cat array_state)" != readonly ] || mdadm --readwrite "/dev/$1" || exit 1
for try in $(seq 500); do [ "$(cat sync_action)" = idle ] && break; sleep 0.1; done
echo check > sync_action || exit 1
mdadm --wait "/dev/$1" || true
for try in $(seq 500); do [ "$(cat sync_action)" = idle ] && break; sleep 0.1; done
[ "$(cat sync_action)" = idle ] && cat mismatch_cnt
"""


class DrillVerdict(StrEnum):
    """Verdicts, the best first."""

    SAVED = "saved"
    """All data that could be saved are saved, the array meets the goal, and nothing was written before the commit."""
    RISKED = "saved, at risk"
    """As ``SAVED``, but the disks themselves were written before the commit."""
    UNFINISHED = "saved, unfinished"
    """The data are saved, but the array does not meet the goal."""
    STOPPED = "not recovered"
    """Some data that could be saved are not, but all of them can still be recovered from the disks."""
    PARTLY = "partly lost"
    """Data that could have been saved are destroyed."""
    LOST = "lost"
    """All data are destroyed: nothing can be recovered from the disks."""


class NothingRuns(DrillError):
    """No running array has the data, but they can still be recovered: ending the drill then requires confirmation."""


@dataclass(frozen=True, slots=True)
class _Saved:
    array: ArrayStatus | None
    members: tuple[str, ...]
    blocks: dict[str, int]
    percent: float
    missing: tuple[str, ...]
    is_on_overlays: bool = False
    """Some members do not survive a restart of the machine."""


def end_drill(desk: DrillDesk, array: str = "", *, is_final: bool = True) -> DrillOutcome:
    """Judge the drill, store the outcome, and end the drill. Raises ResultError; then the drill is still open.

    Raises NothingRuns if not ``is_final``, no running array has the data, and they can still be recovered.
    """
    store = DrillStore(desk.session.host)
    found = look_at_all(desk, array)
    if not is_final and not found.saved.array and found.verdict is DrillVerdict.STOPPED:
        raise NothingRuns(f"{_NOTHING_RUNS}{f' ({found.said})' if found.said else ''}", hint=_START_FIRST)
    outcome = store.keep(desk.case.drill.id, lambda outcome_id: _outcome(desk, found, outcome_id))
    desk.close()
    return outcome


def judge(desk: DrillDesk, array: str = "", *, outcome_id: str) -> DrillOutcome:
    """Judge the drill without ending it. ``array``: the name of the array; empty: it is found by its file system."""
    return _outcome(desk, look_at_all(desk, array), outcome_id)


@dataclass(frozen=True, slots=True)
class FoundEnd:
    """The final state of a drill."""

    verdict: DrillVerdict
    saved: _Saved
    truth: DiskTruth | None
    seen: DrillEnd
    said: str
    """mdadm's messages about arrays that could not be started."""
    changed_bytes: int

    @property
    def kept_percent(self) -> float | None:
        return _kept(self.saved, self.truth)


def look_at_all(desk: DrillDesk, array: str) -> FoundEnd:
    """Examine the disks as the student left them, then start what can be started, and read the data."""
    desk.look(is_last=True)
    changed = desk.changed()
    changed_bytes = desk.beyond_own(changed)
    if not desk.case.is_committed:
        desk.case.change(touched_bytes=max(desk.case.record.touched_bytes, changed_bytes))
    record = desk.case.record
    after = look_at_members(desk.session.machine, desk.disks)
    truth = desk.truth()
    said = start_what_was_repaired(desk, lambda name: _is_wanted(desk, name, array))
    saved = _look_at_data(desk, array)
    seen = DrillEnd(
        before=record.before,
        after=after,
        changed=changed,
        saved_percent=saved.percent,
        touched_bytes=record.touched_bytes,
        has_array=saved.array is not None,
        members=saved.members,
        is_on_overlays=saved.is_on_overlays,
        damaged_data=truth.damaged_data if truth else 0,
        damaged_parity=truth.damaged_parity if truth else 0,
        data_uuid=truth.uuid if truth else "",
    )
    verdict = verdict_of(
        saved.percent,
        _kept(saved, truth),
        lost_percent=desk.case.drill.drill.goal.lost_percent,
        is_as_asked=not saved.missing,
        touched_bytes=record.touched_bytes,
    )
    return FoundEnd(verdict, saved, truth, seen, said, changed_bytes)


def _outcome(desk: DrillDesk, found: FoundEnd, outcome_id: str) -> DrillOutcome:
    session, record, drill, saved = desk.session, desk.case.record, desk.case.drill.drill, found.saved
    version = session.machine.run(("mdadm", "--version"), check=False)
    return DrillOutcome(
        format_version=OUTCOME_VERSION,
        id=outcome_id,
        drill=drill.id,
        drill_file=_file_of(desk),
        title=drill.title,
        seed=record.seed,
        target=record.target,
        kernel=session.machine.facts.kernel_release,
        mdadm=(version.stdout or version.stderr).strip(),
        began_utc=record.began_utc,
        ended_utc=utc_text(session.host.clock),
        verdict=found.verdict,
        saved_percent=saved.percent,
        kept_percent=found.kept_percent,
        gone_names=found.truth.meta_gone if found.truth else 0,
        changed_bytes=found.changed_bytes,
        blocks=saved.blocks,
        touched_bytes=record.touched_bytes,
        was_committed=desk.case.is_committed,
        minutes=round(desk.minutes, 2),
        hints=record.hints,
        resets=record.resets,
        exam=ended(record.exam, record.began_utc, utc_text(session.host.clock)),
        commands=desk.case.commands(),
        mistakes=() if found.verdict is DrillVerdict.SAVED else recognised(desk.case.drill, found.seen),
        missing=saved.missing,
        array=saved.array.name if saved.array else "",
        before=record.before,
        after=dict(found.seen.after),
        sizes={disk.name: disk.size_bytes for disk in desk.disks},
        begun_percent=found.truth.begun_percent if found.truth else None,
        changed={name: [list(span) for span in spans] for name, spans in found.seen.changed.items()},
    )


def recognised(drill: ReadyDrill, seen: DrillEnd) -> tuple[EndedMistake, ...]:
    """The mistakes whose checks all hold, the drill's own first."""
    state = CheckedState(drill=seen)
    return tuple(
        EndedMistake(mistake.id, mistake.explain) for mistake in drill.mistakes if all_hold(mistake.when, state)
    )


def _file_of(desk: DrillDesk) -> str:
    now, begun = file_digest(desk.case.drill.path), desk.case.record.drill_file
    return now if begun in ("", now) else CHANGED_FILE


def verdict_of(
    saved_percent: float, kept_percent: float | None, *, lost_percent: float, is_as_asked: bool, touched_bytes: int
) -> DrillVerdict:
    """The verdict from the percentage that can be read and that which can be recovered from the disks (None: unknown).

    ``lost_percent`` of the data cannot be saved. If the state of the disks is unknown, nothing counts as destroyed.
    """
    wanted = 100 - lost_percent
    if saved_percent < wanted:
        if kept_percent is None or kept_percent >= wanted:
            return DrillVerdict.STOPPED
        return DrillVerdict.PARTLY if kept_percent > 0 else DrillVerdict.LOST
    if not is_as_asked:
        return DrillVerdict.UNFINISHED
    return DrillVerdict.RISKED if touched_bytes else DrillVerdict.SAVED


def _kept(saved: _Saved, truth: DiskTruth | None) -> float | None:
    """Percentage of the data that can be recovered; data that were read from the disks themselves always count."""
    if truth is None:
        return None
    return max(truth.kept_percent, 0.0 if saved.is_on_overlays else saved.percent)


def _look_at_data(desk: DrillDesk, wanted: str) -> _Saved:
    """Examine the array with the data; of several, the one with the most readable data."""
    session = desk.session
    session.rescan()
    found = []
    for status in session.statuses():
        if not _is_wanted(desk, status.name, wanted):
            continue
        settle(desk, status.name)
        # A rebuild changes the status.
        now = next((each for each in session.statuses() if each.name == status.name), status)
        found.append(_look_at_array(desk, now))
    if found:
        return max(found, key=lambda each: (each.percent, not each.is_on_overlays, -len(each.missing)))
    asked = lacking(f"{wanted or 'a running array'} has the file system", "it does not" if wanted else "none has it")
    return _Saved(None, (), {MISSING: desk.case.record.blocks}, 0.0, (asked,))


def _look_at_array(desk: DrillDesk, status: ArrayStatus) -> _Saved:
    names = {disk.node: disk.name for disk in desk.disks}
    members = tuple(names[each.device] for each in status.members if each.device in names and each.is_in_sync)
    blocks, why = _read_files(desk, f"/dev/{status.name}")
    total = desk.case.record.blocks
    there = sum(count for word, count in blocks.items() if word in ALLOWED)
    if there < total:
        # The oracle reports no blocks for files that do not exist.
        blocks = blocks | {MISSING: missing} if (missing := total - sum(blocks.values())) > 0 else blocks
    # Rounded down, so that one lost block is visible.
    percent = int(10_000 * min(there, total) / total) / 100 if total else 0.0
    lacks = [why] if why else []
    is_on_overlays = not members or _has_overlays(desk.session, status)
    if is_on_overlays:
        lacks.append(lacking("the array is on the disks themselves", "it is on overlays"))
    lacks += [*_missing(desk, status), *_misnamed(desk, members), *_inconsistent(desk, status.name)]
    return _Saved(status, members, blocks, percent, tuple(lacks), is_on_overlays)


def _is_wanted(desk: DrillDesk, name: str, wanted: str) -> bool:
    return wanted in ("", name) and _has_file_system(desk.session, name, desk)


def _has_overlays(session: LabSession, status: ArrayStatus) -> bool:
    """Whether a member in sync is a device-mapper snapshot, a loop device or a RAM disk, whose data are in memory."""
    listed = session.machine.run(("dmsetup", "ls", "--target", "snapshot"), check=False).stdout
    # "over-ubda (254:0)", or with a comma: dmsetup(8).
    found = re.findall(r"^(\S+)\s+\([0-9]+[:,] ?([0-9]+)\)", listed, re.MULTILINE)
    overlays = {name for pair in found for name in (pair[0], f"dm-{pair[1]}")}
    devices = [each.device.rpartition("/")[2] for each in status.members if each.is_in_sync]
    return any(name in overlays or name.startswith(("loop", "ram")) for name in devices)


def _has_file_system(session: LabSession, name: str, desk: DrillDesk) -> bool:
    found = session.machine.run(("blkid", "-p", "-o", "value", "-s", "UUID", f"/dev/{name}"), check=False)
    return found.stdout.strip() == desk.case.record.file_system_uuid


def _read_files(desk: DrillDesk, node: str) -> tuple[dict[str, int], str]:
    """Verdict of the oracle -> number of blocks; and the reason if nothing could be read."""
    machine, kind = desk.session.machine, desk.case.drill.drill.file_system
    machine.run(("mkdir", "-p", PLACE))
    machine.run(("bash", "-c", "sync; echo 3 > /proc/sys/vm/drop_caches"), check=False)
    no_log = "noload" if kind == "ext4" else "norecovery"
    tries: Sequence[tuple[str, ...]] = (
        ("mount", "-t", kind, "-o", "ro", node, PLACE),
        ("mount", "-t", kind, "-o", f"ro,{no_log}", node, PLACE),
        # It may be mounted elsewhere and in use there.
        ("bash", "-c", 'mount --bind "$(findmnt -n -o TARGET --source "$1" | head -n 1)" "$2"', "bash", node, PLACE),
    )
    said = ""
    for argv in tries:
        result = machine.run(argv, check=False, timeout_seconds=60)
        if result.status == 0:
            break
        said = said or result.stderr.strip()
    else:
        return {}, lacking("its file system can be mounted", said)
    try:
        return dict(Oracle.open(desk.session.lab, desk.case.folder, PLACE).check().verdicts), ""
    except LabError as error:
        return {}, lacking("its files can be read", error.message)
    finally:
        machine.run(("umount", PLACE), check=False)


def _missing(desk: DrillDesk, status: ArrayStatus) -> list[str]:
    words = words_in("en")
    session = desk.session
    state = CheckedState(
        arrays={"md0": status, status.name: status}, nodes={disk.name: disk.node for disk in session.disks}
    )
    outcomes = [(check, check.look(state)) for check in desk.case.drill.goal_checks]
    return [
        lacking(words.want(check.wanted, check.facts), words.find(outcome.said, outcome.facts))
        for check, outcome in outcomes
        if not outcome.is_passed
    ]


def _misnamed(desk: DrillDesk, members: Sequence[str]) -> list[str]:
    goal = desk.case.drill.drill.goal
    if not goal.name and not goal.keep:
        return []
    pictures = look_at_members(desk.session.machine, desk.disks)
    before = desk.case.record.before
    lost = [name for name in goal.keep.split(",") if goal.keep and pictures[name].uuid != before[name].uuid]
    lacks = [lacking(f"{', '.join(lost)} belongs to its array as before", "it does not")] if lost else []
    wrong = {
        name: picture for name, picture in pictures.items() if (picture.name == goal.name) is not (name in members)
    }
    if goal.name and wrong:
        asked = f"the members, and no other disks, belong to an array with the name {goal.name}"
        lacks.append(lacking(asked, _names(wrong)))
    return lacks


def _names(pictures: Mapping[str, MemberPicture]) -> str:
    names = {name: shortened(picture.name) or "no name" for name, picture in pictures.items()}
    return ", ".join(f"{name} has {found}" for name, found in names.items())


def _inconsistent(desk: DrillDesk, name: str) -> list[str]:
    """Mismatches of a scrub, as text, if the goal allows none (md.rst, sync_action and mismatch_cnt)."""
    if not desk.case.drill.drill.goal.is_consistent:
        return []
    result = desk.session.machine.run(("bash", "-c", _SCRUB, "bash", name), check=False, timeout_seconds=120)
    found = digits(result.stdout.strip())
    if found is None:
        return [lacking("a scrub can be run", result.stderr.strip() or "it did not finish")]
    return [lacking("a scrub finds no mismatches", f"it counted {found} sectors")] if found else []


def lacking(required: str, found: str) -> str:
    """A requirement that does not hold, and what was found; the output of programs is shortened and made printable."""
    return f"required: {required}; found: {shortened(visible(found), _LONGEST_FOUND)}"
