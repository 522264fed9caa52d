"""The verdict of a drill and its texts.

The verdict depends on the share of the data that the oracle can still read, and on the state of the array. Arrays that
the student created or repaired are started first if they are not running.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from itertools import pairwise
from pathlib import Path

import msgspec

from lab.arrays.status import ArrayState, ArrayStatus
from lab.checks.state import CheckedState, DrillEnd, MemberPicture, all_hold, examine_members, freshest_events
from lab.drills.case import (
    CHANGED_FILE,
    OUTCOME_VERSION,
    DrillCase,
    DrillOutcome,
    DrillStore,
    ended_words,
)
from lab.drills.desk import PLACE, DiskTruth, DrillDesk, percent_of, run_lines
from lab.drills.schema import EndedMistake, ReadyDrill, file_digest, find_drill, read_drill, ready
from lab.errors import CommandFailed, DrillError, LabError
from lab.faults.guest.ledger import ALLOWED
from lab.faults.oracle import Oracle
from lab.gates.decoding import digits
from lab.gates.text import markdown, shortened, visible
from lab.lessons.course import words_in
from lab.session.session import LabSession
from lab.tomlfile import read_toml
from lab.units import KIB, counted, human_bytes

_SECONDS = 30.0
_FIRST_NUMBER = 90
_LONGEST = 300


def _start_what_was_repaired(desk: DrillDesk, array: str) -> str:
    """If no running array has the data, start an array whose superblocks have changed and that has the data.

    This includes arrays on existing overlays. Returns mdadm's messages if no array with the data could be started.
    """
    session = desk.session

    def runs() -> bool:
        session.rescan()
        return any(_is_drill_array(desk, status.name, array) for status in session.statuses())

    if runs():
        return ""
    messages: list[str] = []
    before, now = desk.case.record.before, examine_members(session.machine, desk.disks)
    changed = [picture for name, picture in now.items() if picture.has_superblock and picture != before.get(name)]
    written = dict.fromkeys(picture.uuid for picture in changed)
    if written:
        _stop_inactive(session)
    if array in {status.name for status in session.statuses()}:
        # Another array has this name, and must not be stopped here.
        return ""
    for number, uuid in enumerate(written, _FIRST_NUMBER):
        # Only an array with the requested name counts.
        name = array or f"md{number}"
        argv = ("mdadm", "--assemble", "--readonly", "--run", f"/dev/{name}", f"--uuid={uuid}")
        result = session.machine.run(argv, check=False, timeout_seconds=_SECONDS)
        if runs():
            session.machine.run(("mdadm", "--readwrite", f"/dev/{name}"), check=False, timeout_seconds=_SECONDS)
            return ""
        messages.append(" ".join(result.stderr.split())[-_LONGEST:])
        session.machine.run(("mdadm", "--stop", f"/dev/{name}"), check=False, timeout_seconds=_SECONDS)
    session.rescan()
    return "; ".join(line for line in messages if line)


def _stop_inactive(session: LabSession) -> None:
    """Stop inactive arrays, which keep their disks in use although nothing can use their data."""
    text = session.machine.read(["/proc/mdstat"])["/proc/mdstat"] or ""
    for name in re.findall(r"^(md\S*) : inactive", text, re.MULTILINE):
        session.machine.run(("mdadm", "--stop", f"/dev/{name}"), check=False, timeout_seconds=_SECONDS)


_NOTHING_RUNS = "no running array has the drill's files, although they can still be recovered"
_START_FIRST = "start the array first; 'raidlab drill debrief --as-it-is' ends the drill without it"
_LONGEST_FOUND = 200
MISSING = "missing"
"""The verdict on the blocks of files that do not exist."""
_SCRUB = """
cd "/sys/block/$1/md"
# A read-only array accepts the request but does nothing; the goal does not depend on how the array was started.
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
    """The same as ``SAVED``, except that the disks themselves were written to before the commit."""
    UNFINISHED = "saved, unfinished"
    """The data are saved, but the array does not meet the goal."""
    STOPPED = "not recovered"
    """Some data that could be saved are not. They can all still be recovered from the disks, or this is unknown."""
    PARTLY = "partly lost"
    """Data that could have been saved are destroyed."""
    LOST = "lost"
    """All data are destroyed: nothing can be recovered from the disks."""


class NothingRuns(DrillError):
    """No running array has the data, but they can still be recovered, so ending the drill requires confirmation."""


@dataclass(frozen=True, slots=True)
class _Saved:
    array: ArrayStatus | None
    members: tuple[str, ...]
    blocks: dict[str, int]
    percent: float
    missing: tuple[str, ...]
    is_on_overlays: bool = False


def end_drill(desk: DrillDesk, array: str = "", *, is_final: bool = True) -> DrillOutcome:
    """Judge the drill, store its outcome, end the drill, and return the outcome.

    ``array`` is the name of the array with the data. If it is empty, the array is found by its file system. Raises
    ResultError if the outcome cannot be stored, in which case the drill remains open. Unless ``is_final`` is true,
    raises NothingRuns if no running array has the data, but they can still be recovered.
    """
    found, messages = _examine(desk, array)
    if not is_final and not found.array and found.verdict == DrillVerdict.STOPPED:
        raise NothingRuns(f"{_NOTHING_RUNS}{f' ({messages})' if messages else ''}", hint=_START_FIRST)
    store = DrillStore(desk.session.host)
    outcome = store.add(desk.case.drill.id, lambda outcome_id: msgspec.structs.replace(found, id=outcome_id))
    desk.close()
    return outcome


def judge(desk: DrillDesk) -> DrillOutcome:
    """Judge a drill without ending it, and return its outcome, which has no id."""
    return _examine(desk, "")[0]


def _examine(desk: DrillDesk, array: str) -> tuple[DrillOutcome, str]:
    """Examine the disks as the student left them, then start the arrays that can be started, and read the data.

    Returns the outcome, and mdadm's messages about arrays that could not be started.
    """
    desk.update(is_last=True)
    changed = desk.changed()
    if not desk.case.is_committed:
        desk.case.change(touched_bytes=max(desk.case.record.touched_bytes, desk.beyond_own(changed)))
    after = examine_members(desk.session.machine, desk.disks)
    truth = desk.truth()
    messages = _start_what_was_repaired(desk, array)
    saved = _examine_data(desk, array)
    end = DrillEnd(
        before=desk.case.record.before,
        after=after,
        changed=changed,
        saved_percent=saved.percent,
        touched_bytes=desk.case.record.touched_bytes,
        has_array=saved.array is not None,
        members=saved.members,
        is_on_overlays=saved.is_on_overlays,
        damaged_data=truth.damaged_data if truth else 0,
        damaged_parity=truth.damaged_parity if truth else 0,
        data_uuid=truth.uuid if truth else "",
    )
    return _outcome(desk, end, saved, truth), messages


def _outcome(desk: DrillDesk, end: DrillEnd, saved: _Saved, truth: DiskTruth | None) -> DrillOutcome:
    session, record, drill, now_utc = desk.session, desk.case.record, desk.case.drill.drill, desk.now_utc
    # Data that were read from the disks themselves can be recovered, even if the search did not find them.
    recoverable = max(truth.recoverable_percent, 0.0 if saved.is_on_overlays else saved.percent) if truth else None
    verdict = verdict_of(
        saved.percent,
        recoverable,
        lost_percent=drill.goal.lost_percent,
        is_as_asked=not saved.missing,
        touched_bytes=record.touched_bytes,
    )
    version = session.machine.run(("mdadm", "--version"), check=False)
    digest = file_digest(desk.case.drill.path)
    return DrillOutcome(
        format_version=OUTCOME_VERSION,
        id="",
        drill=drill.id,
        drill_file=digest if record.drill_file in ("", digest) else CHANGED_FILE,
        title=drill.title,
        seed=record.seed,
        target=record.target,
        kernel=session.machine.facts.kernel_release,
        mdadm=(version.stdout or version.stderr).strip(),
        began_utc=record.began_utc,
        ended_utc=now_utc,
        verdict=verdict,
        saved_percent=saved.percent,
        kept_percent=recoverable,
        gone_names=truth.lost_meta if truth else 0,
        changed_bytes=desk.beyond_own(end.changed),
        blocks=saved.blocks,
        touched_bytes=record.touched_bytes,
        was_committed=desk.case.is_committed,
        minutes=round(desk.minutes, 2),
        hints=record.hints,
        resets=record.resets,
        exam=record.exam_end(now_utc),
        commands=desk.case.commands(),
        mistakes=() if verdict is DrillVerdict.SAVED else recognised(desk.case.drill, end),
        missing=saved.missing,
        array=saved.array.name if saved.array else "",
        before=record.before,
        after=end.after,
        sizes={disk.name: disk.size_bytes for disk in desk.disks},
        begun_percent=truth.begun_percent if truth else None,
        changed=end.changed,
    )


def recognised(drill: ReadyDrill, seen: DrillEnd) -> tuple[EndedMistake, ...]:
    """Return the mistakes whose checks all hold, beginning with the drill's own."""
    state = CheckedState(drill=seen)
    return tuple(mistake for mistake, checks in drill.mistakes if all_hold(checks, state))


def verdict_of(
    saved_percent: float,
    recoverable_percent: float | None,
    *,
    lost_percent: float,
    is_as_asked: bool,
    touched_bytes: int,
) -> DrillVerdict:
    """Return the verdict for these percentages of the data.

    ``saved_percent`` can be read, ``recoverable_percent`` can still be recovered from the disks (None if unknown), and
    ``lost_percent`` could never be saved. If ``recoverable_percent`` is None, nothing counts as destroyed.
    """
    required = 100 - lost_percent
    if saved_percent < required:
        if recoverable_percent is None or recoverable_percent >= required:
            return DrillVerdict.STOPPED
        return DrillVerdict.PARTLY if recoverable_percent > 0 else DrillVerdict.LOST
    if not is_as_asked:
        return DrillVerdict.UNFINISHED
    return DrillVerdict.RISKED if touched_bytes else DrillVerdict.SAVED


def _examine_data(desk: DrillDesk, array: str) -> _Saved:
    """Examine the array with the data. If there are several, the one with the most readable data counts."""
    session = desk.session
    session.rescan()
    found = []
    for status in session.statuses():
        if not _is_drill_array(desk, status.name, array):
            continue
        # The disks have already been examined, and the goal describes the array as it is when it is in use. In an array
        # that is read-auto or read-only, a pending rebuild waits until the array is writable.
        if status.awaits_rebuild and status.state in (ArrayState.READ_AUTO, ArrayState.READONLY):
            session.machine.run(("mdadm", "--readwrite", f"/dev/{status.name}"), check=False, timeout_seconds=_SECONDS)
        # The array may no longer exist.
        with suppress(CommandFailed):
            run_lines(session, f"settle /dev/{status.name}", {})
        # A rebuild changes the status.
        now = next((each for each in session.statuses() if each.name == status.name), status)
        found.append(_examine_array(desk, now))
    if found:
        return max(found, key=lambda each: (each.percent, not each.is_on_overlays, -len(each.missing)))
    asked = lacking(f"{array or 'a running array'} has the file system", "it does not" if array else "none does")
    return _Saved(None, (), {MISSING: desk.case.record.blocks}, 0.0, (asked,))


def _examine_array(desk: DrillDesk, status: ArrayStatus) -> _Saved:
    names = {disk.node: disk.name for disk in desk.disks}
    members = tuple(names[each.device] for each in status.members if each.device in names and each.is_in_sync)
    blocks, why = _read_files(desk, f"/dev/{status.name}")
    total = desk.case.record.blocks
    there = sum(count for word, count in blocks.items() if word in ALLOWED)
    if there < total and (missing := total - sum(blocks.values())) > 0:
        # The oracle reports no blocks for files that do not exist.
        blocks |= {MISSING: missing}
    percent = percent_of(min(there, total), total)
    lacks = [why] if why else []
    is_on_overlays = not members or _has_overlays(desk.session, status)
    if is_on_overlays:
        lacks.append(lacking("the array is on the disks themselves", "it is on overlays"))
    lacks += [*_missing(desk, status), *_misnamed(desk, members), *_inconsistent(desk, status.name)]
    return _Saved(status, members, blocks, percent, tuple(lacks), is_on_overlays)


def _is_drill_array(desk: DrillDesk, name: str, array: str) -> bool:
    """Whether the array has the drill's file system and, unless ``array`` is empty, that name."""
    if array not in ("", name):
        return False
    found = desk.session.machine.run(("blkid", "-p", "-o", "value", "-s", "UUID", f"/dev/{name}"), check=False)
    return found.stdout.strip() == desk.case.record.file_system_uuid


def _has_overlays(session: LabSession, status: ArrayStatus) -> bool:
    """Whether an in-sync member is a device-mapper snapshot, a loop device or a RAM disk."""
    listed = session.machine.run(("dmsetup", "ls", "--target", "snapshot"), check=False).stdout
    # dmsetup(8) prints "over-ubda (254:0)", or a comma instead of the colon.
    found = re.findall(r"^(\S+)\s+\([0-9]+[:,] ?([0-9]+)\)", listed, re.MULTILINE)
    overlays = {name for pair in found for name in (pair[0], f"dm-{pair[1]}")}
    devices = [each.device.rpartition("/")[2] for each in status.members if each.is_in_sync]
    return any(name in overlays or name.startswith(("loop", "ram")) for name in devices)


def _read_files(desk: DrillDesk, node: str) -> tuple[dict[str, int], str]:
    """Return the number of blocks for each verdict of the oracle, and the reason if nothing could be read."""
    machine, kind = desk.session.machine, desk.case.drill.drill.file_system
    machine.run(("mkdir", "-p", PLACE))
    machine.run(("bash", "-c", "sync; echo 3 > /proc/sys/vm/drop_caches"), check=False)
    no_log = "noload" if kind == "ext4" else "norecovery"
    tries: Sequence[tuple[str, ...]] = (
        ("mount", "-t", kind, "-o", "ro", node, PLACE),
        ("mount", "-t", kind, "-o", f"ro,{no_log}", node, PLACE),
        # The file system may be mounted elsewhere and in use.
        ("bash", "-c", 'mount --bind "$(findmnt -n -o TARGET --source "$1" | head -n 1)" "$2"', "bash", node, PLACE),
    )
    message = ""
    for argv in tries:
        result = machine.run(argv, check=False, timeout_seconds=60)
        if result.status == 0:
            break
        message = message or result.stderr.strip()
    else:
        return {}, lacking("the file system on the array can be mounted", message)
    try:
        return dict(Oracle.open(desk.session.lab, desk.case.folder, PLACE).check().verdicts), ""
    except LabError as error:
        return {}, lacking("the files on the array can be read", error.message)
    finally:
        machine.run(("umount", PLACE), check=False)


def _missing(desk: DrillDesk, status: ArrayStatus) -> list[str]:
    words = words_in("en")
    session = desk.session
    state = CheckedState(
        arrays={"md0": status, status.name: status}, nodes={disk.name: disk.node for disk in session.disks}
    )
    outcomes = [(check, check.evaluate(state)) for check in desk.case.drill.goal_checks]
    return [
        lacking(words.requirement(check.requirement_key, check.facts), words.find(outcome.key, outcome.facts))
        for check, outcome in outcomes
        if not outcome.is_passed
    ]


def _misnamed(desk: DrillDesk, members: Sequence[str]) -> list[str]:
    goal = desk.case.drill.drill.goal
    if not goal.name and not goal.keep:
        return []
    pictures = examine_members(desk.session.machine, desk.disks)
    before = desk.case.record.before
    lost = [name for name in goal.keep.split(",") if goal.keep and pictures[name].uuid != before[name].uuid]
    lacks = [lacking(f"{', '.join(lost)} still belongs to the same array as before", "it does not")] if lost else []
    wrong = {
        name: picture for name, picture in pictures.items() if (picture.name == goal.name) is not (name in members)
    }
    if goal.name and wrong:
        asked = f"all members and no other disks belong to an array with the name {goal.name}"
        found = ", ".join(f"{name} has {shortened(picture.name) or 'no name'}" for name, picture in wrong.items())
        lacks.append(lacking(asked, found))
    return lacks


def _inconsistent(desk: DrillDesk, name: str) -> list[str]:
    """If the goal allows no mismatches, scrub the array and describe those found (md.rst, mismatch_cnt)."""
    if not desk.case.drill.drill.goal.is_consistent:
        return []
    result = desk.session.machine.run(("bash", "-c", _SCRUB, "bash", name), check=False, timeout_seconds=120)
    found = digits(result.stdout.strip())
    if found is None:
        return [lacking("the array can be scrubbed", result.stderr.strip() or "it did not finish")]
    return [lacking("a scrub finds no mismatches", f"it counted mismatches in {found} sectors")] if found else []


def lacking(required: str, found: str) -> str:
    """Describe a requirement that is not met and what was found, which is shortened and made printable."""
    return f"required: {required}; found: {shortened(visible(found), _LONGEST_FOUND)}"


STRIP_CELLS = 32
_UNTOUCHED, _LITTLE, _SOME, _MUCH = "·░▒█"
_LITTLE_BYTES = 4 * KIB
_MUCH_SHARE = 0.25
_MOST_LINES = 20
"""Maximum number of lines of one typed command that are shown."""


class DrillWords(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The content of words.toml."""

    rules: str
    exam_rules: str
    clears: str
    verdicts: dict[str, str]
    verdicts_of_format_1: dict[str, str]


@cache
def drill_words() -> DrillWords:
    """Return the rules and the texts of the verdicts."""
    return read_toml(Path(__file__).with_name("words.toml"), DrillWords)


def rules(*, is_exam: bool) -> str:
    """Return the rules of drills, or those of exams, as Markdown."""
    more = f"\n\n{drill_words().exam_rules}" if is_exam else ""
    return drill_words().rules.strip() + more


def briefing(drill: ReadyDrill) -> str:
    """Return the title and the symptom of a drill in Markdown."""
    return f"# {drill.drill.title}\n\n{drill.drill.symptom.strip()}\n"


def hint_words(drill: ReadyDrill, number: int) -> str:
    """Return the hint with this number as Markdown."""
    hints = drill.drill.hints
    return f"**Hint {number} of {len(hints)}.** {hints[number - 1]}"


def progress_lines(case: DrillCase, minutes: float, now_utc: str) -> dict[str, str]:
    """Return the progress of a drill as labels with their texts.

    ``minutes`` is how long the lab was open during the drill.
    """
    record = case.record
    exam = {"exam": record.exam_words(now_utc)} if record.exam else {}
    committed = f"after {record.committed_seconds / 60:.0f} min" if case.is_committed else "not yet"
    return exam | {
        "time": f"{minutes:.0f} min (meant for {case.drill.drill.minutes} min)",
        "hints": f"{record.hints} of {len(case.drill.drill.hints)}",
        "committed": committed,
        "written before commit": human_bytes(record.touched_bytes) if record.touched_bytes else "nothing",
        "resets": str(record.resets),
        "commands": str(len(case.commands())),
    }


def debriefing(outcome: DrillOutcome, drill: ReadyDrill | None, *, can_clear: bool = False) -> str:
    """Return the complete debriefing in Markdown.

    ``can_clear`` is true if the drill's disks have not been changed since the drill ended.
    """
    words = drill_words()
    is_old = outcome.kept_percent is None and outcome.format_version < OUTCOME_VERSION
    old_texts = words.verdicts_of_format_1 if is_old else {}
    verdict = old_texts.get(outcome.verdict) or words.verdicts.get(outcome.verdict, "")
    parts = [f"# {markdown(outcome.title)}: {outcome.verdict}", verdict, _figures(outcome)]
    if outcome.missing:
        parts.append("What the drill requires, and what was found instead:\n\n" + _list(outcome.missing))
    if outcome.mistakes:
        mistakes = [f"**{mistake.id}**: {' '.join(mistake.explain.split())}" for mistake in outcome.mistakes]
        parts.append("## What went wrong\n\n" + "\n\n".join(mistakes))
    parts.append("## Member by member\n\n" + members(outcome) + "\n\n" + changes(outcome))
    if outcome.commands:
        typed = [f"{command.seconds / 60:.1f} min: {_typed(command.line)}" for command in outcome.commands[-60:]]
        parts.append("## What you typed\n\n" + _list(typed))
    if drill is not None:
        parts.append(f"## What an expert would have done\n\n{drill.drill.expert.strip()}")
    if can_clear:
        parts.append(f"## The disks\n\n{words.clears}")
    return "\n\n".join(parts) + "\n"


def ended_page(outcome: DrillOutcome) -> str:
    """Return the debriefing of a drill that has ended. Its file may no longer exist."""
    try:
        path = find_drill(outcome.drill)
        drill = ready(read_drill(path), path, outcome.seed)
    except LabError:
        drill = None
    return debriefing(outcome, drill)


def _figures(outcome: DrillOutcome) -> str:
    total = sum(outcome.blocks.values())
    blocks = ", ".join(f"{count} {word}" for word, count in outcome.blocks.items()) or "none could be read"
    work = (
        counted(round(outcome.minutes), "minute"),
        counted(len(outcome.commands), "command"),
        counted(outcome.hints, "hint"),
        counted(outcome.resets, "reset"),
    )
    return _list(
        [
            f"data saved: **{outcome.saved_percent:g} %** of {counted(total, 'block')} of 4 KiB ({blocks})",
            *_recoverable_lines(outcome),
            f"written to the disks before commit: **{_written_words(outcome)}**",
            *([ended_words(outcome.exam)] if outcome.exam else []),
            ", ".join(work),
        ]
    )


def _recoverable_lines(outcome: DrillOutcome) -> list[str]:
    if outcome.kept_percent is None:
        return []
    begun = 100.0 if outcome.begun_percent is None else outcome.begun_percent
    before = f"; {100 - begun:.3g} % were lost when the drill began" if begun < 100 else ""
    lines = [
        f"can still be recovered from the disks: **{outcome.kept_percent:g} %**",
        f"destroyed since the drill began: **{max(0.0, begun - outcome.kept_percent):.3g} %**{before}",
    ]
    if outcome.gone_names:
        blocks = counted(outcome.gone_names, "block")
        lines.append(
            f"{blocks} of the file system's metadata destroyed: files named there can be found only by content"
        )
    return lines


def _written_words(outcome: DrillOutcome) -> str:
    """Describe how many bytes were written and how many of them differ, since a write may repeat the old contents."""
    if not outcome.touched_bytes:
        return "nothing"
    written = human_bytes(outcome.touched_bytes)
    if outcome.was_committed or outcome.format_version < OUTCOME_VERSION:
        return written
    return f"{written} written, of which {human_bytes(min(outcome.changed_bytes, outcome.touched_bytes))} differ"


def members(outcome: DrillOutcome) -> str:
    """List the superblock of each disk before and after in Markdown, because 80 columns are too narrow for a table."""
    lines = []
    most_before, most_after = freshest_events(outcome.before), freshest_events(outcome.after)
    for name, before in outcome.before.items():
        after = outcome.after.get(name)
        if not before.has_superblock and (after is None or not after.has_superblock):
            continue
        begin = member_words(before, most_before, before.uuid)
        end = member_words(after, most_after, before.uuid) if after else "gone"
        lines.append(f"**{name}**\n    - before: {begin}\n    - after: {end}")
    return _list(lines)


def member_words(picture: MemberPicture, freshest: int, uuid: str) -> str:
    """Describe a superblock in a few words."""
    if not picture.has_superblock:
        return "no superblock"
    fewer = freshest - picture.events
    events = f"{picture.events} events" + (f" ({fewer} fewer than the highest count)" if fewer else "")
    parts = [picture.role or "member", events]
    if picture.data_offset_sectors:
        parts.append(f"data from sector {picture.data_offset_sectors}")
    if uuid and picture.uuid != uuid:
        parts.append("**of another array**")
    return markdown(", ".join(parts)).replace("\\*\\*", "**")


def changes(outcome: DrillOutcome) -> str:
    """Show where each disk has changed, as a strip from its beginning to its end, with a legend."""
    if not outcome.changed:
        return "No disk has changed since the drill began."
    sizes = {name: max(outcome.sizes.get(name, 0), ranges[-1][1]) for name, ranges in outcome.changed.items()}
    lines = [
        f"{name}  {strip(ranges, sizes[name])}  {human_bytes(sum(end - first for first, end in ranges))} differ"
        for name, ranges in outcome.changed.items()
    ]
    width = max(map(len, sizes))
    ends = [human_bytes(size) for size in dict.fromkeys(sizes.values())]
    head = f"{'':{width}}  {'0':<{STRIP_CELLS - len(ends[0])}}{ends[0]}" if len(ends) == 1 else ""
    cell = human_bytes(max(sizes.values()) / STRIP_CELLS)
    lines += [
        f"one character: {cell if head else f'1/{STRIP_CELLS} of the disk'}",
        f"{_UNTOUCHED} unchanged  {_LITTLE} up to {human_bytes(_LITTLE_BYTES)} differ  {_SOME} more  "
        f"{_MUCH} a quarter of it or more",
    ]
    # The block is fenced because an indented one would continue the last item of the list before it.
    return "Where the disks have changed since the beginning of the drill:\n\n" + "\n".join(
        ["```", *([head] if head else []), *lines, "```"]
    )


def strip(ranges: Sequence[Sequence[int]], size: int) -> str:
    """Show a disk as STRIP_CELLS characters, each of which says how much of one part of the disk has changed."""

    def sign(start: int, stop: int) -> str:
        differ = sum(max(0, min(end, stop) - max(first, start)) for first, end in ranges)
        if not differ:
            return _UNTOUCHED
        if differ <= _LITTLE_BYTES:
            return _LITTLE
        return _MUCH if differ >= _MUCH_SHARE * (stop - start) else _SOME

    bounds = [size * cell // STRIP_CELLS for cell in range(STRIP_CELLS + 1)]
    return "".join(sign(start, stop) for start, stop in pairwise(bounds))


def _code(line: str) -> str:
    """Return a typed command as a code span, with a longer fence than any run of backticks in it (CommonMark)."""
    shown = visible(line)
    fence = "`" * (max(map(len, re.findall("`+", shown)), default=0) + 1)
    return f"{fence} {shown} {fence}" if "`" in shown else f"{fence}{shown}{fence}"


def _typed(text: str) -> str:
    first, *more = [line for line in text.split("\n") if line.strip()] or [""]
    if not more:
        return _code(first)
    shown = [_code(line) for line in (first, *more)[:_MOST_LINES]]
    left = len(more) + 1 - len(shown)
    return "\n    - ".join([f"{len(more) + 1} lines", *shown, *([f"{left} more"] if left else [])])


def _list(lines: Iterable[str]) -> str:
    return "\n".join(f"- {line}" for line in lines)
