"""Findings of campaigns: each has a folder with everything needed to reproduce it.

::

    STATE/faults/findings/<id>/finding.json    what was found, where, and how it is replayed
    STATE/faults/findings/<id>/history.json    the history
    STATE/faults/findings/<id>/commands.sh     the same with plain mdadm, for root on any computer
    STATE/faults/findings/<id>/versions.json   kernel, mdadm, programs, raidlab
    STATE/faults/findings/<id>/seen.jsonl      the documents of the player, step by step
    STATE/faults/findings/<id>/...             kernel log, superblocks, /proc/mdstat, and the record of the drives

A folder is written under a temporary name and then renamed, so an interrupted campaign leaves a complete folder or
none. commands.sh uses loop devices below device mapper. Only recorded drives can lose any subset of their unflushed
writes; the drives of the script keep all writes at a power cut, as after a crash of the kernel alone, and a comment in
it states this.
"""

from __future__ import annotations

import base64
import gzip
import json
import shlex
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from lab import __version__
from lab.errors import LabError, ResultError, SpecError
from lab.faults.arrays import BLOCK_BYTES
from lab.faults.guest.record import ALL
from lab.faults.history import DRIVES, Act, ActKind, FaultHistory, FindingId, HistoryPolicy, Write, creation, node
from lab.faults.history_play import Arena, HistoryOutcome, play
from lab.faults.place import FaultPlace
from lab.gates.decoding import FormatVersion, convert
from lab.gates.files import read_own_json
from lab.gates.text import checked_name
from lab.host.clock import utc_second_text
from lab.machine import Host
from lab.measure.conditions import read_conditions
from lab.store.runs import RunFolders
from lab.units import MIB

FORMAT_VERSION = 1
_FINDING, _HISTORY = "finding.json", "history.json"


class FindingRecord(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of finding.json."""

    format_version: FormatVersion = FORMAT_VERSION
    id: str
    kind: str
    text: str
    """A description of the first difference of this kind."""
    title: str
    """A description of the array."""
    act: int
    differences: tuple[tuple[str, int, str], ...]
    """All differences: kind, index of the act, description."""
    explained: dict[str, int] = {}
    status: str = "found"
    """``found``: as the campaign found it; ``shrunk``: also shown by fewer acts and writes; ``confirmed``: replayed as
    it is; ``unsteady``: not reproducible.
    """
    shrunk_from: str = ""
    run: str = ""
    target: str = ""
    planted: int = 0
    is_virtual_time: bool = True
    operations: int = 0
    writes: int = 0
    replays: int = 0
    """Number of replays, each on a machine of its own, that showed the difference."""
    created_utc: str = ""


@dataclass(frozen=True, slots=True)
class KeptFinding:
    """A finding in the store."""

    record: FindingRecord
    history: FaultHistory
    folder: Path


class FindingStore:
    """The stored findings."""

    def __init__(self, host: Host) -> None:
        self._runs = RunFolders(
            host.state.root / "faults" / "findings",
            "finding",
            (_FINDING,),
            begin_hint="hunt for one: raidlab fault campaign",
            list_hint="'raidlab fault findings' lists them",
            state_root=host.state.root,
        )
        self.root = self._runs.root

    def keep(self, record: FindingRecord, history: FaultHistory, files: Mapping[str, bytes]) -> Path:
        """Store a finding, replacing one with the same id.

        Raises ResultError; an existing finding then remains intact.
        """
        own = {
            _FINDING: msgspec.json.format(msgspec.json.encode(record), indent=1),
            _HISTORY: msgspec.json.format(msgspec.json.encode(history), indent=1),
        }
        return self._runs.put(record.id, {**files, **own}.items(), replaces=True)

    def all(self, on_damage: Callable[[str], object] = lambda _: None) -> list[KeptFinding]:
        """All readable findings, sorted by id; ``on_damage`` receives a message for each unreadable one."""
        found = []
        for folder in sorted(self.root.glob("[!.]*")):
            try:
                kept = self._read(folder)
            except ResultError as error:
                on_damage(f"finding {folder.name} cannot be read: {error.message}")
            except OSError as error:
                on_damage(f"finding {folder.name} cannot be read: {error.strerror}")
            else:
                if kept.record.id == folder.name:
                    found.append(kept)
                else:
                    on_damage(f"finding {folder.name} cannot be read: it says that it is another")
        return found

    def find(self, word: str) -> KeptFinding | None:
        """The finding with this id or in this folder; None if there is none. Raises ResultError if it is damaged."""
        folder = Path(word) if "/" in word else self.root / checked_name(word, "finding", error=SpecError)
        return self._read(folder) if (folder / _FINDING).is_file() else None

    def forget(self, finding: KeptFinding) -> None:
        """Remove a finding from the store. Raises SpecError if its folder is not in the store."""
        if finding.folder.parent.resolve() != self.root.resolve():
            raise SpecError(f"'{finding.folder}' is not in the lab's store", hint="remove the folder yourself")
        self.remove(finding.folder.name)

    def remove(self, finding_id: str) -> None:
        """Remove the finding with this id."""
        shutil.rmtree(self.root / checked_name(finding_id, "finding"), ignore_errors=True)

    def remove_leftovers(self) -> None:
        """Remove what killed campaigns left incomplete, and restore the findings that they were about to replace."""
        self._runs.remove_leftovers()

    def _read(self, folder: Path) -> KeptFinding:
        record = read_own_json(folder / _FINDING, FindingRecord)
        if record.format_version != FORMAT_VERSION:
            raise ResultError(
                f"'{folder}' is of format {record.format_version}, and this raidlab reads {FORMAT_VERSION}",
                hint="read it with the raidlab that made it",
            )
        return KeptFinding(record, read_own_json(folder / _HISTORY, FaultHistory), folder)


_HEAD = r"""#!/bin/bash
# {title}
# Found by raidlab, which replays it exactly: raidlab fault replay {finding_id}
# {shape}
#
# Needs bash, mdadm and dmsetup, as root; makes its drives of files in a folder of its own, and uses /dev/md0.
set -u
[ -e /sys/block/md0/md ] && {{ echo "/dev/md0 is in use"; exit 1; }}
modprobe -qa loop dm-mod dm-delay raid1 raid10 raid456
work=$(mktemp -d)
generation=0

table() {{ # DRIVE TARGET...: what the drive does from now on
  local drive=$1; shift
  echo "0 16384 $*" | dmsetup load "drive$drive"
  dmsetup resume "drive$drive"
}}
linear() {{ echo "linear ${{loop[$1]}} 0"; }}
block() {{ # NUMBER GENERATION: what a block holds
  local -a lines
  for ((line = 0; line < 64; line++)); do lines[line]="block $1 generation $2"; done
  printf '%-63s\n' "${{lines[@]}}"
}}
w() {{ # FIRST COUNT [dsync]: a new generation of these blocks
  local number
  generation=$((generation + 1))
  for ((number = $1; number < $1 + $2; number++)); do block "$number" "$generation"; done >"$work/write"
  dd if="$work/write" of=/dev/md0 bs=$(($2 * 4096)) count=1 seek=$(($1 * 4096)) oflag=seek_bytes,direct${{3:+,$3}} \
    conv=notrunc status=none &&
    dd if="$work/write" of="$work/expected" bs=4096 seek="$1" conv=notrunc status=none
}}
flush() {{ dd if=/dev/null of=/dev/md0 conv=fsync,notrunc status=none; }}
look() {{ # blocks that are not what was written last
  dd if=/dev/md0 of="$work/read" bs=4096 count={blocks} iflag=direct conv=noerror,sync status=none
  cmp -l "$work/expected" "$work/read" |
    awk '{{ number = int(($1 - 1) / 4096); if (number != last) print "differs: block " number; last = number }}' last=-1
  cat /proc/mdstat
}}
idle() {{
  sleep 1
  while [ -e /sys/block/md0/md/sync_action ] && [ "$(cat /sys/block/md0/md/sync_action)" != idle ]; do sleep 0.2; done
}}
labelled() {{ # drives with a superblock
  local drive
  for ((drive = 0; drive < {drives}; drive++)); do
    mdadm --examine "/dev/mapper/drive$drive" >/dev/null 2>&1 && echo "/dev/mapper/drive$drive"
  done
}}
start() {{
  mdadm --assemble /dev/md0 --run $(labelled) || {{ mdadm --stop /dev/md0; mdadm --assemble /dev/md0 --run --force
  $(labelled); }}
{started}
  echo active >/sys/block/md0/md/array_state
}}
cut() {{ # what the drives hold at this moment
  local drive
  for ((drive = 0; drive < {drives}; drive++)); do dmsetup suspend --nolockfs --noflush "drive$drive"; done
  for ((drive = 0; drive < {drives}; drive++)); do cp "$work/drive$drive" "$work/cut$drive"; done
  for ((drive = 0; drive < {drives}; drive++)); do dmsetup resume "drive$drive"; done
  wait
  mdadm --stop /dev/md0
  for ((drive = 0; drive < {drives}; drive++)); do cp "$work/cut$drive" "$work/drive$drive"; blockdev --flushbufs
  "${{loop[$drive]}}"; done
}}

for ((drive = 0; drive < {drives}; drive++)); do
  {fill}
  loop[$drive]=$(losetup --find --show --direct-io=off "$work/drive$drive")
  dmsetup create "drive$drive" --table "0 16384 linear ${{loop[$drive]}} 0"
  [ -b "/dev/mapper/drive$drive" ] || {{ echo "drive$drive could not be made"; exit 2; }}
done
"""
_TAIL = r"""
# The end: all drives answer, md comes to rest, parity and copies are compared.
{plugged}
idle
look
echo check >/sys/block/md0/md/sync_action
idle
echo "sectors that do not fit: $(cat /sys/block/md0/md/mismatch_cnt)"
mdadm --detail /dev/md0
echo "to clean up: mdadm --stop /dev/md0; dmsetup remove drive{{0..{last_drive}}}; losetup -D; rm -r $work"
"""


def plain_script(history: FaultHistory, *, title: str, finding_id: str) -> str:
    """The contents of commands.sh."""
    shape = history.shape
    noise = 'head -c 8M /dev/urandom >"$work/drive$drive"'
    blank = 'truncate -s 8M "$work/drive$drive"'
    head = _HEAD.format(
        title=title.replace("\n", " "),
        finding_id=finding_id,
        shape=shape.title(),
        drives=DRIVES,
        blocks=shape.block_map().blocks,
        fill=noise if shape.has_junk else blank,
        started="\n".join(f"  {line}" for line in _started(history)) or "  :",
    )
    words = [word.replace("/dev/drive", "/dev/mapper/drive") for word in creation(shape)]
    blocks = shape.block_map().blocks
    lines = [
        *(shlex.join(words), *_started(history)),
        *(f"# A generation of every block, {BLOCK_BYTES} bytes each.",),
        *(f"w {first} {min(64, blocks - first)}" for first in range(0, blocks, 64)),
        "flush",
    ]
    for number, act in enumerate(history.acts):
        lines += ["", f"# {number}: {act.title()}", *_lines(act, history)]
    plugged = "\n".join(f'table {drive} "$(linear {drive})"' for drive in _pulled(history))
    return "\n".join((head, *lines, _TAIL.format(plugged=plugged, last_drive=DRIVES - 1)))


def _started(history: FaultHistory) -> list[str]:
    shape, lines = history.shape, []
    if shape.sync_kib:
        lines += [f"echo {shape.sync_kib} >/sys/block/md0/md/sync_speed_{end}" for end in ("min", "max")]
    if shape.policy is HistoryPolicy.WRITE_BACK:
        lines.append("echo write-back >/sys/block/md0/md/journal_mode")
    return lines


def _pulled(history: FaultHistory) -> list[int]:
    return sorted({act.drive for act in history.acts if act.kind in (ActKind.PULL, ActKind.SLOW)})


def _lines(act: Act, history: FaultHistory) -> Iterator[str]:
    drive = f"/dev/mapper/drive{act.drive}"
    simple = {
        ActKind.FAIL: f"mdadm /dev/md0 --fail {drive}",
        ActKind.REMOVE: f"mdadm /dev/md0 --remove {drive}",
        ActKind.ADD: f"mdadm /dev/md0 --add {drive}",
        ActKind.READD: f"mdadm /dev/md0 --re-add {drive}",
        ActKind.REPLACE: f"mdadm /dev/md0 --replace {drive}",
        ActKind.GROW: f"mdadm /dev/md0 --add {drive}; mdadm --grow /dev/md0 --raid-devices={history.shape.members + 1}",
        ActKind.ENLARGE: f"mdadm --grow /dev/md0 --size={act.number}",
        ActKind.SCRUB: f"echo {act.word} >/sys/block/md0/md/sync_action; idle; cat /sys/block/md0/md/mismatch_cnt",
        ActKind.PULL: f"table {act.drive} error; look",
        ActKind.PLUG: f'table {act.drive} "$(linear {act.drive})"',
        ActKind.PAUSE: f"sleep {act.number / 1000}",
        ActKind.IDLE: "wait; idle; look",
        ActKind.CHECK: "look",
        ActKind.RESTART: "wait; mdadm --stop /dev/md0; start; look",
        ActKind.FORCE: "wait; mdadm --stop /dev/md0; start; look",
    }
    if act.kind is ActKind.LOAD:
        depth = history.shape.depth
        if depth > 1:
            yield f"# In raidlab up to {depth} of these are under way at once, some still when the next act begins."
        yield from map(_write_line, act.writes)
    elif act.kind is ActKind.SLOW:
        yield f'table {act.drive} "delay ${{loop[{act.drive}]}} 0 {act.number}"'
    elif act.kind is ActKind.CORRUPT:
        yield from _corruption(act)
    elif act.kind is ActKind.CUT:
        yield from _power_cut(act)
    else:
        yield simple[act.kind]


def _write_line(write: Write) -> str:
    first, count, is_through = write
    return f"w {first} {count}{' dsync' * is_through}" if count else "flush"


def _corruption(act: Act) -> Iterator[str]:
    yield "wait; idle"
    yield f"offset=$(($(cat /sys/block/md0/md/dev-dm-*/offset | head -n 1) * 512 + {act.at}))"
    yield "mdadm --stop /dev/md0"
    taken = f'dd if="$work/drive{act.drive}" bs=1 skip=$offset count={act.number} status=none'
    yield f'{taken} | tr "\\000-\\377" "\\200-\\377\\000-\\177" >"$work/spoiled"'
    yield f'dd if="$work/spoiled" of="$work/drive{act.drive}" bs=1 seek=$offset conv=notrunc status=none'
    yield f'blockdev --flushbufs "${{loop[{act.drive}]}}"; start; look'
    yield "echo check >/sys/block/md0/md/sync_action; idle; cat /sys/block/md0/md/mismatch_cnt"
    yield "echo repair >/sys/block/md0/md/sync_action; idle; look"


def _power_cut(act: Act) -> Iterator[str]:
    if act.word != ALL:
        yield f"# In raidlab each drive also loses what it had not flushed ('{act.word}'), or has what was under way:"
        yield "# these drives keep all that they had written."
    yield "cut"
    if act.drive >= 0:
        yield f"table {act.drive} error"
    yield "start; look"
    if not act.is_hasty:
        yield "idle; look"
    if act.drive >= 0:
        yield f'table {act.drive} "$(linear {act.drive})"'


MOST_RECORD_BYTES = 16 * MIB
"""Maximum size of the stored record of the drives, and of its data; a longer one is truncated and marked as such."""
_RECORDS = {"record.bin.gz": "/dev/lab-record", "record-data.bin.gz": "/dev/lab-record-data"}


@dataclass(frozen=True, slots=True)
class Evidence:
    """The outcome of a replay, and the files that document it."""

    outcome: HistoryOutcome
    files: dict[str, bytes]


def gathered(arena: Arena, history: FaultHistory, before: Sequence[FaultHistory] = ()) -> Evidence:
    """Replay a history on a machine of its own, and collect all evidence."""
    files: dict[str, bytes] = {}
    with arena.opened() as place:
        more: dict[str, Any] = {"wants_log": True, "wants_ledger": True}
        outcome = list(play(place, [*before, history], change=arena.change, has_evidence=True, **more))[-1]
        if not outcome.is_over:
            files |= _from_machine(place)
    files["seen.jsonl"] = seen_lines(outcome)
    logs = [seen["log"] for _, seen in outcome.documents if "log" in seen]
    files["kernel.log"] = "\n".join(logs[-1] if logs else ["the kernel's log could not be read"]).encode()
    said = [
        seen["output"]
        for step, seen in outcome.documents
        if step.step[:1] == ["run"] and "/proc/mdstat" in step.step[1]
    ]
    files["mdstat.txt"] = "\n".join(said).encode()
    return Evidence(outcome, files)


def seen_lines(outcome: HistoryOutcome) -> bytes:
    """The documents of the player, one step per line."""
    lines = [
        {"act": step.act, "for": step.purpose.value, "did": step.step, "told": seen} for step, seen in outcome.documents
    ]
    return "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines).encode()


def _from_machine(place: FaultPlace) -> dict[str, bytes]:
    """Superblocks, versions and the record of the drives, as far as the machine still responds."""
    machine, files = place.lab.machine, {}
    try:
        told = [machine.run(("mdadm", "--examine", node(drive)), check=False) for drive in range(DRIVES)]
        files["superblocks.txt"] = "\n".join(each.stdout + each.stderr for each in told).encode()
        conditions = msgspec.structs.asdict(read_conditions(place.lab))
        names = ("kernel_release", "mdadm_version", "architecture", "depends_on", "is_virtual_time")
        versions = {name: conditions[name] for name in names} | {"raidlab_version": __version__}
        files["versions.json"] = msgspec.json.format(msgspec.json.encode(versions), indent=1)
        for name, path in _RECORDS.items() if place.has_record else ():
            packed = machine.run(("sh", "-c", f"head -c {MOST_RECORD_BYTES} {path} | gzip -nc | base64 -w0")).stdout
            data = base64.b64decode(packed)
            if len(gzip.decompress(data)) >= MOST_RECORD_BYTES:
                files[f"{name}.cut-off"] = f"the first {MOST_RECORD_BYTES} bytes alone\n".encode()
            files[name] = data
    except LabError as error:
        files["not-gathered.txt"] = f"{error.message}\n".encode()
    return files


def record_of(
    finding_id: FindingId, outcome: HistoryOutcome, kind: str, arena: Arena, *, status: str, **more: object
) -> FindingRecord:
    """The contents of finding.json for the first difference of a kind."""
    history = outcome.history
    first = next(each for each in outcome.differences if each.kind == kind)
    fields = {
        "id": str(finding_id),
        "kind": kind,
        "text": first.text,
        "title": history.shape.title(),
        "act": first.act,
        "differences": [(each.kind, each.act, each.text) for each in outcome.differences],
        "explained": dict(outcome.explained),
        "status": status,
        "target": str(arena.target),
        "planted": arena.planted,
        "is_virtual_time": arena.target.is_virtual_time,
        "operations": history.operations,
        "writes": history.writes,
        "created_utc": utc_second_text(arena.host.clock),
        **more,
    }
    return convert(fields, FindingRecord)


def script_of(record: FindingRecord, history: FaultHistory) -> bytes:
    """The contents of commands.sh for a finding."""
    return plain_script(history, title=f"{record.kind}: {record.text}", finding_id=record.id).encode()
