"""What a drill came to: the share of the data that the oracle finds again, and how it was reached."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from lab.arrays.status import ArrayStatus
from lab.drills.case import CHANGED_FILE, DrillOutcome, DrillStore, EndedMistake
from lab.drills.desk import RESET_LINE, DrillDesk
from lab.drills.making import PLACE
from lab.drills.pictures import MemberPicture, look_at_members
from lab.drills.schema import common_mistakes, file_digest
from lab.drills.signs import DrillEnd, make_sign
from lab.errors import LabError
from lab.fault_lab.ledger_program import ALLOWED
from lab.fault_lab.oracle import Oracle
from lab.gates.numbers import digits
from lab.host.clock import utc_text
from lab.lessons.course import words_in
from lab.lessons.state import CheckedState
from lab.session.session import LabSession

MISSING = "missing"
"""In a file that is not there."""
_SCRUB = """
cd "/sys/block/$1/md"
# md takes the word of a read-only array, and does nothing.
[ "$(cat array_state)" != readonly ] || { echo "the array is read-only" >&2; exit 1; }
for try in $(seq 500); do [ "$(cat sync_action)" = idle ] && break; sleep 0.1; done
echo check > sync_action || exit 1
mdadm --wait "/dev/$1" || true
for try in $(seq 500); do [ "$(cat sync_action)" = idle ] && break; sleep 0.1; done
[ "$(cat sync_action)" = idle ] && cat mismatch_cnt
"""


class DrillVerdict(StrEnum):
    """In order, the best first."""

    SAVED = "saved"
    """All that could be saved, in an array as it was asked for, and nothing was written before commit."""
    RISKED = "saved, at risk"
    """As above, but the disks themselves were written before commit."""
    UNFINISHED = "saved, unfinished"
    """The data are there, but not in an array as it was asked for."""
    PARTLY = "partly lost"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class _Saved:
    array: ArrayStatus | None
    members: tuple[str, ...]
    blocks: dict[str, int]
    percent: float
    missing: tuple[str, ...]
    is_on_overlays: bool = False
    """Not all of its members are there when the machine starts the next time."""


def end_drill(desk: DrillDesk, array: str = "") -> DrillOutcome:
    """Judge it, keep the outcome, and end the drill. Raises ResultError; then the drill is still open."""
    store = DrillStore(desk.session.host)
    outcome = judge(desk, array, outcome_id=store.new_id(desk.case.drill.id))
    store.keep(outcome)
    desk.close()
    return outcome


def judge(desk: DrillDesk, array: str = "", *, outcome_id: str) -> DrillOutcome:
    """Look at everything, without ending the drill. The array is found by its file system, or is the one named."""
    desk.look(is_last=True)
    session, record, drill = desk.session, desk.case.record, desk.case.drill.drill
    if not desk.case.is_committed:
        record_touched = max(record.touched_bytes, desk.changed_bytes())
        desk.case.change(touched_bytes=record_touched)
        record = desk.case.record
    saved = _look_at_data(desk, array)
    after = look_at_members(session.machine, desk.disks)
    changed = desk.changed()
    commands = desk.case.commands()
    seen = DrillEnd(
        before=record.before,
        after=after,
        changed=changed,
        saved_percent=saved.percent,
        touched_bytes=record.touched_bytes,
        commands=_since_reset([command.line for command in commands]),
        array=saved.array,
        members=saved.members,
        is_on_overlays=saved.is_on_overlays,
    )
    verdict = _verdict(saved, drill.goal.lost_percent, record.touched_bytes)
    version = session.machine.run(("mdadm", "--version"), check=False)
    return DrillOutcome(
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
        verdict=verdict,
        saved_percent=saved.percent,
        blocks=saved.blocks,
        touched_bytes=record.touched_bytes,
        was_committed=desk.case.is_committed,
        minutes=round(desk.minutes, 2),
        hints=record.hints,
        resets=record.resets,
        commands=commands,
        mistakes=() if verdict is DrillVerdict.SAVED else _mistakes(desk, seen),
        missing=saved.missing,
        array=saved.array.name if saved.array else "",
        before=record.before,
        after=after,
        changed=changed,
    )


def _file_of(desk: DrillDesk) -> str:
    now, begun = file_digest(desk.case.drill.path), desk.case.record.drill_file
    return now if begun in ("", now) else CHANGED_FILE


def _since_reset(lines: Sequence[str]) -> Sequence[str]:
    """What was typed before the disks were put back has left nothing on them."""
    resets = [number for number, line in enumerate(lines) if line == RESET_LINE]
    return lines[resets[-1] + 1 :] if resets else lines


def _verdict(saved: _Saved, lost_percent: float, touched_bytes: int) -> DrillVerdict:
    if saved.percent == 0:
        return DrillVerdict.LOST
    if saved.percent < 100 - lost_percent:
        return DrillVerdict.PARTLY
    if saved.missing:
        return DrillVerdict.UNFINISHED
    return DrillVerdict.RISKED if touched_bytes else DrillVerdict.SAVED


def _look_at_data(desk: DrillDesk, wanted: str) -> _Saved:
    session = desk.session
    session.rescan()
    names = {disk.node: disk.name for disk in desk.disks}
    for status in session.statuses():
        if wanted not in ("", status.name) or not _has_file_system(session, status.name, desk):
            continue
        members = tuple(names[each.device] for each in status.members if each.device in names and each.is_in_sync)
        blocks, why = _read_files(desk, f"/dev/{status.name}")
        total = desk.case.record.blocks
        there = sum(count for word, count in blocks.items() if word in ALLOWED)
        if there < total:
            # Of files that are not there at all the oracle has no blocks to tell of.
            blocks = blocks | {MISSING: missing} if (missing := total - sum(blocks.values())) > 0 else blocks
        # Never rounded up: one block that is lost shows.
        percent = int(10_000 * min(there, total) / total) / 100 if total else 0.0
        lacks = [why] if why else []
        is_on_overlays = not members or _has_overlays(session, status)
        if is_on_overlays:
            lacks.append("the array lies on the disks themselves, not on overlays")
        lacks += [*_missing(desk, status), *_misnamed(desk, members), *_inconsistent(desk, status.name)]
        return _Saved(status, members, blocks, percent, tuple(lacks), is_on_overlays)
    what = f"{wanted} has" if wanted else "an array that runs has"
    return _Saved(None, (), {MISSING: desk.case.record.blocks}, 0.0, (f"{what} the file system",))


def _has_overlays(session: LabSession, status: ArrayStatus) -> bool:
    """Whether a member in sync is a snapshot of device mapper, or a file: what is written there is in memory."""
    listed = session.machine.run(("dmsetup", "ls", "--target", "snapshot"), check=False).stdout
    # over-ubda (254:0), or with a comma: dmsetup(8).
    found = re.findall(r"^(\S+)\s+\([0-9]+[:,] ?([0-9]+)\)", listed, re.MULTILINE)
    overlays = {name for pair in found for name in (pair[0], f"dm-{pair[1]}")}
    devices = [each.device.rpartition("/")[2] for each in status.members if each.is_in_sync]
    return any(name in overlays or name.startswith(("loop", "ram")) for name in devices)


def _has_file_system(session: LabSession, name: str, desk: DrillDesk) -> bool:
    found = session.machine.run(("blkid", "-p", "-o", "value", "-s", "UUID", f"/dev/{name}"), check=False)
    return found.stdout.strip() == desk.case.record.file_system_uuid


def _read_files(desk: DrillDesk, node: str) -> tuple[dict[str, int], str]:
    """DrillVerdict -> blocks, and why nothing could be read."""
    machine, kind = desk.session.machine, desk.case.drill.drill.file_system
    machine.run(("mkdir", "-p", PLACE))
    machine.run(("bash", "-c", "sync; echo 3 > /proc/sys/vm/drop_caches"), check=False)
    no_log = "noload" if kind == "ext4" else "norecovery"
    tries: Sequence[tuple[str, ...]] = (
        ("mount", "-t", kind, "-o", "ro", node, PLACE),
        ("mount", "-t", kind, "-o", f"ro,{no_log}", node, PLACE),
        # It may be mounted elsewhere, and be in use there.
        ("bash", "-c", 'mount --bind "$(findmnt -n -o TARGET --source "$1" | head -n 1)" "$2"', "bash", node, PLACE),
    )
    said = ""
    for argv in tries:
        result = machine.run(argv, check=False, timeout_seconds=60)
        if result.status == 0:
            break
        said = said or result.stderr.strip()
    else:
        return {}, f"its file system can be mounted ({said[-200:]})"
    try:
        return dict(Oracle.open(desk.session.lab, desk.case.folder, PLACE).check().verdicts), ""
    except LabError as error:
        return {}, f"its files can be read ({error.message})"
    finally:
        machine.run(("umount", PLACE), check=False)


def _missing(desk: DrillDesk, status: ArrayStatus) -> list[str]:
    """What of the goal does not hold, in words."""
    words = words_in("en")
    session = desk.session
    state = CheckedState(
        arrays={"md0": status, status.name: status}, nodes={disk.name: disk.node for disk in session.disks}
    )
    outcomes = [(check, check.look(state)) for check in desk.case.drill.goal_checks]
    return [
        f"{words.want(check.wanted, check.facts)} ({words.find(outcome.said, outcome.facts)})"
        for check, outcome in outcomes
        if not outcome.is_passed
    ]


def _misnamed(desk: DrillDesk, members: Sequence[str]) -> list[str]:
    """What does not hold of the goals that superblocks show."""
    goal = desk.case.drill.drill.goal
    if not goal.name and not goal.keep:
        return []
    pictures = look_at_members(desk.session.machine, desk.disks)
    before = desk.case.record.before
    lost = [name for name in goal.keep.split(",") if goal.keep and pictures[name].uuid != before[name].uuid]
    lacks = [f"{', '.join(lost)} still belongs to its array"] if lost else []
    wrong = {
        name: picture for name, picture in pictures.items() if (picture.name == goal.name) is not (name in members)
    }
    if goal.name and wrong:
        lacks.append(f"its members, and no other disks, have the name {goal.name} ({_names(wrong)})")
    return lacks


def _names(pictures: Mapping[str, MemberPicture]) -> str:
    return ", ".join(f"{name}: {picture.name or 'none'}" for name, picture in pictures.items())


def _inconsistent(desk: DrillDesk, name: str) -> list[str]:
    """Whether a scrub finds mismatches (md.rst, sync_action and mismatch_cnt), if the goal asks for none."""
    if not desk.case.drill.drill.goal.is_consistent:
        return []
    result = desk.session.machine.run(("bash", "-c", _SCRUB, "bash", name), check=False, timeout_seconds=120)
    found = digits(result.stdout.strip())
    if found is None:
        return [f"a scrub can be run ({result.stderr.strip()[-200:] or 'it did not end'})"]
    return [f"a scrub finds no mismatches (it counted {found} sectors)"] if found else []


def _mistakes(desk: DrillDesk, seen: DrillEnd) -> tuple[EndedMistake, ...]:
    """Those that are recognised, the drill's own first."""
    drill = desk.case.drill.drill
    return tuple(
        EndedMistake(mistake.id, mistake.explain.strip())
        for mistake in (*drill.mistakes, *common_mistakes())
        if all(make_sign(sign, where=f"drill {drill.id}, mistake {mistake.id}").holds(seen) for sign in mistake.when)
    )
