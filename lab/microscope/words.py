"""The results of the microscope as sentences, for the command line and the app."""

from __future__ import annotations

from collections.abc import Sequence

from lab.microscope.array_map import BLOCK_SECTORS
from lab.microscope.comparison import StripeVerdict
from lab.microscope.picture import StripePicture
from lab.microscope.reading import MappedArray
from lab.microscope.small_write import CrashState, ObservedWrite, SmallWrite
from lab.units import SECTOR_BYTES, human_bytes

_COPIED = ("raid1", "raid10")


def shape_words(shape: MappedArray) -> str:
    """The geometry in one line: ``md0: raid5 left-symmetric, 4 members, chunk 64 KiB``."""
    words = [f"{shape.name}: {shape.level} {shape.layout_word}".rstrip(), f"{shape.geometry.slots} members"]
    words += [f"chunk {human_bytes(shape.chunk_sectors * SECTOR_BYTES)}"] if shape.chunk_sectors else []
    if shape.reshaping:
        words.append(f"being reshaped, at sector {shape.reshaping.position}")
    return ", ".join(words)


def slot_name(shape: MappedArray, slot: int) -> str:
    """The name of the disk in a slot."""
    found = shape.members_in(slot)
    return found[0].name if found else f"slot {slot}"


def moment_words(picture: StripePicture) -> str:
    """Whether the picture was read at one moment."""
    if picture.is_one_moment:
        return "one moment: writes to this stripe waited while the members were read"
    return f"not of one moment: {picture.why_not}"


def judged_words(picture: StripePicture) -> list[str]:
    """The result of the comparison: whether the stripe is consistent, and which member is wrong if this is known."""
    comparison, level = picture.comparison, picture.shape.level
    if comparison.verdict is StripeVerdict.UNKNOWN:
        if level in ("raid0", "linear"):
            return [f"{level} keeps nothing twice: there is nothing to compare."]
        return ["Too much is missing to compare anything: what remains cannot be verified."]
    what = "Copies" if level in _COPIED else "Data and parity"
    if comparison.verdict is StripeVerdict.AGREES:
        return [f"{what} agree."]
    words = []
    if picture.awaits_resync:
        words.append("md has not come here so far with the resync that is due: it will make them fit by itself.")
    for seen in comparison.cells:
        if seen.differs and seen.data is not None:
            held = picture.name_of(seen.cell.slot)
            other = "the first copy" if level in _COPIED else "what the data give"
            words.append(
                f"{seen.cell.words} on {held} differs from {other} in {_bytes(len(seen.differs))}, "
                f"the first at byte {picture.skip_bytes + seen.differs[0]} of the chunk."
            )
    blamed = comparison.blamed
    if blamed:
        place = blamed.bytes_wrong[0]
        words.append(
            f"Wrong is {picture.name_of(blamed.slot)}: {blamed.reason}. Its byte {picture.skip_bytes + place} should "
            f"be {blamed.right[place]:02x}."
        )
    else:
        words.append(f"Which member is wrong cannot be told: {comparison.why_unknown}.")
    return words


def repair_words(picture: StripePicture) -> list[str]:
    """The effect of reads, a check and a repair on the stripe, and why a repair may be wrong."""
    comparison, shape = picture.comparison, picture.shape
    if comparison.verdict is not StripeVerdict.DIFFERS:
        return []
    read = "what the data chunk holds" if shape.is_parity else "whichever copy md chooses"
    words = [
        f"A read gives {read}: md compares nothing then. A check adds {comparison.mismatch_sectors} sectors to "
        "mismatch_cnt and changes nothing."
    ]
    names = [picture.name_of(slot) for slot, _ in comparison.repaired]
    targets = ", ".join(dict.fromkeys(names))
    if shape.is_parity:
        words.append(f"A repair computes parity anew from the data as they are, and writes it on {targets}.")
        blamed = comparison.blamed
        if blamed is None:
            words.append("If data are wrong, and not parity, that makes the wrong bytes permanent.")
        elif blamed.kind.is_parity:
            words.append("That is right here: the data are good.")
        else:
            words.append(
                f"That is wrong here: the data of {picture.name_of(blamed.slot)} are bad, and afterwards nothing tells "
                "it any more. md does not use P and Q to find out; a rebuild of that member alone would mend it."
            )
    else:
        words.append(f"A repair copies the first copy over the others, here on {targets}, whoever is right.")
        blamed = comparison.blamed
        if blamed is None:
            words.append("If the first copy is the wrong one, that makes the wrong bytes permanent.")
        elif (blamed.slot, blamed.sector) not in comparison.repaired:
            words.append(f"That is wrong here: the first copy is the one on {picture.name_of(blamed.slot)}.")
        else:
            words.append("That is right here, and by luck: md counts no votes.")
    return words


def _bytes(count: int) -> str:
    return "1 byte" if count == 1 else f"{count} bytes"


def write_head(shape: MappedArray, write: SmallWrite) -> list[str]:
    """The method that md uses for a small write, with the reason."""
    block = write.sector // BLOCK_SECTORS
    first = f"A write of block {block}, in stripe {write.stripe}: {write.way}."
    if not shape.is_parity:
        return [first, f"Here {write.reason}."]
    counts = (("read-modify-write", write.modify_reads), ("reconstruct-write", write.reconstruct_reads))
    reads = [f"{way} reads {'what is missing' if count is None else f'{count} blocks'}" for way, count in counts]
    return [first, f"{reads[0].capitalize()}; {reads[1]}. Chosen: {write.reason}."]


def write_tail(shape: MappedArray, write: SmallWrite) -> list[str]:
    """The order of writes to members, and additional I/O."""
    order = [slot_name(shape, slot) for slot in write.written_slots]
    words = [f"md submits the writes in this order: {', '.join(order)}; drives may finish them in any."]
    return [*(words if len(order) > 1 else []), *(f"On top: {more}." for more in write.further)]


def observed_words(seen: ObservedWrite) -> list[str]:
    """Whether md's I/O was as predicted."""
    if not seen.predicted.is_predicted:
        return ["The journal is in write-back mode: members are written when md sees fit."]
    if not seen.differences:
        return ["md did just what was predicted."]
    return ["md's I/O differs from the prediction:", *(f"  {words}" for words in seen.differences)]


def crash_head(write: SmallWrite) -> str:
    """The title of the table of crash states."""
    return f"A crash during the write of block {write.sector // BLOCK_SECTORS}, whose bits are all turned over."


def crash_words(shape: MappedArray, states: Sequence[CrashState]) -> list[str]:
    """The content of the table of crash states as sentences."""
    holes = [(state, read) for state in states for read in state.reads if read.holes]
    words = []
    if any(not read.outcome.is_right for read in states[0].reads if len(read.lost) < 2):
        words.append("The stripe is wrong already, before anything is written: the first line shows it.")
    pairs = [(state, read) for state in states for read in state.reads if len(read.lost) == 2]
    if holes:
        count = sum(len(state.reads) for state in states)
        words.append(
            f"{len(holes)} of {count} cases are the WRITE HOLE: a block that nobody was writing reads as bytes that "
            "nobody wrote, and md says nothing."
        )
    elif shape.is_parity:
        words.append("No case is the write hole: blocks that nobody was writing read right in all of them.")
    if pairs:
        bad = {read.lost for _, read in pairs if not read.outcome.is_right}
        names = [" and ".join(slot_name(shape, slot) for slot in lost) for lost in sorted(bad)]
        words.append(f"Of two members lost at once these pairs can read wrong: {', '.join(names) or 'none'}.")
    if shape.level in _COPIED:
        return [*words, _BY_COPYING]
    afterwards = _AFTERWARDS.get(shape.files["consistency_policy"], "") if shape.is_parity else ""
    return [*words, afterwards] if afterwards else words


_BY_COPYING = "After such a stop md copies one over the others, and from then on all reads give the same: old or new."
_BY_RESYNC = (
    "After such a stop md makes parity fit again: with all members nothing is wrong then. Degraded, the array starts "
    "only by force."
)
_AFTERWARDS = {
    "resync": _BY_RESYNC,
    "bitmap": _BY_RESYNC,
    "ppl": "These are reads after md has replayed the partial parity log: it protects what was not being written.",
    "journal": "These are reads after md has replayed the journal that holds the whole write; before that all is old.",
}
