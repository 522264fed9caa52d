"""The work of the Stripe screen on the lab's own thread, and the text about its result."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lab.microscope.array_map import FoundPlace
    from lab.microscope.picture import StripePicture
    from lab.microscope.small_write import CrashState, SmallWrite
    from lab.plans import Plan
    from lab.session.session import LabSession


@dataclass(frozen=True, slots=True)
class Told:
    """The text below the bytes in place of the verdict: a write or a crash, step by step."""

    title: str
    words: tuple[str, ...]
    write: SmallWrite | None = None
    states: tuple[CrashState, ...] = ()
    names: tuple[str, ...] = ()


def look(name: str, number: int, session: LabSession) -> StripePicture:
    """Read a stripe from its members."""
    from lab.microscope.picture import look_at_stripe

    return look_at_stripe(session, name, number)


def find(name: str, text: str, session: LabSession) -> FoundPlace:
    """The stripe and the member that hold a place; ``text`` is the place as the user typed it."""
    from lab.microscope.array_map import find_place

    return find_place(session, name, text)


def flip(name: str, stripe: int, disk: str, byte: int, session: LabSession) -> Plan:
    """The plan that flips a byte of a stripe; the stripe is read first."""
    from lab.microscope.picture import flip_plan, look_at_stripe

    return flip_plan(look_at_stripe(session, name, stripe), session.node(disk), byte)


def stepped_write(name: str, sector: int, session: LabSession) -> Told:
    """The predicted I/O of a small write to a block."""
    from lab.microscope.small_write import picture_of_block
    from lab.microscope.words import write_head, write_tail

    write, picture = picture_of_block(session, name, sector)
    shape = picture.shape
    table = [
        f"  {io.name}: {io.kind.value if io.kind else 'other data'}, {io.reads} read, {io.writes} written"
        for io in write.ios
        if io.reads or io.writes
    ]
    words = [*write_head(shape, write), *table, *write_tail(shape, write)]
    return Told("A small write", tuple(words), write)


def stepped_crash(name: str, sector: int, session: LabSession) -> Told:
    """The states that a crash during such a write can leave."""
    from lab.microscope.small_write import crash_states, new_content, picture_of_block
    from lab.microscope.words import crash_head, crash_words, slot_name

    write, picture = picture_of_block(session, name, sector)
    states = crash_states(picture, write, new_content(picture, write))
    names = tuple(slot_name(picture.shape, slot) for slot in range(picture.geometry.slots))
    return Told(crash_head(write), tuple(crash_words(picture.shape, states)), write, states, names)


def really_written(name: str, sector: int, session: LabSession) -> Told:
    """Write the block, and compare md's I/O with the prediction."""
    from lab.microscope.small_write import write_really
    from lab.microscope.words import observed_words

    seen = write_really(session, name, sector)
    wanted = {(io.slot, io.name): io for io in seen.predicted.ios}
    table = [
        f"  {io.name}: read {io.read_bytes} bytes, wrote {io.written_bytes}; "
        f"predicted {wanted[io.slot, io.name].read_bytes} and {wanted[io.slot, io.name].written_bytes}"
        for io in seen.members
    ]
    return Told(f"Block {sector // 8} was written", (*observed_words(seen), *table), seen.predicted)
