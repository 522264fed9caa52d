"""Runs every plan of lab.arrays on real md and prints captures. Root, in a throw-away guest only (see README.md)."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from lab.arrays import operations as ops
from lab.arrays import status
from lab.arrays.filesystem import FileSystem, check, free_bytes, make, mount, mount_point, unmount
from lab.arrays.levels import md_path, usable_bytes
from lab.arrays.spec import ArraySpec, Bitmap, ConsistencyPolicy
from lab.arrays.status import ArrayStatus, read_array, read_arrays, read_detail, wait_until_idle
from lab.errors import CommandFailed
from lab.machine.api import CommandResult
from lab.plans import Plan

A, B, C, D, E, F, G, H = DISKS = [f"/dev/ubd{letter}" for letter in "abcdefgh"]


class Guest:
    """The part of a machine that arrays need, on this very computer."""

    def run(
        self, argv: Sequence[str], *, stdin_text: str = "", timeout_seconds: float = 120.0, check: bool = True
    ) -> CommandResult:
        started = time.monotonic()
        done = subprocess.run(
            argv, input=stdin_text, capture_output=True, text=True, timeout=timeout_seconds, check=False
        )
        if check and done.returncode:
            raise CommandFailed(argv, done.returncode, done.stderr)
        took = time.monotonic() - started
        return CommandResult(tuple(argv), done.returncode, done.stdout, done.stderr, took, started)

    def read(self, paths: Sequence[str]) -> dict[str, str | None]:
        return {path: _text(path) for path in paths}

    def list_dirs(self, paths: Sequence[str]) -> dict[str, tuple[str, ...]]:
        return {
            path: tuple(sorted(p.name for p in Path(path).iterdir())) if Path(path).is_dir() else () for path in paths
        }


def _text(path: str) -> str | None:
    try:
        return Path(path).read_text()
    except OSError:
        return None


guest = Guest()


def tell(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def say(*words: object) -> None:
    tell(f"[{time.monotonic():7.1f}] {' '.join(map(str, words))}")


def run(plan: Plan) -> None:
    for step in plan.steps:
        result = guest.run(step.argv, timeout_seconds=step.timeout_seconds)
        said = (result.stdout + result.stderr).strip().replace("\n", " | ")
        say(f"  ok {result.duration_seconds:.2f}s", step.shell_line(), f"=> {said}" if said else "")


def capture(label: str, name: str = "md0") -> None:
    """Everything that read_array would read, and mdadm's export, as one JSON line."""
    folders = (md_path(name), f"/sys/block/{name}/holders")
    entries = guest.list_dirs(folders)
    files = guest.read(status.array_paths(name, entries[md_path(name)]))
    export = guest.run(("mdadm", "--detail", "--export", f"/dev/{name}"), check=False).stdout
    record = {"name": name, "entries": entries, "files": files, "export": export}
    tell(f"CAPTURE {label} {json.dumps(record)}")


def brief(status: ArrayStatus) -> str:
    members = " ".join(f"{m.device[-1]}:{m.slot}:{'+'.join(sorted(m.flags))}" for m in status.members)
    return (
        f"{status.level} {status.state} deg={status.degraded_count}/{status.raid_disks} {status.sync_action} "
        f"{status.sync_progress} {status.consistency_policy} bitmap={status.bitmap_location} [{members}]"
    )


def show() -> ArrayStatus:
    status = read_array(guest, "md0")  # type: ignore[arg-type]
    say("  ", brief(status))
    return status


def idle() -> ArrayStatus:
    status = wait_until_idle(guest, "md0", stall_seconds=30, timeout_seconds=200)  # type: ignore[arg-type]
    say("   idle:", brief(status))
    return status


def rebuilding() -> ArrayStatus:
    """The state once a rebuild runs, or after a while in which it may have come and gone."""
    deadline = time.monotonic() + 5
    while True:
        status = read_array(guest, "md0")  # type: ignore[arg-type]
        if status.sync_progress is not None or time.monotonic() > deadline:
            return status
        time.sleep(0.1)


def fast() -> None:
    run(ops.set_sync_speed("md0", minimum_kib_per_second=900_000, maximum_kib_per_second=1_000_000))


def slow() -> None:
    run(ops.set_sync_speed("md0", minimum_kib_per_second=100, maximum_kib_per_second=2_000))


def clear() -> None:
    for array in read_arrays(guest):  # type: ignore[arg-type]
        guest.run(("mdadm", "--stop", array.device), check=False)
    run(ops.zero_superblocks(DISKS))


def attempt(label: str, act: Callable[[], None]) -> None:
    say("##", label)
    try:
        act()
    except Exception as error:
        say(f"!! {label}: {type(error).__name__}: {error}".replace("\n", " | "))
        say("!! mdstat:", (_text("/proc/mdstat") or "").replace("\n", " | "))
    clear()


CREATES = {
    "raid0": ArraySpec("raid0", (A, B)),
    "raid1": ArraySpec("raid1", (A, B)),
    "raid4": ArraySpec("raid4", (A, B, C)),
    "raid5": ArraySpec("raid5", (A, B, C)),
    "raid6": ArraySpec("raid6", (A, B, C, D)),
    "raid10-n2": ArraySpec("raid10", (A, B, C, D)),
    "raid10-n2-odd": ArraySpec("raid10", (A, B, C)),
    "raid10-f2": ArraySpec("raid10", (A, B, C, D), layout="f2", chunk_bytes=65536),
    "raid10-o2": ArraySpec("raid10", (A, B, C, D), layout="o2", chunk_bytes=65536),
    "raid5-bitmap-spare": ArraySpec("raid5", (A, B, C), spares=(D,), bitmap=Bitmap.INTERNAL),
    "raid5-ppl": ArraySpec("raid5", (A, B, C), consistency_policy=ConsistencyPolicy.PPL),
    "raid5-journal": ArraySpec("raid5", (A, B, C), consistency_policy=ConsistencyPolicy.JOURNAL, journal_device=D),
    "raid6-assume-clean": ArraySpec("raid6", (A, B, C, D), chunk_bytes=65536, assume_clean=True),
    "raid1-bitmap": ArraySpec("raid1", (A, B), bitmap=Bitmap.INTERNAL),
}


def creates() -> None:
    device_bytes = int(_text("/sys/block/ubda/size") or 0) * 512
    for label, spec in CREATES.items():

        def act(spec: ArraySpec = spec, label: str = label) -> None:
            run(spec.creation())
            status = show()
            detail = read_detail(guest, "md0")  # type: ignore[arg-type]
            say("  ", detail)
            expected = usable_bytes(
                spec.raid, len(spec.members), device_bytes, spec.chunk_bytes, has_ppl=spec.consistency_policy == "ppl"
            )
            say(
                "   size expected",
                expected,
                "real",
                status.size_bytes,
                "SAME" if expected == status.size_bytes else "DIFFER",
            )
            capture(label)

        attempt(label, act)


def member_life(spec: ArraySpec) -> Callable[[], None]:
    def act() -> None:
        run(spec.creation())
        fast()
        idle()
        slow()
        run(ops.scrub_check("md0"))
        show()
        capture(f"{spec.level}-checking")
        run(ops.scrub_stop("md0"))
        fast()
        run(ops.scrub_check("md0"))
        idle()
        run(ops.fail("md0", B))
        show()
        capture(f"{spec.level}-failed")
        run(ops.remove("md0", B))
        if spec.bitmap is Bitmap.INTERNAL:
            run(ops.re_add("md0", B))
            idle()
            run(ops.fail("md0", B) + ops.remove("md0", B))
        slow()
        run(ops.add("md0", B, erase_first=True))
        say("   start:", brief(rebuilding()))
        capture(f"{spec.level}-rebuilding")
        fast()
        idle()
        slow()
        run(ops.replace("md0", A, H))
        say("   start:", brief(rebuilding()))
        capture(f"{spec.level}-replacing")
        fast()
        idle()
        run(ops.remove("md0", A))
        run(ops.stop("md0"))
        say("   arrays after stop:", read_arrays(guest))  # type: ignore[arg-type]
        run(ops.assemble("md0", (H, *spec.members[1:])))
        idle()

    return act


def grow(label: str, spec: ArraySpec, *plans: Plan, wait: bool = True) -> None:
    def act() -> None:
        run(spec.creation())
        if wait:
            fast()
            idle()
        guest.run(
            ("sh", "-c", "dd if=/dev/urandom of=/run/rnd bs=1M count=8; dd if=/run/rnd of=/dev/md0 bs=1M oflag=direct")
        )
        for plan in plans:
            if wait:
                slow()
            run(plan)
            time.sleep(0.5)
            show()
            capture(f"{label}-reshaping")
            if read_array(guest, "md0").sync_action.is_busy:  # type: ignore[arg-type]
                fast()
            idle()
        same = guest.run(("cmp", "-n", "8388608", "/run/rnd", "/dev/md0"), check=False).status == 0
        say("   data intact" if same else "!! DATA DIFFERS", read_detail(guest, "md0"))  # type: ignore[arg-type]

    attempt(label, act)


def tuning() -> None:
    run(ArraySpec("raid5", (A, B, C)).creation())
    fast()
    idle()
    run(ops.set_bitmap("md0", Bitmap.INTERNAL))
    say("   ", show().bitmap_location)
    run(ops.set_bitmap("md0", Bitmap.NONE))
    say("   ", show().bitmap_location)
    run(ops.grow_size("md0"))
    run(ops.stop("md0"))
    run(ArraySpec("raid5", (A, B, C), consistency_policy=ConsistencyPolicy.PPL, assume_clean=True).creation())
    say("   ", show().consistency_policy)
    run(ops.set_sync_speed("md0", minimum_kib_per_second=None, maximum_kib_per_second=None))
    say("   ", _text("/sys/block/md0/md/sync_speed_min"), _text("/sys/block/md0/md/sync_speed_max"))


def corruption(level: str, members: Sequence[str]) -> Callable[[], None]:
    def act() -> None:
        run(ArraySpec(level, tuple(members), chunk_bytes=None if level == "raid1" else 65536).creation())
        fast()
        idle()
        guest.run(("dd", "if=/dev/urandom", "of=/run/rnd", "bs=1M", "count=16"))
        guest.run(("dd", "if=/run/rnd", "of=/dev/md0", "bs=1M", "oflag=direct"))
        member = show().member(B)
        offset, size = (member.data_offset_sectors or 0) * 512, (member.data_size_kib or 0) * 1024
        plan = ops.corrupt(B, data_offset_bytes=offset, data_bytes=size, start_bytes=0, length_bytes=1 << 20)
        run(plan)
        run(ops.scrub_check("md0"))
        say("   mismatch sectors", idle().mismatch_sectors)
        run(ops.fail("md0", B) + ops.remove("md0", B) + ops.add("md0", B, erase_first=True))
        rebuilding()
        idle()
        run(ops.scrub_check("md0"))
        same = guest.run(("cmp", "-n", "16777216", "/run/rnd", "/dev/md0"), check=False).status == 0
        say("   mismatch sectors", idle().mismatch_sectors, "data intact" if same else "!! DATA DIFFERS")

    return act


def broken(level: str, members: Sequence[str], lost: Sequence[str]) -> Callable[[], None]:
    def act() -> None:
        run(ArraySpec(level, tuple(members), assume_clean=level != "raid0").creation())
        for member in lost:
            try:
                run(ops.fail("md0", member, breaks_array=member == lost[-1]))
            except CommandFailed as error:
                say("   refused:", str(error).replace("\n", " | "))
            show()
        read = guest.run(("dd", "if=/dev/md0", "of=/dev/null", "bs=1M", "count=8", "iflag=direct"), check=False)
        say("   read status", read.status, read.stderr.splitlines()[:1])
        capture(f"{level}-broken")
        run(ops.stop("md0") + ops.assemble("md0", members, force=True))
        show()

    return act


def file_systems() -> None:
    run(ArraySpec("raid5", (A, B, C), assume_clean=True).creation())
    status = show()
    for kind in (FileSystem.EXT4, FileSystem.XFS):
        try:
            stripe = 2 * (status.chunk_bytes or 0)
            run(
                make(
                    kind,
                    "/dev/md0",
                    size_bytes=status.size_bytes,
                    chunk_bytes=status.chunk_bytes,
                    full_stripe_bytes=stripe,
                )
            )
            run(check(kind, "/dev/md0"))
            run(mount(kind, "/dev/md0", options=("noatime",)))
            say("   free bytes", free_bytes(guest, mount_point("/dev/md0")))  # type: ignore[arg-type]
            run(unmount(kind, "/dev/md0"))
            run(check(kind, "/dev/md0"))
        except Exception as error:
            say(f"!! {kind}: {error}".replace("\n", " | "))


def operations() -> None:
    attempt("raid1 life", member_life(ArraySpec("raid1", (A, B), bitmap=Bitmap.INTERNAL)))
    attempt("raid5 life", member_life(ArraySpec("raid5", (A, B, C), bitmap=Bitmap.INTERNAL)))
    attempt("raid6 life", member_life(ArraySpec("raid6", (A, B, C, D))))
    attempt("raid10 life", member_life(ArraySpec("raid10", (A, B, C, D))))
    grow("raid5-grow", ArraySpec("raid5", (A, B, C)), ops.grow_members("md0", "raid5", 3, (D,)))
    grow("raid0-grow", ArraySpec("raid0", (A, B)), ops.grow_members("md0", "raid0", 2, (C,)), wait=False)
    grow("raid1-grow", ArraySpec("raid1", (A, B)), ops.grow_members("md0", "raid1", 2, (C,)))
    grow("raid6-grow", ArraySpec("raid6", (A, B, C, D)), ops.grow_members("md0", "raid6", 4, (E,)))
    grow("raid4-grow", ArraySpec("raid4", (A, B, C)), ops.grow_members("md0", "raid4", 3, (D,)))


def changes() -> None:
    grow("raid1-to-5", ArraySpec("raid1", (A, B)), ops.grow_level("md0", "raid1", "raid5", 2, (C,)))
    grow("raid5-to-6", ArraySpec("raid5", (A, B, C)), ops.grow_level("md0", "raid5", "raid6", 3, (D,)))
    attempt("tuning", tuning)
    attempt("raid5 corruption", corruption("raid5", (A, B, C)))
    attempt("raid1 corruption", corruption("raid1", (A, B)))
    attempt("raid0 broken", broken("raid0", (A, B), (B,)))
    attempt("raid1 broken", broken("raid1", (A, B), (B, A)))
    attempt("raid5 broken", broken("raid5", (A, B, C), (B, A)))
    attempt("raid10 broken", broken("raid10", (A, B, C, D), (C, B, A)))
    attempt("file systems", file_systems)


if __name__ == "__main__":
    {"creates": creates, "operations": operations, "changes": changes}[sys.argv[1]]()
