"""The description of a verb: its arguments, its preconditions, and its plan or effect.

Every interface to a verb is generated from its class: the ``raidlab`` command with its options and help, the app's key,
menus and palette, the commands in text mode, and ``act`` in lesson files.
"""

from __future__ import annotations

import shlex
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from lab.arrays.array import ArraysToPlan
from lab.arrays.status import ArrayStatus, MemberStatus
from lab.disks.kinds import LabDisk
from lab.gates.decoding import Name, convert
from lab.plans import Plan

if TYPE_CHECKING:
    from lab.session.session import LabSession


@dataclass(frozen=True, slots=True)
class Selection:
    """The selected disk and array, as of the newest sample."""

    is_open: bool
    """Whether the machine is running."""
    array: ArrayStatus | None = None
    """The running array that contains the selected disk; if there is none, the selected array."""
    disk: LabDisk | None = None
    member: MemberStatus | None = None
    """The disk as a member of ``array``, or None if it is not a member."""
    free_disk: LabDisk | None = None
    """The disk that 'add' would add to the array, or None if no free disk is suitable."""
    is_pulled: bool = False
    was_member: bool = False
    """Whether the disk has left ``array`` and still contains its metadata."""
    has_known_data: bool = False
    has_load: bool = False
    """Whether a load is running, on any array."""
    stopped_array: str = ""
    """The name of an array on the disks that is not running, or an empty string if all of them are running."""

    @property
    def array_name(self) -> str:
        return self.array.name if self.array else ""

    @property
    def disk_name(self) -> str:
        return self.disk.name if self.disk else ""

    @property
    def lack_of_array(self) -> str:
        if self.array:
            return ""
        return f"{self.stopped_array} is stopped" if self.stopped_array else "there is no array yet"

    @property
    def lack_of_disk(self) -> str:
        return "" if self.disk else "no disk is selected"

    def filled(self, text: str) -> str:
        """Return ``text`` with names substituted for ``{array}``, ``{disk}`` and ``{new}``."""
        new = self.free_disk.name if self.free_disk else ""
        return text.format(array=self.array_name, disk=self.disk_name, new=new)


class Fills(StrEnum):
    """The selected object that the app inserts for an argument."""

    ARRAY = "array"
    DISK = "disk"
    FREE_DISK = "free disk"


@dataclass(frozen=True, slots=True)
class Argument:
    """How an argument is specified; the type of its field defines the valid values."""

    help: str = ""
    option: str = ""
    """The option, such as ``--min``; if empty, it is derived from the field's name."""
    also: str = ""
    """Another name for the option, for example for scripts written for earlier versions."""
    is_placed: bool = False
    """Whether it is a positional argument on the command line, not an option; their order is that of the fields."""
    is_needed: bool = False
    """Whether the command line requires it; a lesson file may omit it if the field has a default."""
    left_out: str | None = None
    """The argument's value if it is omitted on the command line; None means the field's default."""
    fills: Fills | None = None


@dataclass(frozen=True, slots=True)
class Choice:
    """One possible value of an argument, shown as a menu entry."""

    id: str
    label: str
    detail: str = ""
    key: str = ""
    """The key that selects it directly; if empty, it can be selected only with the cursor."""


@dataclass(frozen=True, slots=True)
class Field:
    """An argument of an action."""

    name: str
    type: Any
    """The field's type without ``Argument``, but with msgspec's constraints."""
    argument: Argument
    default: Any
    """``msgspec.NODEFAULT`` if there is none."""

    @property
    def is_required(self) -> bool:
        return self.default is msgspec.NODEFAULT

    @property
    def when_left_out(self) -> Any:
        return self.default if self.argument.left_out is None else self.argument.left_out

    @property
    def option(self) -> str:
        return self.argument.option or f"--{self.name.replace('_', '-')}"


ArrayName = Annotated[
    Name, Argument("The array, such as md0.", also="--name", is_placed=True, is_needed=True, fills=Fills.ARRAY)
]
MemberName = Annotated[Name, Argument("The disk, such as disk02.", is_placed=True, is_needed=True, fills=Fills.DISK)]
FreeDiskName = Annotated[
    Name, Argument("The new disk, such as disk05.", is_placed=True, is_needed=True, fills=Fills.FREE_DISK)
]


Needs = tuple[Callable[[Selection], str], ...]
"""The conditions of an action: functions that return the obstacle as the end of a sentence, or an empty string."""


class Verb(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="act"):
    """One operation that a user can request. The first line of a subclass's docstring is its help text."""

    words: ClassVar[str] = ""
    """The words of the command after ``raidlab``."""
    has_command: ClassVar[bool] = True
    """False if ``words`` belong to another action, whose command also performs this one."""
    key: ClassVar[str] = ""
    """The key in the app, or an empty string if the verb has no key of its own."""
    alias: ClassVar[str] = ""
    """The name in keymaps and in text mode; if empty, it is the last of ``words``."""
    label: ClassVar[str] = ""
    tooltip: ClassVar[str] = ""

    @classmethod
    def short_name(cls) -> str:
        return cls.alias or cls.words.rpartition(" ")[2]

    @classmethod
    def summary(cls) -> str:
        return (cls.__doc__ or "").strip().partition("\n")[0]

    def by_hand(self) -> str:
        return " ".join([f"raidlab {self.words}", *self.placed_words(), *self.option_words()])

    def placed_words(self) -> Iterator[str]:
        for field in fields_of(type(self)):
            value = getattr(self, field.name)
            if field.argument.is_placed and (field.argument.is_needed or value != field.when_left_out):
                yield shlex.quote(f"{value}")

    def option_words(self) -> Iterator[str]:
        for field in fields_of(type(self)):
            value = getattr(self, field.name)
            if field.argument.is_placed or value == field.default:
                continue
            yield field.option if value is True else f"{field.option} {shlex.quote(f'{value}')}"


class Action(Verb, frozen=True, kw_only=True):
    """An operation on disks, arrays or loads of an open lab.

    A subclass with a tag (its name in lesson files) is an action; a subclass without one is a base class. New tags join
    words with a hyphen, as commands do (``array.re-add``), whereas the tags of checks have underscores.
    """

    in_footer: ClassVar[bool] = False
    picks: ClassVar[str] = ""
    """The argument for which the app offers ``choices``; choosing a value also confirms the action."""
    title: ClassVar[str] = ""
    intro: ClassVar[str] = ""
    """The text above the choices; ``Selection.filled`` replaces the placeholders in braces."""
    asks: ClassVar[str] = ""
    """The flag that the app sets because it shows the plan and its effect on the array and asks for confirmation."""
    in_lessons: ClassVar[bool] = True
    needs: ClassVar[Needs] = ()
    """Further conditions in the app, after those of the base classes; for commands, ``plan`` checks what is needed."""
    effect: ClassVar[str] = ""
    """What the action does, shown with the plan; ``Selection.filled`` replaces the placeholders in braces."""

    @classmethod
    def acts_on(cls) -> Fills:
        return Fills.DISK if any(field.argument.fills is Fills.DISK for field in fields_of(cls)) else Fills.ARRAY

    @classmethod
    def obstacle(cls, it: Selection) -> str:
        """Return why the action is impossible on the selection, as the end of a sentence, or "" if it is possible."""
        if not it.is_open:
            return "the machine is not running"
        needs = (need for kind in reversed(cls.__mro__) for need in vars(kind).get("needs", ()))
        return next(filter(None, (need(it) for need in needs)), "")

    @classmethod
    def choices(cls) -> list[Choice]:
        return []

    @classmethod
    def chosen(cls, value: str) -> Mapping[str, Any]:
        return {field.name: convert(value, field.type) for field in fields_of(cls) if field.name == cls.picks}

    @classmethod
    def note(cls, it: Selection) -> str:
        return it.filled(cls.effect)

    @classmethod
    def on_selection(cls: type[A], it: Selection, **more: Any) -> A:
        things = {Fills.ARRAY: it.array, Fills.DISK: it.disk, Fills.FREE_DISK: it.free_disk}
        filled = {
            field.name: thing.name
            for field in fields_of(cls)
            if field.argument.fills and (thing := things[field.argument.fills])
        }
        return cls(**{**filled, **({cls.asks: True} if cls.asks else {}), **more})

    def perform(self, session: LabSession) -> object:
        """Run the action in an open lab; an action that lessons cannot use need not implement it. Raises LabError."""
        raise NotImplementedError


A = TypeVar("A", bound=Action)


class PlanAction(Action, frozen=True, kw_only=True):
    """An action that consists of a single plan, which can be shown before it runs."""

    wait_help: ClassVar[str] = ""
    """The help text of ``--wait``, or an empty string if the command has no such option."""
    waits_on_uml: ClassVar[bool] = True
    """Whether the command waits by default on uml:, where the machine, and md's work with it, ends with the command."""
    is_volatile: ClassVar[bool] = False
    """Whether md keeps the setting only in memory, so that it is lost on uml: and qemu: when the command ends."""
    long_work: ClassVar[str] = ""
    """The long-running work that md does afterwards, for example ``rebuild``, or an empty string if there is none."""

    @property
    def waits_for(self) -> str:
        return self.long_work

    @abstractmethod
    def plan(self, session: LabSession) -> Plan:
        """Return the plan of the action. Raises LabError if the action is not possible."""

    def perform(self, session: LabSession) -> object:
        session.run(self.plan(session))
        return None


class OperationAction(PlanAction, frozen=True, kw_only=True):
    """An operation whose plan depends only on the arrays and their disks, so that fault scenarios can use it too."""

    @abstractmethod
    def plan(self, arrays: ArraysToPlan) -> Plan:
        """Return the plan of the operation. Raises LabError if it is not possible."""


class ArrayAction(Action, frozen=True, kw_only=True):
    """An action on a running array."""

    needs: ClassVar[Needs] = (attrgetter("lack_of_array"),)
    array: ArrayName = "md0"


class MemberAction(Action, frozen=True, kw_only=True):
    """An action on a disk, which may belong to an array."""

    needs: ClassVar[Needs] = (attrgetter("lack_of_disk"),)
    array: ArrayName = "md0"
    disk: MemberName


@cache
def fields_of(kind: type[Verb]) -> tuple[Field, ...]:
    """Return the arguments in declaration order, those of base classes first."""
    hints = get_type_hints(kind, include_extras=True)
    return tuple(
        Field(field.name, *_parted(hints[field.name]), field.default) for field in msgspec.structs.fields(kind)
    )


def _parted(hint: Any) -> tuple[Any, Argument]:
    if get_origin(hint) is not Annotated:
        return hint, Argument()
    bare, *extras = get_args(hint)
    argument = next((each for each in extras if isinstance(each, Argument)), Argument())
    rest = tuple(each for each in extras if not isinstance(each, Argument))
    return (Annotated[(bare, *rest)] if rest else bare), argument
