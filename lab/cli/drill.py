"""``raidlab drill`` sets up disasters for practice. The student can use any other command between its commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from lab.cli.arguments import flag
from lab.cli.context import CLUSTER_HELP, Context, current, out, out_json, require_shared, table
from lab.cli.lesson import PASSED, print_page, verify_files
from lab.cli.session import add_verbs, client_of
from lab.drills import verbs
from lab.drills.case import DrillCase, drill_lines, forget_drill, require_no_exam
from lab.drills.desk import DrillDesk, close_case
from lab.drills.schema import ReadyDrill, catalogue, find_drill, read_drill, shell_lines
from lab.drills.verdict import briefing, rules
from lab.errors import DrillError, ExitCode
from lab.gates.files import FileKind
from lab.host.clock import utc_text
from lab.session.session import open_session, read_arrival, store_arrival, store_leftovers

EACH_COMMAND = (
    "`raidlab shell` opens a terminal on the machine; `raidlab exec -- COMMAND` runs one command there. Each of them "
    "starts a machine, which is switched off when the command ends: overlays, and the arrays on them, are lost. The "
    "disks keep their data."
)

app = App(name="drill", help_format="plaintext")


@app.default
def default() -> None:
    """Show the open drill or, if none is open, all drills."""
    context = current()
    if DrillCase.find(_folder(context)) is None:
        _list(context, verbs.ListDrills())
    else:
        _on_case(context, verbs.DrillStatus())


def _list(context: Context, _: verbs.ListDrills) -> None:
    case = DrillCase.find(_folder(context))
    rows, values = [], []
    for line in drill_lines(context.host, case.drill.id if case else ""):
        mark, drill, best = ">" if line.is_open else PASSED if line.is_saved else " ", line.drill, line.best
        rows.append((mark, drill.id, str(drill.minutes), str(len(line.outcomes)), line.best_words, drill.title))
        values.append(
            {
                "id": drill.id,
                "title": drill.title,
                "minutes": drill.minutes,
                "tries": len(line.outcomes),
                "best": best.verdict if best else None,
                "saved_percent": best.saved_percent if best else None,
                "is_open": line.is_open,
            }
        )
    context.out(values, table(("", "drill", "min", "tries", "reached", "title"), rows, right=("min", "tries")))
    if case is None and not context.json:
        context.narrator.notice("begin one with 'raidlab drill start 1'")


def _start(context: Context, verb: verbs.StartDrill) -> None:
    drill, folder = verb.ready(context.host, context.target), _folder(context)
    context.announce_foreign(drill.path, FileKind.DRILL, shell_lines(drill.drill))
    arrival, is_replaced = read_arrival(folder), False
    # A drill can be open here only if it may be replaced.
    clears = verb.reset or (folder / "drill" / "case.json").exists()
    store_arrival(folder, None)
    try:
        # Arrays that are about to be erased are neither started nor reported.
        with open_session(client_of(context, watches=False), start_arrays=not clears) as session:
            # Another program may have begun an exam before this one opened the lab.
            verb.use_of_disks(session, drill)
            if clears:
                session.run(session.reset_all())
            verb.require_free(session, drill)
            is_replaced = True
            verb.begin(session, drill)
    finally:
        if not is_replaced:
            # The open drill continues unchanged.
            store_arrival(folder, arrival)
    _show(context, drill, is_exam=verb.exam is not None)


def _on_case(context: Context, verb: verbs.ClosedLabVerb) -> int:
    case = DrillCase.require(_folder(context))
    return _report(context, verb.perform_on(case, utc_text(context.host.clock)))


def _on_desk(context: Context, verb: verbs.OpenDrillVerb) -> int:
    case = DrillCase.require(_folder(context))
    with open_session(client_of(context, watches=False)) as session:
        report = verb.perform(DrillDesk(session, case))
    return _report(context, report)


def _debrief(context: Context, verb: verbs.Debrief) -> int:
    return _on_desk(context, verb) if verb.name is None else _report(context, verb.ended_before(context.host))


def _leave(context: Context, verb: verbs.LeaveDrill) -> int:
    folder = _folder(context)
    then = "'raidlab drill clear' makes its disks blank"
    try:
        case = DrillCase.require(folder)
    except DrillError as damaged:
        try:
            require_no_exam(folder)
        except DrillError:
            # Its hint would be to judge the exam, which is not possible either.
            raise damaged from None
        # A damaged drill is closed too. Which disks it used is unknown.
        if not forget_drill(folder):
            raise
        store_arrival(folder, None)
        then = "'raidlab disks reset --all' makes all disks blank"
    else:
        if case.record.exam:
            return _on_desk(context, verb)
        close_case(folder, case, {})
    context.narrator.notice(f"the drill is closed; {then}")
    return ExitCode.DONE


def _clear(context: Context, verb: verbs.ClearDisks) -> None:
    folder = _folder(context)
    left = verb.require_left(folder)
    with open_session(client_of(context, watches=False)) as session:
        session.run(verb.plan(session))
    store_leftovers(folder, None)
    context.out({"disks": left.disks}, f"{left.disks[0]} to {left.disks[-1]} are blank")


add_verbs(app, verbs.VERBS, _list, _start, _on_case, _on_desk, _debrief, _leave, _clear)


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
    verify_files(context, (), chosen, seed, cluster, is_proof=prove)


def _folder(context: Context) -> Path:
    return context.host.state.lab_folder(context.target.lab_name)


def _show(context: Context, drill: ReadyDrill, *, is_exam: bool) -> None:
    if context.json:
        out_json({"id": drill.id, "title": drill.drill.title, "seed": drill.seed, "symptom": drill.drill.symptom})
        return
    print_page(briefing(drill))
    print_page(rules(is_exam=is_exam))
    if context.is_embedded:
        print_page(EACH_COMMAND)
    else:
        print_page("`raidlab shell` opens a terminal on the machine; `raidlab exec -- COMMAND` runs one command there.")


def _report(context: Context, report: verbs.Report) -> int:
    if context.json:
        out_json(report.value)
    else:
        if report.page:
            print_page(report.page)
        if report.text:
            out(report.text)
    return ExitCode.DONE if report.is_success else ExitCode.FAILED
