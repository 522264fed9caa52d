"""Run scripts of findings on machines that raidlab starts. A machine with leftovers of a run is not used again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import msgspec

from lab.disks import DiskKind, open_lab, specs
from lab.errors import CommandTimedOut, MachineLost, ToolMissing
from lab.findings.record import (
    MOST_LINE_CHARACTERS,
    OF_STATUS,
    Cell,
    Outcome,
    Run,
    Script,
    read_record,
    write_record,
)
from lab.gates.text import shortened
from lab.machine import Host, Machine, Target
from lab.units import MIB

DISK_BYTES = 40 * MIB
_START_RO = "/sys/module/md_mod/parameters/start_ro"
_START_SECONDS = 60.0
# udev's daemon has no fixed path (systemd-udevd(8)).
_START_UDEV = """
for daemon in /lib/systemd/systemd-udevd /usr/lib/systemd/systemd-udevd /sbin/udevd; do
  test -x "$daemon" && exec "$daemon" --daemon
done
exit 1
"""
_BLANK = 'for disk; do blkdiscard --force --zeroout "$disk" || exit; done'
_BLOCK_DEVICES = "/sys/block"
_DMSETUP_WARNING = "Udev is running and DM_DISABLE_UDEV"
"""A warning that dmsetup prints when the scripts finally remove their dm devices. It does not explain an outcome."""


def measure(
    scripts: Sequence[Script],
    target: Target,
    repeats: int,
    limit_seconds: float,
    output: Path,
    host: Host,
    *,
    on_notice: Callable[[str], None],
    on_machine: Callable[[Machine], None],
) -> Iterator[Cell]:
    """Run each script until the record in ``output`` contains ``repeats`` runs of it.

    After each run, the script's cell is stored and then yielded. Stored runs of an earlier version of a script do not
    count. Raises LabError if no machine can be started.
    """
    while due := _due(scripts, target, repeats, output):
        disks = specs(max(script.disks for script, _ in due), DiskKind.FILE, size_bytes=DISK_BYTES)
        with (
            open_lab(target, host, wanted=disks, on_notice=on_notice, on_machine=on_machine) as lab,
            # Close the machine before the lab stops arrays. Its disks are discarded, and a hung array never stops.
            closing(lab.machine),
        ):
            machine = ScriptMachine(lab.machine, [disk.node for disk in lab.disks])
            for script, number in due:
                cell, is_reusable = machine.run(script, number, limit_seconds)
                record = read_record(output)
                if earlier := record.cell(script, str(target)):
                    cell = msgspec.structs.replace(cell, runs=(*earlier.runs, *cell.runs))
                write_record(output, record.with_cell(cell))
                yield cell
                if not is_reusable:
                    break


def _due(scripts: Sequence[Script], target: Target, repeats: int, output: Path) -> list[tuple[Script, int]]:
    """Return the runs that are missing from the record, beginning with the first run of each script."""
    record = read_record(output)
    cells = [(script, record.cell(script, str(target))) for script in scripts]
    return [
        (script, number)
        for number in range(repeats)
        for script, cell in cells
        if number >= (len(cell.runs) if cell else 0)
    ]


class ScriptMachine:
    """A machine with disks that are blanked before each run of a script."""

    def __init__(self, machine: Machine, nodes: Sequence[str]) -> None:
        self._machine = machine
        self._nodes = nodes
        self._machine.run(("modprobe", "md_mod"), check=False)
        version = self._machine.run(("mdadm", "--version"))
        self._mdadm = (version.stdout or version.stderr).strip()
        self._has_udev = False

    def run(self, script: Script, number: int, limit_seconds: float) -> tuple[Cell, bool]:
        """Run a script on blank disks. Return its cell, and whether the machine can run another script.

        In every second run, arrays start read-auto, that is, read-only until the first write. In every second pair of
        runs, udev is running.
        """
        starts_read_only, has_udev = number % 2 == 0, number // 2 % 2 == 1
        seconds, is_prepared = 0.0, False
        try:
            self._prepare(script.disks, starts_read_only=starts_read_only, has_udev=has_udev)
            is_prepared = True
            argv = ("bash", "-c", script.text, script.name, *self._nodes[: script.disks])
            done = self._machine.run(argv, timeout_seconds=limit_seconds, check=False)
            outcome, seconds = OF_STATUS.get(done.status, Outcome.UNTRIED), done.duration_seconds
            output = done.stderr if outcome is Outcome.UNTRIED and done.stderr.strip() else done.stdout
        except CommandTimedOut:
            if not is_prepared:
                raise
            outcome, seconds, output = Outcome.HUNG, limit_seconds, f"not finished after {limit_seconds:g} s"
        except MachineLost as error:
            outcome, output = Outcome.LOST, error.message
        lines = (line.strip() for line in reversed(output.splitlines()) if not line.startswith(_DMSETUP_WARNING))
        last = next(filter(None, lines), "")
        run = Run(
            outcome=outcome,
            said=shortened(last, MOST_LINE_CHARACTERS),
            seconds=round(seconds, 1),
            starts_read_only=starts_read_only,
            has_udev=has_udev,
        )
        facts = self._machine.facts
        cell = Cell(
            script=script.name,
            digest=script.digest,
            target=facts.target,
            kernel=facts.kernel_release,
            mdadm=self._mdadm,
            cpus=facts.cpu_count,
            runs=(run,),
        )
        return cell, outcome not in (Outcome.HUNG, Outcome.LOST) and not self._has_leftovers()

    def _prepare(self, disks: int, *, starts_read_only: bool, has_udev: bool) -> None:
        if has_udev != self._has_udev:
            argv = ("sh", "-c", _START_UDEV) if has_udev else ("udevadm", "control", "--exit")
            verb = "started" if has_udev else "stopped"
            if self._machine.run(argv, timeout_seconds=_START_SECONDS, check=False).status:
                raise ToolMissing(f"udev's daemon could not be {verb} on the machine", hint="apt install udev")
            self._has_udev = has_udev
        self._machine.write(_START_RO, str(int(starts_read_only)))
        self._machine.run(("sh", "-c", _BLANK, "sh", *self._nodes[:disks]))

    def _has_leftovers(self) -> bool:
        try:
            names = self._machine.list_dirs([_BLOCK_DEVICES])[_BLOCK_DEVICES]
        except MachineLost:
            return True
        return any(name.startswith(("md", "dm-")) for name in names)
