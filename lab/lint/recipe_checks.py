"""Checks of literal recipes: shell text and fio job files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from lab.errors import SpecError
from lab.lint.findings import Check, Finding, Seen, run_checks
from lab.lint.fio_text import Section, parse_fio
from lab.lint.shell import Recipe, parse_recipe
from lab.units import SECTOR_BYTES, parse_bytes
from lab.workloads.workload import SYNCHRONOUS_ENGINES

_CUTTERS = {"awk", "gawk", "grep", "egrep", "sed", "cut"}


def lint_shell(text: str) -> Iterator[Finding]:
    """A shell text. Raises SpecError if it cannot be read."""
    yield from run_checks(SHELL_CHECKS, parse_recipe(text))


def lint_fio(text: str) -> Iterator[Finding]:
    """A fio job file."""
    yield from run_checks(FIO_CHECKS, parse_fio(text))


def _member_reused(recipe: Recipe) -> Iterator[Seen]:
    users: dict[str, list[str]] = {}
    for array, members in recipe.arrays.items():
        for member in members:
            users.setdefault(member, []).append(array)
    for member, arrays in users.items():
        if len(arrays) > 1:
            yield Seen(member, f"is a member of {', '.join(arrays)}", "one array per device")


def _loop_buffered(recipe: Recipe) -> Iterator[Seen]:
    if recipe.buffered_loops:
        names = ", ".join(recipe.buffered_loops)
        yield Seen("loop devices", f"losetup without direct I/O: {names}", "--direct-io=on")


def _shared_backing(recipe: Recipe) -> Iterator[Seen]:
    folders: dict[str, list[str]] = {}
    for device, file in recipe.loops.items():
        folders.setdefault(file.rpartition("/")[0], []).append(device)
    for folder, devices in folders.items():
        used = {member for members in recipe.arrays.values() for member in members}
        if len(used & set(devices)) > 1:
            yield Seen(folder or "the current folder", f"holds the images of {len(devices)} disks", "a disk for each")


def _human_output(recipe: Recipe) -> Iterator[Seen]:
    texts = set()
    for command in recipe.commands:
        if command.program != "fio":
            continue
        if "json" in (command.option("--output-format") or ""):
            continue
        texts |= {name for name in (command.writes_to, command.option("--output") or "") if name}
        cutters = [name for name in command.pipes_to if name in _CUTTERS]
        if cutters:
            yield Seen("fio", f"its text goes through {', '.join(cutters)}", "--output-format=json")
    for command in recipe.commands:
        files = texts & set(command.argv)
        if command.program in _CUTTERS and files:
            yield Seen("fio", f"its text in {', '.join(sorted(files))} goes through {command.program}", "JSON")


def _device_missing(recipe: Recipe) -> Iterator[Seen]:
    # Whether other disks are there cannot be told from the text.
    used = [member for members in recipe.arrays.values() for member in members]
    used += [device for _, action, device in recipe.changes if action in ("add", "re-add")]
    for device in dict.fromkeys(used):
        if device.startswith("/dev/loop") and recipe.loops and device not in recipe.loops:
            yield Seen(device, "is used, and no losetup sets it up", "an image and a losetup for it")
    for device, file in recipe.loops.items():
        if recipe.made_files and file not in recipe.made_files:
            yield Seen(device, f"its image {file} is never created", "create it first")


def _not_a_member(recipe: Recipe) -> Iterator[Seen]:
    members = {array: set(found) for array, found in recipe.arrays.items()}
    for array, action, device in recipe.changes:
        if array not in members:
            continue
        if action in ("fail", "remove") and device not in members[array]:
            yield Seen(device, f"{action} on {array}, which has {', '.join(sorted(members[array]))}", "a member")
        elif action in ("add", "re-add"):
            members[array].add(device)


def _measured_dd(recipe: Recipe) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Source, target and words of each dd that writes on what is measured, and not an image for a loop device."""
    for command in recipe.commands:
        target = command.option("of")
        is_image = target in recipe.loops.values() or (target or "").endswith((".img", ".raw", ".qcow2"))
        if command.program == "dd" and target and target != "/dev/null" and not is_image:
            yield command.option("if") or "", target, command.argv


def _buffered_writer(recipe: Recipe) -> Iterator[Seen]:
    for _, target, words in _measured_dd(recipe):
        flags = " ".join(word for word in words if word.startswith(("oflag=", "conv=")))
        if not any(flag in flags for flag in ("direct", "sync")):
            yield Seen(f"dd to {target}", "ends while data are in the page cache", "oflag=direct or conv=fdatasync")


def _zero_data(recipe: Recipe) -> Iterator[Seen]:
    for source, target, _ in _measured_dd(recipe):
        if source == "/dev/zero":
            yield Seen(f"dd to {target}", "writes zeros", "random data")


def _parity_unverified(recipe: Recipe) -> Iterator[Seen]:
    for array in recipe.assumed_clean:
        if recipe.levels.get(array, "") in ("4", "5", "6"):
            yield Seen(array, "--assume-clean", "a first resync, or blank disks")


SHELL_CHECKS: Mapping[str, Check[Recipe]] = {
    "member-reused": _member_reused,
    "loop-buffered": _loop_buffered,
    "shared-backing-disk": _shared_backing,
    "human-output-parsed": _human_output,
    "device-missing": _device_missing,
    "not-a-member": _not_a_member,
    "buffered-writer": _buffered_writer,
    "zero-data": _zero_data,
    "parity-unverified": _parity_unverified,
}

_Sections = tuple[Section, ...]


def _mixed_directions(sections: _Sections) -> Iterator[Seen]:
    together: list[Section] = []
    for section in sections:
        together = [section] if section.after_wall else [*together, section]
        directions = {each.direction for each in together}
        if len(directions) > 1 and together[-1].direction not in {each.direction for each in together[:-1]}:
            names = " and ".join(f"[{each.name}]" for each in together)
            yield Seen("fio job", f"{names} run at the same time", "'stonewall' between them")


def _depth_without_async(sections: _Sections) -> Iterator[Seen]:
    for section in sections:
        depth = section.value("iodepth", default="1")
        engine = section.value("ioengine", default="psync")
        if depth.isdigit() and int(depth) > 1 and engine in SYNCHRONOUS_ENGINES:
            yield Seen(f"[{section.name}]", f"iodepth={depth} with ioengine={engine}", "libaio or io_uring")


def _runtime_short(sections: _Sections) -> Iterator[Seen]:
    for section in sections:
        if "time_based" not in section.options or "runtime" not in section.options:
            yield Seen(f"[{section.name}]", "ends when its file is covered", "time_based and runtime")


def _fio_zero_data(sections: _Sections) -> Iterator[Seen]:
    for section in sections:
        if section.direction != "read" and section.value("zero_buffers") == "1":
            yield Seen(f"[{section.name}]", "zero_buffers", "refill_buffers")


def _fio_buffered(sections: _Sections) -> Iterator[Seen]:
    for section in sections:
        past_cache = section.value("direct") == "1" or section.value("buffered") == "0"
        flushed = any(name in section.options for name in ("fsync", "fdatasync", "end_fsync", "sync"))
        if section.direction != "read" and not past_cache and not flushed:
            yield Seen(f"[{section.name}]", "writes through the page cache", "direct=1")


def _jobs_unsummed(sections: _Sections) -> Iterator[Seen]:
    for section in sections:
        jobs = section.value("numjobs", default="1")
        if jobs != "1" and "group_reporting" not in section.options:
            yield Seen(f"[{section.name}]", f"{jobs} jobs, each reported apart", "group_reporting")


def _misaligned(sections: _Sections) -> Iterator[Seen]:
    for section in sections:
        try:
            block = parse_bytes(section.value("bs", "blocksize", default="4k").partition(",")[0], what="bs")
        except SpecError:
            continue
        if block % SECTOR_BYTES:
            yield Seen(f"[{section.name}]", f"blocks of {block} bytes", f"a multiple of {SECTOR_BYTES}")


FIO_CHECKS: Mapping[str, Check[_Sections]] = {
    "mixed-directions": _mixed_directions,
    "depth-without-async": _depth_without_async,
    "runtime-short": _runtime_short,
    "zero-data": _fio_zero_data,
    "buffered-writer": _fio_buffered,
    "jobs-unsummed": _jobs_unsummed,
    "misaligned": _misaligned,
}
