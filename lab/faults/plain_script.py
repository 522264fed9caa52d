"""A history as a shell script for plain mdadm: loop devices below device mapper, as root on any computer.

What recorded drives alone can do is said in the script: to lose any part of what a drive has not flushed. There the
script keeps all that the drives had written, as after a crash of the kernel.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from lab.faults.block_map import BLOCK_BYTES
from lab.faults.guest.record import ALL
from lab.faults.history import DRIVES, Act, ActKind, FaultHistory, HistoryPolicy, Write
from lab.faults.history_steps import creation

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
    """The whole script."""
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
