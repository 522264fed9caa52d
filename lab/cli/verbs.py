"""Commands generated from verbs (``lab.actions.action``): their arguments, options and help."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import StrEnum
from functools import partial
from types import NoneType, UnionType
from typing import Annotated, Any, Union, get_args, get_origin

from cyclopts import App, CycloptsError, Parameter

from lab.actions.action import Field, PlanAction, Verb, fields_of
from lab.cli.arguments import number, usage_words
from lab.cli.context import current
from lab.errors import SpecError
from lab.tomlfile import known_word

Runner = Callable[..., int | None]
"""Runs a verb: receives the context, the verb and, as ``plan`` and ``wait``, the additional options."""
_PLAN = Annotated[
    bool, Parameter(negative="", show_default=False, help="Print the commands and what they are for; do nothing.")
]


def add_verbs(app: App, kinds: Iterable[type[Verb]], runners: Mapping[type[Verb], Runner]) -> None:
    """Add a command to ``app``'s group for each verb that has one. Verbs without a runner use that of ``Verb``."""
    for kind in kinds:
        above, _, name = kind.words.rpartition(" ")
        if kind.has_command and above == app.name[0]:
            app.command(command_of(kind, runners.get(kind) or runners[Verb]), name=name)


def command_of(kind: type[Verb], run: Runner) -> Callable[..., None]:
    """A function with the verb's signature and help, for cyclopts to parse; ``arguments.call_of`` runs the verb."""

    def form(*_placed: Any, **_named: Any) -> None:
        raise AssertionError("verbs are run by their runners")

    form.__signature__ = inspect.Signature([*_parameters(kind)])  # type: ignore[attr-defined] # cyclopts asks for it
    form.__name__ = kind.words.rpartition(" ")[2].replace("-", "_")
    form.__doc__ = kind.__doc__
    form.verb, form.call_of = kind, partial(_call_of, kind, run)  # type: ignore[attr-defined] # for call_of, typed_verb
    return form


def _call_of(kind: type[Verb], run: Runner, bound: inspect.BoundArguments) -> Callable[[], int | None]:
    options = {name: value for name, value in bound.arguments.items() if name in _besides(kind)}
    return partial(run, current(), kind(**_values(kind, bound.arguments)), **options)


def typed_verb(app: App, words: list[str]) -> Verb | None:
    """The verb for these words of ``raidlab``; None for other commands, and with command-line-only options.

    Raises SpecError for an unknown command, and for invalid values.
    """
    if not words or words[0].startswith("-"):
        return None
    try:
        command, bound, _ = app.parse_args(words, print_error=False, exit_on_error=False)
    except CycloptsError as error:
        message, hint = usage_words(error)
        raise SpecError(message, hint=hint) from None
    kind: type[Verb] | None = getattr(command, "verb", None)
    if kind is None or any(name in bound.arguments for name in _besides(kind)):
        return None
    return kind(**_values(kind, bound.arguments))


def _besides(kind: type[Verb]) -> tuple[str, ...]:
    """Options of the command that are no fields of the verb."""
    return ("plan", "wait") if issubclass(kind, PlanAction) else ()


def _parameters(kind: type[Verb]) -> Iterator[inspect.Parameter]:
    fields = fields_of(kind)
    for field in sorted(fields, key=lambda field: not field.argument.is_placed):
        how = inspect.Parameter.POSITIONAL_OR_KEYWORD if field.argument.is_placed else inspect.Parameter.KEYWORD_ONLY
        has_default = not (field.argument.is_needed or field.is_required)
        default = (False if field.type is bool else None) if has_default else inspect.Parameter.empty
        yield inspect.Parameter(field.name, how, default=_shown_default(field, default), annotation=_annotation(field))
    if issubclass(kind, PlanAction):
        if kind.wait_help:
            yield inspect.Parameter("wait", inspect.Parameter.KEYWORD_ONLY, default=None, annotation=_wait(kind))
        yield inspect.Parameter("plan", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=_PLAN)


def _wait(kind: type[PlanAction]) -> Any:
    if kind.waits_on_uml:
        return Annotated[bool | None, Parameter(show_default=False, help=kind.wait_help)]
    return Annotated[bool | None, Parameter(negative="", show_default=False, help=kind.wait_help)]


def _shown_default(field: Field, default: Any) -> Any:
    """The help omits empty defaults."""
    value = field.when_left_out
    return value if default is None and value not in ("", None) else default


def _annotation(field: Field) -> Any:
    """The type for cyclopts: words are parsed by ``_values``, whose errors have hints."""
    plain = _plain(field.type)
    argument = field.argument
    name, help_text = [argument.option or f"--{field.name.replace('_', '-')}"], argument.help
    name += [argument.also] if argument.also else []
    if plain is bool:
        return Annotated[bool, Parameter(negative="", show_default=False, name=name, help=help_text)]
    if plain in (int, float):
        bounded, kind = _bounded(field.type), plain | None if field.when_left_out is None else plain
        if get_origin(bounded) is not Annotated:
            return Annotated[kind, Parameter(name=name, help=help_text, show_default=False)]
        return Annotated[kind, number(bounded, name=name, help=help_text)]
    is_needed = field.argument.is_needed or field.is_required
    return Annotated[str if is_needed else str | None, Parameter(name=name, help=help_text)]


def _plain(kind: Any) -> Any:
    """The class of a value, without constraints and without None."""
    if get_origin(kind) is Annotated:
        return _plain(get_args(kind)[0])
    if get_origin(kind) in (Union, UnionType):
        return _plain(next(each for each in get_args(kind) if each is not NoneType))
    return kind


def _bounded(kind: Any) -> Any:
    if get_origin(kind) in (Union, UnionType):
        return next(each for each in get_args(kind) if each is not NoneType)
    return kind


def _values(kind: type[Verb], given: Mapping[str, Any]) -> dict[str, Any]:
    """The given fields, converted to their types.

    Raises SpecError with the nearest word of an enumeration, and for an empty word where that would mean "omitted": it
    comes from an unset variable.
    """
    found: dict[str, Any] = {}
    for field in fields_of(kind):
        value, plain = given.get(field.name), _plain(field.type)
        if value == "" and field.default is not None:
            name = field.name.upper() if field.argument.is_placed else field.option
            raise SpecError(f"{name} is empty", hint=f"write its value, or leave {name} out")
        if value is None:
            if field.argument.left_out is not None:
                found[field.name] = field.argument.left_out
        elif isinstance(plain, type) and issubclass(plain, StrEnum):
            found[field.name] = known_word(plain, value, field.name.replace("_", " "))
        else:
            found[field.name] = value
    return found
