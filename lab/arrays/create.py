"""Plans that bring an array into being, start and stop it, and remove its traces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from lab.arrays.level_names import parse_level
from lab.arrays.levels import LevelName
from lab.arrays.names import array_device
from lab.arrays.spec import ArraySpec, ConsistencyPolicy
from lab.errors import SpecError
from lab.plans import Danger, Plan, Step
from lab.units import KIB

ASSEMBLE_TIMEOUT_SECONDS = 60.0


def create(spec: ArraySpec) -> Plan:
    """Create the array that ``spec`` describes; no steps for a single disk, which is used as it is.

    Raises SpecError that lists every problem of the spec.
    """
    spec.validate()
    if not spec.is_array:
        return Plan("Use the bare disk")
    step = Step(
        argv=tuple(_create_argv(spec)),
        why=_create_why(spec),
        undo=("mdadm", "--stop", spec.device),
        danger=Danger.DATA,
        writes_devices=spec.devices,
    )
    return Plan(f"Create {spec.name} as {spec.raid.name.value}", (step,))


def assemble(name: str, members: Sequence[str], *, force: bool = False) -> Plan:
    """Start an existing array from its members (journal and spares among them).

    ``force`` also takes members whose event counts differ: it may bring back data that is out of date.

    Where the array then is read-auto, as on Debian 12, a pending sync waits for the first write (md.rst).
    """
    if not members:
        raise SpecError(f"array {name}: no members to assemble from", hint="name the devices that held the array")
    device = array_device(name)
    options = ("--run", "--force") if force else ("--run",)
    why = "md reads the superblock of each member, puts the members in their slots and starts the array"
    if force:
        why += ", even where superblocks disagree about what was written last"
    step = Step(
        argv=("mdadm", "--assemble", *options, device, *members),
        why=f"{why}.",
        undo=("mdadm", "--stop", device),
        danger=Danger.DATA if force else Danger.NONE,
        writes_devices=tuple(members),
        timeout_seconds=ASSEMBLE_TIMEOUT_SECONDS,
    )
    return Plan(f"Assemble {name}", (step,))


def stop(name: str, members: Sequence[str] = ()) -> Plan:
    """Stop an array; with ``members`` the step also tells how to start it again."""
    device = array_device(name)
    step = Step(
        argv=("mdadm", "--stop", device),
        why="md writes the superblocks as clean and lets go of the members; the data stays on them.",
        undo=("mdadm", "--assemble", "--run", device, *members) if members else (),
        writes_devices=(device,),
    )
    return Plan(f"Stop {name}", (step,))


def zero_superblocks(devices: Sequence[str]) -> Plan:
    """Erase the md superblock of each device, so that no later assembly finds the old array."""
    steps = (
        Step(
            argv=("mdadm", "--zero-superblock", device),
            why=f"{device} forgets that it was a member, so nothing assembles it into the old array again.",
            danger=Danger.DATA,
            writes_devices=(device,),
        )
        for device in devices
    )
    return Plan.of("Erase md superblocks", steps)


def destroy(spec: ArraySpec) -> Plan:
    """Stop the array and erase its traces from every device; no steps for a single disk."""
    if not spec.is_array:
        return Plan("Release the bare disk")
    plan = stop(spec.name) + zero_superblocks(spec.devices)
    return Plan(f"Remove {spec.name}", plan.steps)


def _create_argv(spec: ArraySpec) -> Iterator[str]:
    level = spec.raid
    yield from ("mdadm", "--create", spec.device, "--run")
    yield f"--metadata={spec.metadata_version}"
    # "any" in place of the host name: every machine takes the array for its own (mdadm(8), AUTO-ASSEMBLY).
    yield "--homehost=any"
    yield f"--level={level.name.value}"
    yield f"--raid-devices={len(spec.members)}"
    if spec.effective_chunk_bytes is not None:
        yield f"--chunk={spec.effective_chunk_bytes // KIB}"
    layout = spec.layout or _DEFAULT_LAYOUTS.get(level.name)
    if layout:
        yield f"--layout={layout}"
    if level.is_redundant:
        # mdadm 4.4 asks about a bitmap unless it is told (mdadm issue #133).
        yield f"--bitmap={spec.bitmap.value}"
        if spec.bitmap_chunk_bytes is not None:
            yield f"--bitmap-chunk={spec.bitmap_chunk_bytes // KIB}"
        # mdadm derives the policies "bitmap" and "journal" from --bitmap and --write-journal.
        if spec.consistency_policy is ConsistencyPolicy.PPL:
            yield "--consistency-policy=ppl"
    if spec.assume_clean:
        yield "--assume-clean"
    if spec.spares:
        yield f"--spare-devices={len(spec.spares)}"
    if spec.journal_device:
        yield f"--write-journal={spec.journal_device}"
    yield from spec.members + spec.spares


_DEFAULT_LAYOUTS = {LevelName.RAID5: "left-symmetric", LevelName.RAID6: "left-symmetric", LevelName.RAID10: "n2"}

_FIRST_SYNC = {
    LevelName.RAID0: "chunks go to the members in turn; there is nothing to synchronise",
    LevelName.RAID1: "every member gets a copy of everything; md first copies one member over the others",
    LevelName.RAID4: "the last member holds the parity; md first computes it for the whole array",
    LevelName.RAID5: "one chunk of every stripe is parity; md builds it first by rebuilding one member from the others",
    LevelName.RAID6: "two chunks of every stripe are parity; md first computes them for the whole array",
    LevelName.RAID10: "chunks are mirrored and striped; md first copies each chunk over its mirrors",
}


def _create_why(spec: ArraySpec) -> str:
    sentence = _FIRST_SYNC[parse_level(spec.level).name]
    if spec.assume_clean:
        sentence = sentence.split(";")[0] + "; the first synchronisation is left out because the members are blank"
    return f"mdadm writes a superblock on every member and starts the array: {sentence}."
