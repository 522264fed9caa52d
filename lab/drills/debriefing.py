"""Texts of drills in Markdown, and answers to ``drill hint`` and the like typed at the shell of the machine.

The machine cannot call the client, so a program on the machine writes a file, and the client polls it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from lab.checks.state import MemberPicture, freshest_events
from lab.drills.case import OUTCOME_VERSION, DrillCase, DrillOutcome, ended_words, exam_words
from lab.drills.desk import GUEST_FOLDER, DrillDesk
from lab.drills.schema import ReadyDrill, find_drill, read_drill, ready
from lab.drills.verdict import DrillVerdict, end_drill
from lab.errors import LabError, MachineLost
from lab.gates.text import markdown, visible
from lab.units import KIB, counted, human_bytes

STRIP_CELLS = 32
_UNTOUCHED, _LITTLE, _SOME, _MUCH = "·░▒█"
_LITTLE_BYTES = 4 * KIB
_MUCH_SHARE = 0.25
_MOST_LINES = 20
"""Maximum number of lines shown of one typed command."""
_SAYS: dict[str, str] = {
    DrillVerdict.SAVED: "Everything that could be saved is saved, in an array as the task asked for, and nothing was "
    "written before you committed.",
    DrillVerdict.RISKED: "The data are saved. But you wrote on the disks themselves before you committed: a mistake "
    "there could not have been undone.",
    DrillVerdict.UNFINISHED: "The data are there, but the array is not yet as the task asked for.",
    DrillVerdict.STOPPED: "Not all of the data that could be saved can be read now. But nothing is destroyed: the "
    "disks still hold all of them, or what they can be computed from. The drill ended too early, or after a wrong step "
    "that can still be undone.",
    DrillVerdict.PARTLY: "Data that could have been saved are destroyed: the disks no longer hold them, nor anything "
    "from which they could be computed.",
    DrillVerdict.LOST: "All of the data are destroyed: nothing on the disks can bring any of them back.",
}
_SAID_BEFORE = {
    "partly lost": "Part of the data that could have been saved was not there at the end.",
    "lost": "At the end the data were destroyed, or no array that ran had them.",
}
"""Text for outcomes of format 1, which did not record what the disks still held."""
RULES = """
You are root on the machine, with mdadm, dmesg and everything else that is installed.

- Until you **commit**, leave the disks themselves unchanged. `overlays up DEVICE…` puts overlays over them
  (`/dev/mapper/over-…`), on which you may try anything; `overlays down` removes them. An overlay that you make by
  hand with `losetup` and `dmsetup` is as good.
- **commit** says that you write on the disks from now on. **reset** restores them in seconds. **hint** costs
  nothing, but is recorded. **debrief** ends the drill with the verdict. At the machine's shell these are
  `drill commit`, `drill reset`, `drill hint` and `drill debrief`.
"""
EXAM_RULES = (
    "**This is an exam.** There are no hints, and you cannot give it up. This computer's clock measures the time; when "
    "it is over, only the debriefing is left."
)
CLEARS = (
    "They are as you left them. `raidlab drill clear` makes the drill's disks blank, for the next drill or an array of "
    "your own; in the app press **b**, in text mode type `drill clear`."
)
PUT_BACK = "the disks are as they were when the drill began"


def briefing(drill: ReadyDrill) -> str:
    """The title and the symptom of a drill."""
    return f"# {drill.drill.title}\n\n{drill.drill.symptom.strip()}\n"


def hint_words(drill: ReadyDrill, number: int) -> str:
    """The text of a hint, by its number."""
    hints = drill.drill.hints
    return f"**Hint {number} of {len(hints)}.** {hints[number - 1]}"


def committed_words(touched_bytes: int) -> str:
    """The message after a commit."""
    written = f"{human_bytes(touched_bytes)} had been written" if touched_bytes else "nothing had been written"
    return f"committed; {written} on the disks before"


def progress_lines(case: DrillCase, minutes: float, now_utc: str) -> dict[str, str]:
    """Progress of a drill: label -> text. ``minutes``: how long the lab was open during the drill."""
    record = case.record
    exam = {"exam": exam_words(record.exam, record.began_utc, now_utc)} if record.exam else {}
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
    """The complete page. ``can_clear``: the drill's disks are unchanged since its end."""
    said = _SAID_BEFORE if outcome.kept_percent is None and outcome.format_version < OUTCOME_VERSION else {}
    verdict = said.get(outcome.verdict) or _SAYS.get(outcome.verdict, "")
    parts = [f"# {markdown(outcome.title)}: {outcome.verdict}", verdict, _figures(outcome)]
    if outcome.missing:
        parts.append("What the drill asks for, and what was found instead:\n\n" + _list(outcome.missing))
    if outcome.mistakes:
        told = [f"**{mistake.id}**: {' '.join(mistake.explain.split())}" for mistake in outcome.mistakes]
        parts.append("## What went wrong\n\n" + "\n\n".join(told))
    parts.append("## Member by member\n\n" + members(outcome) + "\n\n" + changes(outcome))
    if outcome.commands:
        typed = [f"{command.seconds / 60:.1f} min: {_typed(command.line)}" for command in outcome.commands[-60:]]
        parts.append("## What you typed\n\n" + _list(typed))
    if drill is not None:
        parts.append(f"## What an expert would have done\n\n{drill.drill.expert.strip()}")
    if can_clear:
        parts.append(f"## The disks\n\n{CLEARS}")
    return "\n\n".join(parts) + "\n"


def ended_page(outcome: DrillOutcome, *, can_clear: bool = False) -> str:
    """The page of an ended drill, whose file may no longer exist."""
    try:
        path = find_drill(outcome.drill)
        drill = ready(read_drill(path), path, outcome.seed)
    except LabError:
        drill = None
    return debriefing(outcome, drill, can_clear=can_clear)


def _figures(outcome: DrillOutcome) -> str:
    total = sum(outcome.blocks.values())
    told = ", ".join(f"{count} {word}" for word, count in outcome.blocks.items()) or "none could be read"
    work = (
        counted(round(outcome.minutes), "minute"),
        counted(len(outcome.commands), "command"),
        counted(outcome.hints, "hint"),
        counted(outcome.resets, "reset"),
    )
    return _list(
        [
            f"data saved: **{outcome.saved_percent:g} %** of {counted(total, 'block')} of 4 KiB ({told})",
            *_kept_lines(outcome),
            f"written on the disks before commit: **{_written(outcome)}**",
            *([ended_words(outcome.exam)] if outcome.exam else []),
            ", ".join(work),
        ]
    )


def _kept_lines(outcome: DrillOutcome) -> list[str]:
    if outcome.kept_percent is None:
        return []
    begun = 100.0 if outcome.begun_percent is None else outcome.begun_percent
    before = f"; {100 - begun:.3g} % were gone when the drill began" if begun < 100 else ""
    lines = [
        f"can still be recovered from the disks: **{outcome.kept_percent:g} %**",
        f"destroyed since the drill began: **{max(0.0, begun - outcome.kept_percent):.3g} %**{before}",
    ]
    if outcome.gone_names:
        blocks = counted(outcome.gone_names, "block")
        lines.append(
            f"{blocks} of the file system's metadata destroyed: files named there can be found by content only"
        )
    return lines


def _written(outcome: DrillOutcome) -> str:
    """The number of bytes written, and of those that differ from before: a write may repeat the old content."""
    if not outcome.touched_bytes:
        return "nothing"
    written = human_bytes(outcome.touched_bytes)
    if outcome.was_committed or outcome.format_version < OUTCOME_VERSION:
        return written
    return f"{written} written, of which {human_bytes(min(outcome.changed_bytes, outcome.touched_bytes))} differ"


def members(outcome: DrillOutcome) -> str:
    """The superblock of each disk before and after, as a Markdown list: 80 columns are too narrow for a table."""
    lines = []
    most = {True: freshest_events(outcome.before), False: freshest_events(outcome.after)}
    for name, before in outcome.before.items():
        after = outcome.after.get(name)
        if not before.has_superblock and (after is None or not after.has_superblock):
            continue
        end = member_words(after, most[False], before.uuid) if after else "gone"
        lines.append(f"**{name}**\n    - before: {member_words(before, most[True], before.uuid)}\n    - after: {end}")
    return _list(lines)


def member_words(picture: MemberPicture, freshest: int, uuid: str) -> str:
    """A superblock in a few words."""
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
    """The changes of each disk: a strip from its beginning to its end, with a legend."""
    if not outcome.changed:
        return "No disk has changed since the drill began."
    lines = []
    sizes = {name: max(outcome.sizes.get(name, 0), ranges[-1][1]) for name, ranges in outcome.changed.items()}
    for name, ranges in outcome.changed.items():
        total = sum(end - first for first, end in ranges)
        lines.append(f"{name}  {strip(ranges, sizes[name])}  {human_bytes(total)} differ")
    width = max(map(len, sizes))
    ends = [human_bytes(size) for size in dict.fromkeys(sizes.values())]
    head = f"{'':{width}}  {'0':<{STRIP_CELLS - len(ends[0])}}{ends[0]}" if len(ends) == 1 else ""
    cell = human_bytes(max(sizes.values()) / STRIP_CELLS)
    lines += [
        f"one sign: {cell if head else f'1/{STRIP_CELLS} of the disk'}",
        f"{_UNTOUCHED} unchanged  {_LITTLE} up to {human_bytes(_LITTLE_BYTES)} differ  {_SOME} more  "
        f"{_MUCH} a quarter of it or more",
    ]
    # Fenced, because an indented block would continue the last item of the list before it.
    return "Where the disks have changed since the beginning of the drill:\n\n" + "\n".join(
        ["```", *([head] if head else []), *lines, "```"]
    )


def strip(ranges: Iterable[Sequence[int]], size: int, cells: int = STRIP_CELLS) -> str:
    """A disk as this number of cells, each with a sign for how much of it has changed."""
    spans = [tuple(span) for span in ranges]
    return "".join(_sign(spans, size * cell // cells, size * (cell + 1) // cells) for cell in range(cells))


def _sign(spans: Sequence[Sequence[int]], start: int, stop: int) -> str:
    differ = sum(max(0, min(end, stop) - max(first, start)) for first, end in spans)
    if not differ:
        return _UNTOUCHED
    if differ <= _LITTLE_BYTES:
        return _LITTLE
    return _MUCH if differ >= _MUCH_SHARE * (stop - start) else _SOME


def _code(line: str) -> str:
    """A typed command as a code span, in more backticks than it has in sequence (CommonMark, code spans)."""
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


_REQUEST = f"{GUEST_FOLDER}/request"
_FORM = re.compile(r"([0-9]{1,10}-[0-9]{1,6}) (status|hint|commit|reset|debrief|end)\s*")


def answer_one(desk: DrillDesk) -> bool:
    """Answer a pending request, if there is one; returns whether it ended the drill. Raises MachineLost."""
    machine = desk.session.machine
    found = _FORM.fullmatch(machine.read([_REQUEST])[_REQUEST] or "")
    if not found:
        return False
    machine.write(_REQUEST, "")
    number, word = found.groups()
    try:
        text = _ANSWERS[word](desk)
    except MachineLost:
        raise
    except LabError as error:
        text = f"{error.message}: {error.hint}" if error.hint else error.message
    # Renamed when it is complete, because the reader waits for the name.
    machine.write(f"{GUEST_FOLDER}/.{number}", f"{text.rstrip()}\n")
    machine.run(("mv", f"{GUEST_FOLDER}/.{number}", f"{GUEST_FOLDER}/answer.{number}"), check=False)
    return desk.is_over


def _status(desk: DrillDesk) -> str:
    lines = [f"{label:<22} {text}" for label, text in progress_lines(desk.case, desk.minutes, desk.now_utc).items()]
    return "\n".join([briefing(desk.case.drill), *lines])


def _hint(desk: DrillDesk) -> str:
    number, text = desk.case.hint()
    return f"hint {number} of {len(desk.case.drill.drill.hints)}: {text}"


def _debrief(desk: DrillDesk, *, is_final: bool) -> str:
    outcome = end_drill(desk, is_final=is_final)
    return f"{outcome.verdict}: {outcome.saved_percent:g} % of the data. 'raidlab drill debrief latest' has the page."


def _reset(desk: DrillDesk) -> str:
    desk.reset()
    return PUT_BACK


_ANSWERS: dict[str, Callable[[DrillDesk], str]] = {
    "status": _status,
    "hint": _hint,
    "commit": lambda desk: committed_words(desk.commit()),
    "reset": _reset,
    "debrief": partial(_debrief, is_final=False),
    "end": partial(_debrief, is_final=True),
}
