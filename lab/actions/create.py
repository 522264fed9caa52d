"""A new array: on named disks, or on a number of free ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

from lab.actions.action import Argument, PlanAction
from lab.actions.disk_words import (
    bytes_or_none,
    chosen_disks,
    disk_count,
    explicit_disks,
    named_disks,
    split_words,
)
from lab.arrays.array import ArrayKind
from lab.arrays.filesystem import FileSystem
from lab.arrays.kinds import free_name, kind_of_level
from lab.arrays.spec import Bitmap, ConsistencyPolicy, CreateOptions, Spec
from lab.disks import DiskKind, LabDisk
from lab.gates.decoding import DiskCount, Share, checked, real
from lab.gates.text import Name, NameOrNone, Names
from lab.units import GIB

if TYPE_CHECKING:
    from lab.plans import Plan
    from lab.session.session import LabSession


class Create(PlanAction, frozen=True, kw_only=True, tag="array.create"):
    """Create an array on blank lab disks."""

    words = "array create"
    wait_help, waits_on_uml = "Wait for the first resync.", False
    array: Annotated[
        NameOrNone,
        Argument("md0 and so on; the first free one if left out.", also="--name", is_placed=True, left_out=""),
    ] = "md0"
    level: Annotated[
        Name, Argument("raid0, raid1, raid4, raid5, raid6, raid10; adapt5 or shr for disks of different sizes.")
    ]
    disks: Annotated[
        Names, Argument("disk01,disk02,… or how many free ones; the fewest that do if left out, for adapt5 all.")
    ] = ""
    spares: Annotated[Names, Argument("As --disks.")] = ""
    chunk: Annotated[str, Argument("Such as 64K; mdadm takes 512K if left out, adapt5 128K.")] = ""
    layout: Annotated[NameOrNone, Argument("Such as left-symmetric, or f2 for raid10.")] = ""
    bitmap: Annotated[Bitmap | None, Argument("none or internal.")] = None
    bitmap_chunk: Annotated[str, Argument("What one bit stands for, such as 64K; md's choice: 64M or more.")] = ""
    policy: Annotated[ConsistencyPolicy | None, Argument("resync, ppl or journal.")] = None
    journal: Annotated[NameOrNone, Argument("The disk for policy journal.")] = ""
    file_system: Annotated[FileSystem, Argument("File system to make: ext4, xfs or raw.", option="--fs")] = (
        FileSystem.RAW
    )
    assume_clean: Annotated[bool, Argument("No first resync: right only for blank disks.")] = False
    reference: Annotated[
        DiskCount | None,
        Argument("adapt5: data chunks of the full stripe; one for each disk but one if left out."),
    ] = None
    utilisation: Annotated[
        str, Argument("adapt5: how much of each disk to use, as 1,1,0.5; all of each if left out.")
    ] = ""

    def __post_init__(self) -> None:
        """Raises SpecError for errors that do not depend on the disks."""
        self.kind.spec(self._on_any_disks).validate()

    @property
    def waits_for(self) -> str:
        return "first resync"

    @property
    def kind(self) -> ArrayKind:
        """The kind of array that has this level. Raises SpecError for an unknown level."""
        return kind_of_level(self.level)

    @property
    def names_its_disks(self) -> bool:
        """Whether the disks are known without access to the machine."""
        return bool(self.disks) and disk_count(self.disks) is None and disk_count(self.spares) is None

    def spec(self, disks: Sequence[LabDisk], free: Sequence[LabDisk], taken: Sequence[str] = ()) -> Spec:
        """The array on these disks, of which ``free`` are unused; ``taken`` are names of arrays.

        Raises SpecError or ArrayError if a disk is unknown, or too few are free.
        """
        journal = named_disks(self.journal, disks)
        named = [*explicit_disks(self.disks, disks), *explicit_disks(self.spares, disks), *journal]
        free = [disk for disk in free if disk not in named]
        members = chosen_disks(self.disks or str(self.kind.member_count(self.level, len(free))), disks, free)
        rest = [each for each in free if each not in members]
        return self.kind.spec(
            replace(
                self._without_disks,
                name=self.array or free_name(self.kind, taken),
                members=tuple(members),
                spares=tuple(chosen_disks(self.spares, disks, rest)) if self.spares else (),
                journal=next(iter(journal), None),
            )
        )

    def plan(self, session: LabSession) -> Plan:
        return session.creation(self.spec(session.disks, session.free_disks(), session.names()), self.file_system)

    @property
    def _without_disks(self) -> CreateOptions:
        """All options except the disks."""
        policy = ConsistencyPolicy.JOURNAL if self.journal else ConsistencyPolicy.RESYNC
        return CreateOptions(
            level=self.level,
            name=self.array or self.kind.name(0),
            chunk_bytes=bytes_or_none(self.chunk or None, "chunk"),
            layout=self.layout or None,
            bitmap=self.bitmap or (Bitmap.INTERNAL if self.bitmap_chunk else Bitmap.NONE),
            bitmap_chunk_bytes=bytes_or_none(self.bitmap_chunk or None, "bitmap chunk"),
            policy=self.policy or policy,
            assume_clean=self.assume_clean,
            reference=self.reference,
            utilisation=_shares(self.utilisation) if self.utilisation else None,
        )

    @property
    def _on_any_disks(self) -> CreateOptions:
        """Options with placeholder disks of ample size: errors then apply to any disks."""
        options = self._without_disks
        fewest = self.kind.member_count(self.level, len(options.utilisation or ()) or (self.reference or 0) + 2)
        fewest = max(fewest, self.kind.raid(self.level).minimum_members)
        return replace(
            options,
            members=_some_disks(self.disks, fewest, "disk"),
            spares=_some_disks(self.spares, 0, "spare"),
            journal=_some_disk("journal") if self.journal else None,
        )


def _some_disks(words: str, count: int, prefix: str) -> tuple[LabDisk, ...]:
    """As many disks as ``words`` name or count; ``count`` if there are no words."""
    if words:
        wanted = disk_count(words)
        count = len(split_words(words)) if wanted is None else wanted
    return tuple(_some_disk(f"{prefix}{number}") for number in range(count))


def _some_disk(name: str) -> LabDisk:
    return LabDisk(name=name, kind=DiskKind.FILE, node=f"/dev/{name}", size_bytes=1024 * GIB)


def _shares(text: str) -> tuple[float, ...]:
    return tuple(checked(real(word, "utilisation"), Share, "utilisation") for word in split_words(text))
