"""Plans that change the shape of a running array: more members, larger members, another level.

A reshape moves data. 1.2 metadata reserve free space before the data ("headroom") between the old and the new place; if
that is too small, or the number of data members stays the same, md needs a backup file outside the array.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from lab.arrays.level_names import parse_level
from lab.arrays.levels import LevelName
from lab.arrays.names import array_device
from lab.errors import SpecError
from lab.machine import RUN_FOLDER
from lab.plans import Danger, Plan, Step

BACKUP_FOLDER = f"{RUN_FOLDER}/backup"
RESHAPE_START_TIMEOUT_SECONDS = 120.0

# A defect of md in Linux 6.12 and 7.2, not in 6.1: docs/arrays.md.
_QUIET_START = "Let nothing read it at the moment this begins: newer kernels may then return another block's data."


def grow_members(name: str, level: str, members: int, added: Sequence[str], spares: Sequence[str] = ()) -> Plan:
    """Add devices and reshape the array onto its members, those of its ``spares`` that join, and the added ones.

    ``members`` is the present number of slots. Raises SpecError for RAID 10.
    """
    if not added and not spares:
        raise SpecError(f"array {name}: no devices to grow on", hint="name at least one device")
    kind, array = parse_level(level).name, array_device(name)
    if kind is LevelName.SINGLE:
        raise SpecError("a single disk cannot grow", hint="create a raid0 or raid1 array")
    if kind is LevelName.RAID10:
        # On Linux 6.1 the resync of the new part can hang forever, and then the array cannot be stopped either.
        raise SpecError(f"array {name}: the lab does not grow raid10", hint="create a larger raid10 and copy the data")
    count = members + len(spares) + len(added)
    number = f"--raid-devices={count}"
    if kind is LevelName.RAID0:
        # RAID 0 has no spares: mdadm passes through RAID 4 and takes the new devices in one command (mdadm(8), --grow).
        why = "Without spares the devices join in the same step; md spreads every stripe anew by way of RAID 4."
        grow = ("mdadm", "--grow", array, number, "--add", *added)
        return Plan(f"Grow {name} to {count} members", (_grow(grow, array, added, why),))
    mirrored = "md copies the mirror to the new members." if kind is LevelName.RAID1 else ""
    why = mirrored or f"md spreads every stripe anew over all members; the array can be used meanwhile. {_QUIET_START}"
    grow = ("mdadm", "--grow", array, number)
    add = _add_steps(array, added, "The new devices become spares, so that md knows them.")
    return Plan(f"Grow {name} to {count} members", (*add, _grow(grow, array, spares, why)))


def grow_size(name: str) -> Plan:
    """Use all of each member, after members were replaced by larger ones; md refuses while the policy is ppl."""
    array = array_device(name)
    why = "md takes into use what the smallest member has to spare, and synchronises the new part."
    step = _grow(("mdadm", "--grow", array, "--size=max"), array, (), why)
    return Plan(f"Grow {name} to the size of its members", (step,))


def grow_level(
    name: str,
    old_level: str,
    new_level: str,
    members: int,
    added: Sequence[str] = (),
    spares: Sequence[str] = (),
) -> Plan:
    """Change the level in place: raid1 to raid5, raid5 to raid6.

    ``members`` is the present number of slots; ``added`` and ``spares`` the devices that join. RAID 1 must have two
    members: a RAID 5 of two holds the same bytes, so nothing moves. RAID 6 needs one device more and a backup file on
    another disk.
    """
    old, new = parse_level(old_level).name, parse_level(new_level).name
    if (old, new) == (LevelName.RAID1, LevelName.RAID5):
        return _mirror_to_parity(name, members, added, spares)
    if (old, new) == (LevelName.RAID5, LevelName.RAID6):
        return _second_parity(name, members, added, spares)
    raise SpecError(
        f"array {name}: the lab does not change {old.value} into {new.value}",
        hint="it can change raid1 of two members into raid5, and raid5 into raid6",
    )


def backup_file(name: str) -> str:
    """The backup of a reshape's critical section: outside the array, on the machine's own file system."""
    return f"{BACKUP_FOLDER}/{name}"


def _mirror_to_parity(name: str, members: int, added: Sequence[str], spares: Sequence[str]) -> Plan:
    if members != 2:
        hint = "only a mirror of two can"
        raise SpecError(f"array {name}: raid1 of {members} members cannot become raid5", hint=hint)
    array = array_device(name)
    why = "A RAID 5 of two members holds data and parity that are equal, just as a mirror: nothing has to move."
    step = _grow(("mdadm", "--grow", array, "--level=5"), array, (), why)
    change = Plan(f"Change {name} from raid1 to raid5", (step,))
    return change + grow_members(name, "raid5", 2, added, spares) if added or spares else change


def _second_parity(name: str, members: int, added: Sequence[str], spares: Sequence[str]) -> Plan:
    if len(added) + len(spares) != 1:
        raise SpecError(f"array {name}: raid5 becomes raid6 with exactly 1 more device", hint="name one device")
    array, file = array_device(name), backup_file(name)
    add = _add_steps(array, added, "The second parity needs a member of its own size; first it becomes a spare.")
    folder = Step(("mkdir", "-p", BACKUP_FOLDER), "The backup file must lie outside the array.")
    argv = ("mdadm", "--grow", array, "--level=6", f"--raid-devices={members + 1}", f"--backup-file={file}")
    grow = _detached(argv, file)
    why = f"Without free room to move stripes into, each is saved to the file first. {_QUIET_START}"
    return Plan(f"Change {name} from raid5 to raid6", (*add, folder, _grow(grow, array, (*added, *spares), why)))


def _add_steps(array: str, added: Sequence[str], why: str) -> tuple[Step, ...]:
    if not added:
        return ()
    undo = ("mdadm", "--manage", array, "--remove", *added)
    return (Step(("mdadm", "--manage", array, "--add", *added), why, undo, Danger.DATA, (array, *added)),)


def _detached(argv: tuple[str, ...], file: str) -> tuple[str, ...]:
    """``argv`` with its output redirected to a file, which is printed on failure.

    With a backup file mdadm leaves a background process that drives the reshape and would hold the caller's pipe open.
    """
    log = shlex.quote(f"{file}.log")
    return ("sh", "-c", f"{shlex.join(argv)} > {log} 2>&1 || {{ cat {log} >&2; exit 1; }}")


def _grow(argv: tuple[str, ...], array: str, added: Sequence[str], why: str) -> Step:
    danger = Danger.DATA if added else Danger.NONE
    return Step(argv, why, (), danger, (array, *added), RESHAPE_START_TIMEOUT_SECONDS)
