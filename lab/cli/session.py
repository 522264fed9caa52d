"""Generates commands from verbs (``lab.actions.action``). They print or run plans in an open lab, wait, and report."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from enum import StrEnum
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args, get_origin

from cyclopts import App, CycloptsError, Parameter

from lab.actions.action import Field, PlanAction, Verb, fields_of
from lab.arrays.array import Array
from lab.arrays.status import ArrayStatus
from lab.cli.arguments import flag, number, usage_words
from lab.cli.context import Context, ProgressBar, err, fitted, out, out_json, pairs
from lab.errors import LabError, MachineLost, SpecError
from lab.plans import Plan
from lab.session.session import Client, LabSession, open_session, read_arrival
from lab.tomlfile import known_word

if TYPE_CHECKING:
    from lab.drills.desk import DrillDesk
    from lab.lessons.engine import StepView
    from lab.lessons.student import LessonSession

Runner = Callable[..., int | None]
"""A function that runs a verb, given the context, the verb and, as ``plan`` and ``wait``, the additional options."""


def add_verbs(app: App, kinds: Iterable[type[Verb]], *runners: Runner) -> None:
    """Add a command to ``app``'s group for each verb that has one.

    A runner's second parameter is annotated with the verb that it runs, or with a base class of verbs.
    """
    run_by: dict[type, Runner] = {}
    for run in runners:
        runs = [*inspect.signature(run, eval_str=True).parameters.values()][1].annotation
        if runs in run_by:
            raise AssertionError(f"{runs.__name__} has two runners")
        run_by[runs] = run
    for kind in kinds:
        above, _, name = kind.words.rpartition(" ")
        if kind.has_command and above == app.name[0]:
            runner = next((run_by[each] for each in kind.__mro__ if each in run_by), None)
            if runner is None:
                raise AssertionError(f"{kind.__name__} has no runner")
            app.command(VerbCommand(kind, runner), name=name)


class VerbCommand:
    """A verb as a command. cyclopts takes it for a function that has the verb's arguments and help.

    The function returns the verb, and ``lab.cli.main`` calls ``runner`` with it.
    """

    def __init__(self, kind: type[Verb], runner: Runner) -> None:
        self.runner = runner
        self._kind = kind
        # cyclopts reads these attributes of a function.
        self.__signature__ = inspect.Signature([*_parameters(kind)])
        self.__annotations__ = {}
        self.__name__ = kind.words.rpartition(" ")[2].replace("-", "_")
        self.__doc__ = kind.__doc__

    def __call__(self, *placed: Any, **named: Any) -> tuple[Verb, dict[str, Any]]:
        """Return the verb, and the given options that are not fields of the verb. Raises SpecError."""
        given = self.__signature__.bind(*placed, **named).arguments
        verb = self._kind(**_values(self._kind, given))
        return verb, {name: value for name, value in given.items() if name not in verb.__struct_fields__}


def typed_verb(app: App, words: list[str]) -> Verb | None:
    """Return the verb that these words denote, or None for a command or option that is not part of a verb.

    Raises SpecError if the words are invalid.
    """
    if not words or words[0].startswith("-"):
        return None
    try:
        command, bound, _ = app.parse_args(words, print_error=False, exit_on_error=False)
    except CycloptsError as error:
        message, hint = usage_words(error)
        raise SpecError(message, hint=hint) from None
    if not isinstance(command, VerbCommand):
        return None
    verb, options = command(*bound.args, **bound.kwargs)
    return None if options else verb


def _parameters(kind: type[Verb]) -> Iterator[inspect.Parameter]:
    fields = fields_of(kind)
    for field in sorted(fields, key=lambda field: not field.argument.is_placed):
        how = inspect.Parameter.POSITIONAL_OR_KEYWORD if field.argument.is_placed else inspect.Parameter.KEYWORD_ONLY
        has_default = not (field.argument.is_needed or field.is_required)
        default: Any = False if field.type is bool else None
        if not has_default:
            default = inspect.Parameter.empty
        elif default is None and field.when_left_out != "":
            # The help omits empty defaults.
            default = field.when_left_out
        yield inspect.Parameter(field.name, how, default=default, annotation=_annotation(field))
    if issubclass(kind, PlanAction):
        if kind.wait_help:
            wait = Parameter(show_default=False, help=kind.wait_help) if kind.waits_on_uml else flag(kind.wait_help)
            annotation = Annotated[bool | None, wait]
            yield inspect.Parameter("wait", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
        yield inspect.Parameter("plan", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=PlanFlag)


def _annotation(field: Field) -> Any:
    """Return the type for cyclopts. Enumerations are left to ``_values``, whose errors have hints."""
    plain = _plain(field.type)
    argument = field.argument
    name, help_text = [*filter(None, (field.option, argument.also))], argument.help
    if plain is bool:
        return Annotated[bool, flag(help_text, *name)]
    if plain in (int, float):
        bounded, kind = _bounded(field.type), plain | None if field.when_left_out is None else plain
        if get_origin(bounded) is not Annotated:
            return Annotated[kind, Parameter(name=name, help=help_text, show_default=False)]
        return Annotated[kind, number(bounded, name=name, help=help_text)]
    is_needed = field.argument.is_needed or field.is_required
    return Annotated[str if is_needed else str | None, Parameter(name=name, help=help_text)]


def _plain(kind: Any) -> Any:
    """Return the class of a value, without constraints and without None."""
    kind = _bounded(kind)
    return get_args(kind)[0] if get_origin(kind) is Annotated else kind


def _bounded(kind: Any) -> Any:
    """Return the type of a value without None."""
    if get_origin(kind) in (Union, UnionType):
        return next(each for each in get_args(kind) if each is not NoneType)
    return kind


def _values(kind: type[Verb], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the given fields, converted to their types.

    Raises SpecError, which suggests the nearest value, if a value is not in its enumeration. Also raises it for an
    empty string that would mean "omitted", since such a string usually comes from an unset shell variable.
    """
    found: dict[str, Any] = {}
    for field in fields_of(kind):
        value, plain = given.get(field.name), _plain(field.type)
        if value == "" and field.default is not None:
            name = field.name.upper() if field.argument.is_placed else field.option
            raise SpecError(f"{name} is empty", hint=f"give it a value, or omit {name}")
        if value is None:
            if field.argument.left_out is not None:
                found[field.name] = field.argument.left_out
        elif isinstance(plain, type) and issubclass(plain, StrEnum):
            found[field.name] = known_word(plain, value, field.name.replace("_", " "))
        else:
            found[field.name] = value
    return found


_POLL_SECONDS = 0.5
PlanFlag = Annotated[bool, flag("Only print the commands, with their reasons.")]
BreakArrayFlag = Annotated[bool, flag("Proceed even if an array loses its data.")]


def client_of(context: Context, *, watches: bool = True) -> Client:
    """Return the command as a client of the lab. With ``watches``, it follows an open drill and the open lesson."""

    @contextmanager
    def watching(session: LabSession) -> Iterator[None]:
        with _drilled(context, session), _watched(context, session):
            yield

    narrator = context.narrator
    client = Client(context.target, context.host, narrator.notice, narrator.listen, narrator.announce)
    if context.opener:
        client = replace(client, opener=context.opener)
    return replace(client, while_open=watching) if watches else client


def run_plan(context: Context, action: PlanAction, *, plan: bool = False, wait: bool | None = None) -> None:
    """Make the plan in an open lab, and either print it, or run it, wait if requested, and report the array's state."""
    name = str(getattr(action, "array", ""))
    if action.is_volatile and context.is_embedded and not plan:
        context.narrator.notice("the setting lasts only while the lab is open, so it ends with this command")
    with open_session(client_of(context)) as session:
        made, array = action.plan(session), session.array(name)
        if plan:
            show_plan(context, made)
            return
        if not made.steps:
            context.narrator.notice(made.title)
        session.run(made)
        if session.found.array(name):
            # The array may have a different name now.
            array = session.array(name)
        if action.waits_for and not array.waits_itself:
            # On uml:, the work would stop with this command.
            if session.is_embedded if wait is None else wait:
                wait_with_bar(context, session, array.name, action.waits_for)
            elif session.is_embedded:
                context.narrator.notice(f"the {action.waits_for} continues only in an open lab; use 'raidlab watch'")
        print_array(context, array, array.status_now, made)


def print_array(
    context: Context, array: Array, status: ArrayStatus | None, made: Plan, *, is_long: bool = False
) -> None:
    """Report an array's state, in one line or with all details."""
    if context.json:
        out_json({"array": array.value(status) if status else None, "plan": plan_value(made)})
    elif status is None:
        out(f"{array.name}: not running")
    else:
        out(array_text(array, status) if is_long else status.summary)


def array_text(array: Array, status: ArrayStatus) -> str:
    """Describe an array with all details."""
    facts, tables = array.text(status)
    return "\n\n".join([pairs(facts), *map(fitted, tables)])


def wait_with_bar(context: Context, session: LabSession, name: str, what: str) -> ArrayStatus:
    """Wait for an array's pending syncs, with a progress bar."""
    label = f"{name}: {what}"
    with ProgressBar(quiet=context.quiet) as bar:
        bar.show(label, 0.0)

        def show_progress(status: ArrayStatus) -> None:
            if status.sync_progress:
                bar.show(label, status.sync_progress.fraction)

        return session.array(name).wait(on_status=show_progress)


def show_plan(context: Context, plan: Plan) -> None:
    """Print a plan without running it, with commands on standard output and their reasons on standard error."""
    if context.json:
        out_json(plan_value(plan))
        return
    for step in plan.steps:
        if not context.quiet:
            err(f"# {step.why}")
        out(step.shell_line())
    if not plan.steps and not context.quiet:
        err(f"# {plan.title}: there is nothing to do")


def plan_value(plan: Plan) -> dict[str, Any]:
    """Return a plan for JSON."""
    keys = ("stdin_text", "why", "undo", "danger", "writes_devices")
    steps = [
        {"argv": step.argv, "line": step.shell_line(), **{key: getattr(step, key) for key in keys}}
        for step in plan.steps
    ]
    return {"title": plan.title, "steps": steps}


@contextmanager
def _noted(context: Context, what: str) -> Iterator[None]:
    try:
        yield
    except LabError as error:
        context.narrator.notice(f"{what}: {error.message}")


@contextmanager
def _drilled(context: Context, session: LabSession) -> Iterator[None]:
    """Record writes and typed commands while the lab is open. Report problems without raising errors."""
    # Avoid the cost of the import if no drill is open.
    if not (session.folder / "drill" / "case.json").exists():
        yield
        return
    from lab.drills.desk import open_desk

    desk: DrillDesk | None = None
    with _noted(context, "the drill cannot be read"):
        desk = open_desk(session)
    if desk is None:
        yield
        return
    is_over = threading.Event()
    follower = threading.Thread(target=_follow, args=(desk, is_over), name="raidlab-drill", daemon=True)
    follower.start()
    try:
        yield
    finally:
        is_over.set()
        follower.join()
        # The counters of a lost machine can no longer be read.
        with _noted(context, "the drill cannot be read"), suppress(MachineLost):
            desk.update(is_last=True)


def _follow(desk: DrillDesk, is_over: threading.Event) -> None:
    """Update the drill's counts, and answer requests from inside the machine, until the command has ended."""
    from lab.drills.verbs import answer_one

    while not is_over.wait(_POLL_SECONDS):
        try:
            desk.update()
            if answer_one(desk):
                return
        except LabError:
            return


@contextmanager
def _watched(context: Context, session: LabSession) -> Iterator[None]:
    """Check the open lesson's step after a command. Report problems without raising errors."""
    # Avoid the cost of the import if no lesson is open.
    if not (context.host.state.root / "lessons" / "desk.json").exists():
        yield
        return
    from lab.lessons.engine import displayed
    from lab.lessons.student import Student, Watch

    opened: LessonSession | None = None
    watch: Watch | None = None
    view: StepView | None = None
    with _noted(context, "the lesson cannot be followed"):
        opened = Student(context.host).open_lesson()
        is_here = opened is not None and opened.step is not None and opened.is_in_lab_of(context.target)
        # The arrays of an open drill do not belong to the lesson.
        is_here = is_here and read_arrival(session.folder) is None
        watch = Watch(opened, session) if opened is not None and is_here else None
    yield
    if watch is None or opened is None:
        return
    number = opened.done_count + 1
    with _noted(context, "the lesson cannot be followed"):
        view = watch.evaluate()
    if view is not None and view.is_done:
        words = opened.words
        sentence = words.label("step-done", number=number, count=len(opened.lesson.steps))
        context.narrator.notice(
            f"{opened.lesson.title}: {sentence} 'raidlab lesson show' says why, and what comes next"
        )
    elif view is not None and (mistake := displayed(opened.words, view).mistake):
        context.narrator.notice(f"{opened.words.label('mistake')}: {mistake.hint.strip()}")
