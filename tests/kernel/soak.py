"""Hours of work on the embedded kernel, to find anything that grows, hangs, or is left behind.

Create, mark, load, fail, rebuild under load, verify, scrub, stop: over and over, on several levels and kinds of disks.
Each machine runs some rounds and is then replaced by a fresh one. Each round prints one line to standard error; JSON on
standard output contains the findings. The exit status is 1 if anything grew, failed or was left behind. The folder for
evidence receives the diagnosis of a machine that hung or on which something failed. Disks that hung and were made to
continue (lab/machine/disk_rescue.py) are counted separately, because their cause is known.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import itertools
import json
import os
import random
import re
import shutil
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.support.report import notice, private_state
from lab.arrays.spec import ArraySpec
from lab.disks import DiskKind, DiskSpec, Lab, open_lab, specs
from lab.errors import LabError
from lab.host.files import HostFiles
from lab.machine import Host, Machine
from lab.machine.disk_rescue import RESCUED
from lab.machine.stand_still import EVIDENCE_FOLDER, group_members, stand_still_evidence
from lab.machine.state_folder import CONSOLE_LOG, KERNEL_RECORD, kernel_group
from lab.session.data_mark import verify_mark, write_mark
from lab.session.load import Load
from lab.session.monitor import Monitor
from lab.session.session import Client, LabSession
from lab.units import KIB, MIB
from tests.kernel.place import kernel_target, record_of

STINTS = (1, 40, 3, 60, 1, 2)
"""Number of rounds on each machine, used in turn."""
SETTLING_ROUNDS = 12
"""First rounds of a machine: by then each kind of disk is used three times, all drivers and programs are loaded."""
MOST_FAILURES = 20
LEVELS = (("raid5", 3), ("raid1", 2), ("raid6", 4), ("raid10", 4), ("raid4", 3), ("raid0", 3))
KINDS = ((DiskKind.FILE, 64 * MIB), (DiskKind.SPINDLE, 24 * MIB), (DiskKind.RAM, 24 * MIB), (DiskKind.LOOP, 24 * MIB))
DISKS_OF_A_KIND = 5
WORKLOADS = ("rand-mix-4k", "rand-write-8k", "seq-write-1m")
READS = "rand-read-128k"
"""Not used on RAID 1: a rebuild there waits until no read is under way in its 64 MiB window (wait_read_barrier and
raise_barrier in drivers/md/raid1.c), while reads never wait for it. Under uninterrupted reads it makes no progress."""
BOUNDS: dict[str, float] = {
    "client_bytes": 8 * MIB,
    "client_objects": 1000,
    "supervisor_bytes": MIB,
    "kernel_bytes": 8 * MIB,
    "guest_bytes": 16 * MIB,
    "state_bytes": 4 * MIB,
}
"""Maximum estimated growth over the whole run. For everything that is counted the maximum is LESS_THAN_ONE."""
LESS_THAN_ONE = 0.5


@dataclass
class Findings:
    evidence: Path
    values: dict[str, dict[int, list[tuple[float, float]]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )
    """Quantity -> machine (0: the client) -> round and value."""
    rounds: int = 0
    machines: int = 0
    rescues: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    leftovers: list[str] = field(default_factory=list)

    def note(self, group: int, figures: dict[str, float]) -> None:
        for name, value in figures.items():
            self.values[name][group].append((self.rounds, value))

    def fail(self, what: str, folder: Path) -> None:
        self.failures.append(what)
        notice(f"FAILURE {what}")
        place = self.evidence / str(len(self.failures))
        place.mkdir(parents=True, exist_ok=True)
        (place / "failure.txt").write_text(what, encoding="utf-8")
        for path in (folder.parents[1] / EVIDENCE_FOLDER).glob("*"):
            shutil.copy(path, place)
        if group := kernel_group(folder):
            (place / "look.txt").write_text(stand_still_evidence(HostFiles(), folder, group), encoding="utf-8")
            shutil.copy(folder / CONSOLE_LOG, place)


def disks() -> tuple[DiskSpec, ...]:
    """The disks of a machine. File disks come first, since the kernel has them from its start."""
    found: tuple[DiskSpec, ...] = ()
    for kind, size in KINDS:
        model = "hdd-10k" if kind is DiskKind.SPINDLE else ""
        found += specs(DISKS_OF_A_KIND, kind, size_bytes=size, model=model, first=len(found) + 1)
    return found


def play_round(session: LabSession, kind: DiskKind, level: str, members: int, chance: random.Random) -> None:
    """Take an array from blank disks to blank disks. Raises LabError or AssertionError on a failure."""
    names = [disk.name for disk in session.disks if disk.kind is kind]
    nodes = tuple(session.node(name) for name in names)
    has_chunk = level != "raid1"
    is_redundant = level != "raid0"
    spec = ArraySpec(
        level,
        nodes[:members],
        chunk_bytes=64 * KIB if has_chunk else None,
        assume_clean=is_redundant and chance.random() < 0.3,
    )
    session.run(session.creation(spec))
    array = session.array("md0")
    array.wait()
    mark = write_mark(session, "md0")
    workload = chance.choice(WORKLOADS if level == "raid1" else (*WORKLOADS, READS))
    load = Load(session, "md0", workload, working_set_bytes=8 * MIB)
    load.start()
    time.sleep(chance.uniform(0.5, 3.0))
    if is_redundant:
        victim, spare = chance.choice(names[:members]), names[members]
        for plan in (array.fail, array.remove):
            session.run(plan(victim))
        time.sleep(chance.uniform(0.0, 1.0))
        session.run(array.add(spare))
        array.wait()
    load.stop()
    load.wait(60.0)
    assert load.is_over, "the load did not finish within a minute"
    if is_redundant:
        session.run(array.scrub("check"))
        status = array.wait()
        assert not status.mismatch_sectors, f"{status.mismatch_sectors} sectors do not match"
        assert not status.degraded_count, "still degraded after the rebuild"
    verdict = verify_mark(session, mark)
    assert verdict.is_intact, verdict.sentence
    session.run(array.destroy())
    session.run(session.reset(names))


@contextmanager
def watched_machine(findings: Findings, state: Path) -> Iterator[Lab]:
    """A fresh machine. Records failures while the machine runs, and what it leaves behind when it has ended."""
    findings.machines += 1
    machines: list[Machine] = []
    with open_lab(kernel_target(), Host.real("soak"), wanted=disks(), on_machine=machines.append) as lab:
        (record,) = (state / "machines").glob(f"*/{KERNEL_RECORD}")
        try:
            yield lab
        except (LabError, AssertionError) as error:
            findings.fail(f"round {findings.rounds + 1}: {error!r}", record.parent)
        console = (record.parent / CONSOLE_LOG).read_text(encoding="utf-8", errors="replace")
        findings.rescues += [line for line in console.splitlines() if RESCUED in line]
    findings.leftovers += [str(path) for path in (state / "machines").glob("[0-9]*")]


def stint(findings: Findings, state: Path, chance: random.Random, rounds: int, end: float) -> None:
    """Run some rounds on one machine, each in its own session, about half of them with the app's monitor."""
    with watched_machine(findings, state) as lab:
        for _ in range(rounds):
            # Use all pairs in turn, so that each measurement at the end of a round has the same history.
            kind = KINDS[findings.rounds % len(KINDS)][0]
            level, members = LEVELS[findings.rounds // len(KINDS) % len(LEVELS)]
            session = LabSession(Client(kernel_target("name=soak"), lab.host), lab)
            monitor = Monitor(session, on_snapshot=lambda _: None, on_end=lambda _: None, hertz=8.0)
            is_watched = chance.random() < 0.5
            begun = time.monotonic()
            if is_watched:
                monitor.start()
            try:
                play_round(session, kind, level, members, chance)
            finally:
                if is_watched:
                    monitor.stop()
            findings.rounds += 1
            machine, client = machine_footprint(state, lab.machine), client_footprint(state)
            findings.note(findings.machines, machine)
            findings.note(0, client)
            told = " ".join(f"{name}={value:g}" for name, value in (client | machine).items())
            line = f"round {findings.rounds} machine {findings.machines} {kind} {level}"
            notice(f"{line} {time.monotonic() - begun:.1f} s {told}")
            if time.monotonic() > end:
                return


M_ARENA_MAX = -8
"""malloc.h, for mallopt(3)."""


def prepare_client(state: Path) -> None:
    """Give this process its own temporary files, and all of its threads one heap.

    Otherwise each new thread may use another heap (glibc has up to eight for each processor), and for hours chance
    decides which of them grow.
    """
    tempfile.tempdir = str(state / "tmp")
    os.environ["TMPDIR"] = tempfile.tempdir
    Path(tempfile.tempdir).mkdir()
    ctypes.CDLL(None).mallopt(M_ARENA_MAX, 1)


def client_footprint(state: Path) -> dict[str, float]:
    gc.collect()
    figures = {f"client_{name}": value for name, value in process_footprint(os.getpid()).items()}
    figures["client_objects"] = len(gc.get_objects())
    paths = [path for path in state.rglob("*") if not path.is_symlink()]
    figures["state_files"] = len(paths)
    # Disk images are as large as the data written to them. They vanish with their lab.
    figures["state_bytes"] = sum(path.stat().st_size for path in paths if path.is_file() and path.suffix != ".img")
    figures["shm_files"] = len(list(Path("/dev/shm").glob(f"raidlab-{os.getpid()}-*")))
    return figures


def machine_footprint(state: Path, machine: Machine) -> dict[str, float]:
    record = record_of(state)
    figures: dict[str, float] = {}
    for who, process in (("supervisor", record["supervisor"]), ("kernel", record["kernel_group"])):
        figures |= {f"{who}_{name}": value for name, value in process_footprint(process).items()}
    figures["kernel_processes"] = len(group_members(HostFiles(), record["kernel_group"]))
    figures["guest_bytes"] = guest_bytes(machine)
    return figures


def process_footprint(process: int) -> dict[str, float]:
    """Private memory in bytes, open descriptors and threads of a process (proc(5))."""
    folder = Path(f"/proc/{process}")
    status = (folder / "status").read_text(encoding="utf-8")
    figures = {key: int(value) for key, value in re.findall(r"^(RssAnon|Threads):\s+(\d+)", status, re.MULTILINE)}
    descriptors = len(list((folder / "fd").iterdir()))
    return {"bytes": figures["RssAnon"] * 1024, "threads": figures["Threads"], "descriptors": descriptors}


def guest_bytes(machine: Machine) -> int:
    """Memory that the guest cannot free: its total, less what is free or reclaimable after its caches were dropped."""
    machine.run(("sync",))
    machine.write("/proc/sys/vm/drop_caches", "3")
    text = machine.read(["/proc/meminfo"])["/proc/meminfo"] or ""
    figures = {key: int(value) * 1024 for key, value in re.findall(r"^(\w+):\s+(\d+) kB", text, re.MULTILINE)}
    return figures["MemTotal"] - figures["MemFree"] - figures["Buffers"] - figures["Cached"] - figures["SReclaimable"]


Series = Sequence[tuple[float, float]]
"""Pairs of round and value."""


def growth_per_round(groups: Sequence[Series], *, skip: int = 0) -> float | None:
    """The Theil-Sen slope, the median of the slopes of all pairs; None if there are no pairs.

    Only values of the same group, such as one machine, are compared. The first ``skip`` rounds of each group, in which
    things are loaded for the first time, are ignored. Source: P. K. Sen, Estimates of the Regression Coefficient Based
    on Kendall's Tau, JASA 63 (1968). The estimate tolerates 29 % of outliers.
    """
    slopes = [
        (later - earlier) / (end - begin)
        for group in groups
        for (begin, earlier), (end, later) in itertools.combinations(group[skip:], 2)
    ]
    return statistics.median(slopes) if slopes else None


def grown(findings: Findings) -> dict[str, dict[str, float]]:
    """For each quantity: its first value, its growth over the run, and the maximum growth."""
    found = {}
    for name, groups in findings.values.items():
        slope = growth_per_round([*groups.values()], skip=SETTLING_ROUNDS)
        if slope is not None:
            first = next(iter(groups.values()))[0][1]
            bound = BOUNDS.get(name, LESS_THAN_ONE)
            found[name] = {"first": first, "growth": round(slope * findings.rounds, 3), "bound": bound}
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--evidence", type=Path, required=True)
    options = parser.parse_args()
    findings, chance = Findings(options.evidence.absolute()), random.Random(options.seed)
    begin = time.monotonic()
    end = begin + options.seconds
    with private_state() as state:
        prepare_client(state)
        for rounds in itertools.cycle(STINTS):
            if time.monotonic() > end or len(findings.failures) > MOST_FAILURES:
                break
            try:
                stint(findings, state, chance, rounds, end)
            except LabError as error:
                # The machine could not be opened or closed.
                findings.failures.append(f"machine {findings.machines}: {error!r}")
    growth = grown(findings)
    too_much = [name for name, figures in growth.items() if figures["growth"] > figures["bound"]]
    told = {
        "seconds": round(time.monotonic() - begin, 1),
        "seed": options.seed,
        "rounds": findings.rounds,
        "machines": findings.machines,
        "grew_too_much": too_much,
        "failures": findings.failures,
        "disks_set_going_again": findings.rescues,
        "leftovers": findings.leftovers,
        "growth": growth,
    }
    sys.stdout.write(json.dumps(told, indent=2) + "\n")
    return 1 if too_much or findings.failures or findings.leftovers else 0


if __name__ == "__main__":
    sys.exit(main())
