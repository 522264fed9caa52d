"""``raidlab drill``: disasters to practise on. Between two of these commands the student works with any other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from lab.cli.context import CLUSTER_HELP, Context, current, require_shared
from lab.cli.lesson_text import PASSED, say
from lab.cli.output import out, out_json, pairs, table
from lab.cli.session import open_session
from lab.drills.case import DrillCase, DrillOutcome, DrillStore, best_of, forget_drill
from lab.drills.desk import DrillDesk
from lab.drills.disks import require_blank
from lab.drills.schema import ReadyDrill, catalogue, find_playable, read_drill, ready
from lab.drills.telling import PUT_BACK, RULES, briefing, committed_words, ended_page, hint_words, standing
from lab.drills.verdict import DrillVerdict, end_drill
from lab.errors import DrillError, ExitCode
from lab.lessons.student import Student, blank_lab
from lab.session.arrival import keep_arrival, read_arrival

app = App(name="drill", help="Disasters to practise on, with a verdict on the data.", help_format="plaintext")


@app.default
def default() -> None:
    """Show the drill that is open; without one, all drills."""
    context = current()
    if DrillCase.find(_folder(context)) is None:
        list_drills()
    else:
        status()


@app.command(name="list")
def list_drills() -> None:
    """List the drills with what you have reached."""
    context = current()
    store, case = DrillStore(context.host), DrillCase.find(_folder(context))
    rows, values = [], []
    for name, path in catalogue().items():
        drill, outcomes = read_drill(path), store.all(name)
        best, is_open = best_of(outcomes), case is not None and case.drill.id == name
        mark = ">" if is_open else PASSED if best and best.verdict == DrillVerdict.SAVED else " "
        reached = f"{best.verdict}, {best.saved_percent:g} %" if best else ""
        rows.append((mark, name, str(drill.minutes), str(len(outcomes)), reached, drill.title))
        values.append(
            {
                "id": name,
                "title": drill.title,
                "minutes": drill.minutes,
                "tries": len(outcomes),
                "best": best.verdict if best else None,
                "saved_percent": best.saved_percent if best else None,
                "is_open": is_open,
            }
        )
    if context.json:
        out_json(values)
        return
    out(table(("", "drill", "min", "tries", "reached", "title"), rows, right=("min", "tries")))
    if case is None:
        context.narrator.notice("begin one with 'raidlab drill start 1'")


@app.command
def start(
    name: Annotated[str, Parameter(help="Id, number or part of the id; or the path of a drill file.")],
    *,
    seed: Annotated[
        str | None, Parameter(help="Your name, or a word from your teacher: each word makes another case.")
    ] = None,
    reset: Annotated[
        bool, Parameter(negative="", show_default=False, help="Make all lab disks blank first: their data are gone.")
    ] = False,
    again: Annotated[
        bool, Parameter(negative="", show_default=False, help="Anew, even if it is open: what you did is gone.")
    ] = False,
) -> None:
    """Make a disaster on the lab's disks, and say what an administrator would be told."""
    context = current()
    path = find_playable(name, context.target.kind)
    drill = read_drill(path)
    case = DrillCase.find(_folder(context))
    if case is not None and not again:
        same = case.drill.drill.id == drill.id
        hint = "'raidlab drill' shows it; --again makes it anew" if same else "'raidlab drill debrief' ends it"
        raise DrillError(f"drill {case.drill.id} is open in this lab", hint=hint)
    desk = Student(context.host)
    word = seed if seed is not None else case.record.seed if case is not None else desk.state.seed
    chosen = ready(drill, path, word)
    folder = _folder(context)
    arrival, is_open = read_arrival(folder), False
    keep_arrival(folder, None)
    clears = reset or case is not None
    try:
        # What will be gone in a moment is neither started nor told of.
        with open_session(context, start_arrays=not clears, watches=False) as session:
            is_open = True
            if clears:
                blank_lab(session)
            require_blank(session, chosen)
            DrillDesk.begin(session, chosen)
    finally:
        if not is_open:
            # The drill that is open goes on as it was.
            keep_arrival(folder, arrival)
    _show(context, chosen)


@app.command
def status() -> None:
    """Show what the administrator was told, and how the drill stands."""
    context = current()
    case = _require_case(context)
    if context.json:
        record = case.record
        out_json(
            {
                "id": case.drill.id,
                "title": case.drill.drill.title,
                "seed": record.seed,
                "minutes": round(record.open_seconds / 60, 1),
                "meant_minutes": case.drill.drill.minutes,
                "hints": record.hints,
                "hint_count": len(case.drill.drill.hints),
                "is_committed": case.is_committed,
                "touched_bytes": record.touched_bytes,
                "resets": record.resets,
                "commands": len(case.commands()),
            }
        )
        return
    say(briefing(case.drill))
    out(pairs(standing(case, case.record.open_seconds / 60)))


@app.command
def hint() -> None:
    """Show one more hint. It costs nothing, and is noted."""
    context = current()
    case = _require_case(context)
    number, text = case.hint()
    if number == len(case.drill.drill.hints):
        context.narrator.notice("that is the last hint")
    if context.json:
        out_json({"number": number, "hint": text})
    else:
        say(hint_words(case.drill, number))


@app.command
def commit() -> None:
    """Say that you write on the disks themselves from now on."""
    context = current()
    with _desk(context) as desk:
        touched = desk.commit()
    if context.json:
        out_json({"touched_bytes": touched})
    else:
        out(committed_words(touched))


@app.command
def reset() -> None:
    """Make the disks what they were when the drill began."""
    context = current()
    with _desk(context) as desk:
        desk.reset()
    if context.json:
        out_json({"resets": desk.case.record.resets})
    else:
        out(PUT_BACK)


@app.command
def debrief(
    name: Annotated[
        str | None, Parameter(help="An ended drill, for its page once more; 'latest' is the newest.")
    ] = None,
    *,
    array: Annotated[
        str, Parameter(help="The array that has the data; without it, the one with the file system.")
    ] = "",
) -> int:
    """End the drill: the verdict on the data, and what an expert would have done."""
    context = current()
    store = DrillStore(context.host)
    if name is not None:
        outcome = store.newest("" if name == "latest" else name)
        _tell(context, outcome, {})
        return ExitCode.DONE
    with _desk(context) as desk:
        sizes = {disk.name: disk.size_bytes for disk in desk.disks}
        outcome = end_drill(desk, array.removeprefix("/dev/"))
    _tell(context, outcome, sizes)
    return ExitCode.DONE if outcome.verdict == DrillVerdict.SAVED else ExitCode.FAILED


@app.command
def leave() -> None:
    """Give the drill up without a verdict; the disks stay as they are."""
    context = current()
    folder = _folder(context)
    if not forget_drill(folder):
        _require_case(context)
    keep_arrival(folder, None)
    context.narrator.notice("the drill is closed")


@app.command
def verify(
    *files: Annotated[Path, Parameter(help="Drill files; without any: all that come with raidlab.")],
    prove: Annotated[
        bool, Parameter(negative="", show_default=False, help="Also take every way in it, on machines of its own.")
    ] = False,
    seed: Annotated[list[str] | None, Parameter(help="For these words; without any: two.")] = None,
    cluster: Annotated[str, Parameter(help=CLUSTER_HELP)] = "",
) -> None:
    """Check drill files: all that is wrong, with its remedy."""
    context = current()
    if cluster:
        require_shared(files, catalogue().values(), is_proof=prove)
    chosen = {path: read_drill(path) for path in files or catalogue().values()}
    if not prove:
        names = [drill.id for drill in chosen.values()]
        out_json({"sound": names}) if context.json else out("\n".join(f"{name}: sound" for name in names))
        return
    from lab.cli.proofs import prove_and_tell

    prove_and_tell(context, (), chosen, seed, cluster)


def _folder(context: Context) -> Path:
    return context.host.state.lab_folder(context.target.lab_name)


def _require_case(context: Context) -> DrillCase:
    case = DrillCase.find(_folder(context))
    if case is None:
        raise DrillError("no drill is open in this lab", hint="'raidlab drill start 1' begins one")
    return case


@contextmanager
def _desk(context: Context) -> Iterator[DrillDesk]:
    case = _require_case(context)
    with open_session(context, watches=False) as session:
        yield DrillDesk(session, case)


def _show(context: Context, drill: ReadyDrill) -> None:
    if context.json:
        out_json({"id": drill.id, "title": drill.drill.title, "seed": drill.seed, "symptom": drill.drill.symptom})
        return
    say(briefing(drill))
    say(RULES)
    say("`raidlab shell` opens a terminal on the machine; `raidlab exec -- COMMAND` runs one command there.")


def _tell(context: Context, outcome: DrillOutcome, sizes: dict[str, int]) -> None:
    if context.json:
        out_json(outcome)
        return
    say(ended_page(outcome, sizes))
