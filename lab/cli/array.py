"""``raidlab array``: each verb of ``lab.actions`` as a command, and commands that display arrays."""

from __future__ import annotations

from typing import Any

import msgspec
from cyclopts import App

from lab.actions import ACTIONS
from lab.actions.action import PlanAction, Verb
from lab.actions.arrays import Assemble, Create, Speed, VerifyMark, Wait, WriteMark
from lab.arrays.discovery import FoundArray
from lab.arrays.kinds import kind_of_name, kinds
from lab.cli import microscope
from lab.cli.context import Context, current
from lab.cli.extension import added_commands
from lab.cli.output import out, out_json
from lab.cli.session import array_text, client_of, run_plan, show_plan, tell, wait_with_bar
from lab.cli.verbs import add_verbs
from lab.disks import DiskKind, LabDisk
from lab.disks.lab_files import lab_folder
from lab.errors import ExitCode
from lab.session.data_mark import require_mark, verify_mark
from lab.session.session import LabSession, open_session
from lab.units import human_bytes

app = App(name="array", help="Create, show, change, break and repair arrays.", help_format="plaintext")


def _run(context: Context, action: Verb, *, plan: bool = False, wait: bool | None = None) -> None:
    assert isinstance(action, PlanAction)
    run_plan(context, action, str(getattr(action, "array", "")), plan_only=plan, wait=wait)


def _speed(context: Context, action: Speed, *, plan: bool = False) -> None:
    if context.is_embedded and not plan:
        context.narrator.notice("the limits last as long as the lab is open: here, this command")
    _run(context, action, plan=plan)


def _create(context: Context, action: Create, *, plan: bool = False, wait: bool | None = None) -> None:
    if plan and action.names_its_disks and (known := _disks_without_booting(context)):
        show_plan(context, action.spec(known, known).creation(known, action.file_system))
        return
    with open_session(client_of(context)) as session:
        spec = action.spec(session.disks, session.free_disks(), session.names())
        made = session.creation(spec, action.file_system, checks_disks=not plan)
        if plan:
            show_plan(context, made)
            return
        if note := spec.note(session.disks):
            context.narrator.notice(note)
        session.run(made)
        if not spec.is_array:
            out(spec.device)
            return
        array = session.array(spec.name)
        status = wait_with_bar(context, session, spec.name, action.waits_for) if wait else array.read()
        if status.owes_sync and not wait and context.is_embedded:
            context.narrator.notice("the first resync continues whenever the lab is open: --wait, or raidlab watch")
        tell(context, array, status, made, is_long=True)


def _disks_without_booting(context: Context) -> tuple[LabDisk, ...]:
    """The disks of the persistent embedded lab, if all are files: their nodes follow from its list."""
    if not context.is_embedded:
        return ()
    with lab_folder(context.host.state, context.target.lab_name) as folder:
        if any(spec.kind is not DiskKind.FILE for spec in folder.specs):
            return ()
        return folder.lab_disks(folder.specs)


def _assemble(context: Context, action: Assemble, *, plan: bool = False) -> None:
    if action.array:
        run_plan(context, action, action.array, plan_only=plan)
        return
    with open_session(client_of(context)) as session:
        if plan:
            show_plan(context, action.plan(session))
            return
        # A failure to start an array is reported, but is not an error: the boot of a machine must not depend on it.
        known = {array.uuid for array in session.found.refused}
        started, refused = session.start_all(), session.found.refused
        if context.json:
            values = [session.array(status.name).value(status) for status in started]
            out_json(
                {
                    "started": values,
                    "refused": [{"name": each.name, "uuid": each.uuid, "reason": each.refusal} for each in refused],
                }
            )
            return
        for status in started:
            out(status.summary)
        for each in refused:
            if each.uuid not in known:
                context.narrator.notice(f"array {each.name} ({each.uuid}) was not started: {each.refusal}")
        if not started:
            context.narrator.notice("no stopped array could be started" if refused else "no array is stopped")


def _mark(context: Context, action: WriteMark) -> None:
    kind_of_name(action.array)
    with open_session(client_of(context)) as session:
        written = action.perform(session)
    if context.json:
        out_json(written)
    else:
        size = human_bytes(written.length_bytes)
        out(f"{action.array}: {size} of known data at byte {written.start_bytes} of {written.path}")


def _verify(context: Context, action: VerifyMark) -> int:
    kind_of_name(action.array)
    with open_session(client_of(context)) as session:
        found = require_mark(session, action.array)
        verdict = verify_mark(session, found)
    if context.json:
        out_json({"mark": msgspec.to_builtins(found), **msgspec.to_builtins(verdict)})
    else:
        out(f"{action.array}: {verdict.verdict.upper()}: {verdict.sentence}")
    return ExitCode.DONE if verdict.is_intact else ExitCode.FAILED


def _wait(context: Context, action: Wait) -> None:
    kind_of_name(action.array)
    with open_session(client_of(context)) as session:
        array = session.array(action.array)
        session.run(array.awake(array.status()))
        status = wait_with_bar(context, session, action.array, "wait")
        if context.json:
            out_json(array.value(status))
        else:
            out(status.summary)


add_verbs(
    app,
    ACTIONS,
    {
        Create: _create,
        Assemble: _assemble,
        Speed: _speed,
        WriteMark: _mark,
        VerifyMark: _verify,
        Wait: _wait,
        Verb: _run,
    },
)
for _command in added_commands("array"):
    _command.add_to(app)
microscope.add_to(app)


@app.command
def show(name: str | None = None) -> None:
    """Show one array, or all, with members and the progress of a sync."""
    context = current()
    with open_session(client_of(context)) as session:
        shown = [session.array(name).status()] if name else list(session.statuses())
        arrays = [(session.array(status.name), status) for status in shown]
        resting = () if name else (*session.found.stopped, *session.found.refused)
        if context.json:
            listed: dict[str, list[dict[str, Any]]] = {kind.listed_as: [] for kind in kinds()}
            for array, status in arrays:
                listed[kind_of_name(array.name).listed_as].append(array.value(status))
            more = {**listed, "not_running": [_found_value(session, found) for found in resting]}
            out_json(arrays[0][0].value(shown[0]) if name else more)
            return
        if not shown and not resting:
            context.narrator.notice("no arrays; 'raidlab array create --level raid5 --disks 3' makes one")
        texts = [array_text(array, status) for array, status in arrays]
        texts += [_resting_line(session, found) for found in resting]
        if texts:
            out("\n\n".join(texts))


def _resting_line(session: LabSession, found: FoundArray) -> str:
    word = session.found.word(found)
    told = found.name if word == found.name else f"{found.name} ({word})"
    starts = "" if found.obstacle else f"; 'raidlab array assemble {word}' starts it"
    return f"{told}: not running, {found.refusal or 'stopped'}{starts}"


def _found_value(session: LabSession, found: FoundArray) -> dict[str, Any]:
    """An array that is not running: the values common to all kinds."""
    value = {field: msgspec.to_builtins(getattr(found, field)) for field in FoundArray.__dataclass_fields__}
    return {**value, "disks": [session.disk_name(node) for node in found.devices]}
