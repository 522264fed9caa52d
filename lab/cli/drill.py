"""``raidlab drill`` sets up disasters for practice. The student can use any other command between its commands."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from lab.cli.arguments import flag
from lab.cli.context import CLUSTER_HELP, Context, current, out, out_json, pairs, require_shared, table
from lab.cli.lesson import PASSED, print_page, print_sound
from lab.cli.session import add_verbs, client_of
from lab.drills import verbs
from lab.drills import verdict as verdicts
from lab.drills.case import (
    DrillCase,
    DrillOutcome,
    DrillStore,
    begin_exam,
    best_of,
    forget_drill,
    require_attempt,
    require_no_exam,
    stored_name,
)
from lab.drills.desk import DrillDesk, close_case, require_blank, require_possible
from lab.drills.schema import ReadyDrill, catalogue, find_drill, find_playable, read_drill, ready, shell_lines
from lab.drills.verdict import DrillVerdict
from lab.errors import DrillError, ExitCode
from lab.gates.files import FileKind
from lab.host.clock import utc_text
from lab.lessons.student import Student
from lab.session.session import open_session, read_arrival, read_leftovers, store_arrival, store_leftovers

EACH_COMMAND = (
    "`raidlab shell` opens a terminal on the machine; `raidlab exec -- COMMAND` runs one command there. Each of them "
    "starts a machine, which is switched off when the command ends: overlays, and the arrays on them, are lost. The "
    "disks keep their data. Within `raidlab exec` nobody can answer `drill commit`: type `raidlab drill commit` first."
)

app = App(name="drill", help_format="plaintext")


@app.default
def default() -> None:
    """Show the open drill or, if none is open, all drills."""
    context = current()
    if DrillCase.find(_folder(context)) is None:
        _list(context, verbs.ListDrills())
    else:
        _status(context, verbs.DrillStatus())


def _list(context: Context, _: verbs.ListDrills) -> None:
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
    context.out(values, table(("", "drill", "min", "tries", "reached", "title"), rows, right=("min", "tries")))
    if case is None and not context.json:
        context.narrator.notice("begin one with 'raidlab drill start 1'")


def _start(context: Context, verb: verbs.StartDrill) -> None:
    path = find_playable(verb.name, context.target)
    drill = read_drill(path)
    context.announce_foreign(path, FileKind.DRILL, shell_lines(drill))
    case = DrillCase.find(_folder(context))
    if case is not None and not verb.again:
        same = case.drill.drill.id == drill.id
        hint = "'raidlab drill' shows it; --again starts it over" if same else "'raidlab drill debrief' ends it"
        raise DrillError(f"drill {case.drill.id} is open in this lab", hint=hint)
    besides = "" if verb.exam is None else stored_name(drill.id, path)
    require_no_exam(_folder(context), besides=besides)
    desk = Student(context.host)
    word = verb.seed if verb.seed is not None else case.record.seed if case is not None else desk.state.seed
    chosen = ready(drill, path, word)
    folder = _folder(context)
    if verb.exam is not None:
        # This check comes before any disk is made blank.
        require_attempt(context.host, chosen.id, minutes=verb.exam, again=verb.again)
    arrival, is_open = read_arrival(folder), False
    store_arrival(folder, None)
    clears = verb.reset or case is not None
    try:
        # Arrays that are about to be erased are neither started nor reported.
        with open_session(client_of(context, watches=False), start_arrays=not clears) as session:
            require_possible(session, chosen)
            # Another program may have begun an exam before this one opened the lab.
            require_no_exam(folder, besides=besides)
            is_open = True
            if clears:
                session.run(session.reset_all())
            require_blank(session, chosen)
            attempt = (
                partial(begin_exam, context.host, chosen.id, seed=word, minutes=verb.exam, again=verb.again)
                if verb.exam is not None
                else None
            )
            DrillDesk.begin(session, chosen, attempt)
    finally:
        if not is_open:
            # The open drill continues unchanged.
            store_arrival(folder, arrival)
    _show(context, chosen, is_exam=verb.exam is not None)


def _status(context: Context, _: verbs.DrillStatus) -> None:
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
                "exam": record.exam,
            }
        )
        return
    print_page(verdicts.briefing(case.drill))
    out(pairs(verdicts.progress_lines(case, case.record.open_seconds / 60, utc_text(context.host.clock))))


def _hint(context: Context, _: verbs.DrillHint) -> None:
    case = _require_case(context)
    number, text = case.hint()
    if number == len(case.drill.drill.hints):
        context.narrator.notice("that is the last hint")
    if context.json:
        out_json({"number": number, "hint": text})
    else:
        print_page(verdicts.hint_words(case.drill, number))


def _commit(context: Context, _: verbs.Commit) -> None:
    with _desk(context) as desk:
        touched = desk.commit()
    context.out({"touched_bytes": touched}, verdicts.committed_words(touched))


def _reset(context: Context, _: verbs.ResetDrill) -> None:
    with _desk(context) as desk:
        desk.reset()
    context.out({"resets": desk.case.record.resets}, verdicts.PUT_BACK)


def _debrief(context: Context, verb: verbs.Debrief) -> int:
    store = DrillStore(context.host)
    if verb.name is not None:
        outcome = store.newest("" if verb.name == "latest" else verb.name)
        _print_outcome(context, outcome)
        return ExitCode.DONE
    with _desk(context) as desk:
        outcome = verdicts.end_drill(desk, verb.array.removeprefix("/dev/"), is_final=verb.as_it_is)
    _print_outcome(context, outcome, can_clear=True)
    return ExitCode.DONE if outcome.verdict == DrillVerdict.SAVED else ExitCode.FAILED


def _leave(context: Context, _: verbs.LeaveDrill) -> None:
    folder = _folder(context)
    then = "'raidlab drill clear' makes its disks blank"
    try:
        case = DrillCase.find(folder)
    except DrillError as damaged:
        try:
            require_no_exam(folder)
        except DrillError:
            # Its hint would be to judge the exam, which is not possible either.
            raise damaged from None
        # A damaged drill is closed too. Which disks it used is unknown.
        case, then = None, "'raidlab disks reset --all' makes all disks blank"
    if case is not None and case.record.exam:
        with _desk(context) as desk:
            desk.leave()
    elif case is not None:
        close_case(folder, case, {})
    elif not forget_drill(folder):
        _require_case(context)
    store_arrival(folder, None)
    context.narrator.notice(f"the drill is closed; {then}")


def _clear(context: Context, _: verbs.ClearDisks) -> None:
    folder = _folder(context)
    left = read_leftovers(folder)
    if left is None:
        raise DrillError("no drill has left anything on this lab's disks", hint="'raidlab disks' shows what is on them")
    with open_session(client_of(context, watches=False)) as session:
        session.run(session.reset_all(only=left.disks))
    store_leftovers(folder, None)
    context.out({"disks": left.disks}, f"{left.disks[0]} to {left.disks[-1]} are blank")


add_verbs(app, verbs.VERBS, _list, _start, _status, _hint, _commit, _reset, _debrief, _leave, _clear)


@app.command
def verify(
    *names: Annotated[str, Parameter(help="Drills, by number, id or file; by default all that come with raidlab.")],
    prove: Annotated[bool, flag("Also carry out every solution, on separate machines.")] = False,
    seed: Annotated[list[str] | None, Parameter(help="Prove with these seeds; by default with two.")] = None,
    cluster: Annotated[str, Parameter(help=CLUSTER_HELP)] = "",
) -> None:
    """Check drills, and list all problems with their remedies."""
    context = current()
    files = [find_drill(name) for name in names]
    if cluster:
        require_shared(files, catalogue().values(), is_proof=prove)
    chosen = {path: read_drill(path) for path in files or catalogue().values()}
    if not prove:
        print_sound(context, [(drill.id, path, FileKind.DRILL, shell_lines(drill)) for path, drill in chosen.items()])
        return
    from lab.cli.lesson import prove_and_print

    for path, drill in chosen.items():
        context.announce_foreign(path, FileKind.DRILL, shell_lines(drill))
    prove_and_print(context, (), chosen, seed, cluster)


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
    with open_session(client_of(context, watches=False)) as session:
        yield DrillDesk(session, case)


def _show(context: Context, drill: ReadyDrill, *, is_exam: bool) -> None:
    if context.json:
        out_json({"id": drill.id, "title": drill.drill.title, "seed": drill.seed, "symptom": drill.drill.symptom})
        return
    print_page(verdicts.briefing(drill))
    print_page(verdicts.drill_words().rules)
    if is_exam:
        print_page(verdicts.drill_words().exam_rules)
    if context.is_embedded:
        print_page(EACH_COMMAND)
    else:
        print_page("`raidlab shell` opens a terminal on the machine; `raidlab exec -- COMMAND` runs one command there.")


def _print_outcome(context: Context, outcome: DrillOutcome, *, can_clear: bool = False) -> None:
    if context.json:
        out_json(outcome)
        return
    print_page(verdicts.ended_page(outcome, can_clear=can_clear))
