"""Lint of fio jobs from command lines and job files, both parsed as fio parses them (init.c), without side effects.

The sources are "Job file format" and "Command line options" in fio's HOWTO. fio_options.toml is the table of options.
Values are parsed as fio parses them (parse.c), which was checked against fio 3.33. ``4k`` and ``4ki`` are 4,096 bytes,
``4kib`` is 4,000 unless ``kb_base=1000``, and only the first number of an expression counts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache, cached_property
from pathlib import Path

import msgspec

from lab.errors import SpecError
from lab.gates.decoding import FormatVersion
from lab.gates.text import shortened
from lab.lint.rules import NOT_ANALYSED, NOT_PLAYED, Check, LintFinding, Seen, run_checks
from lab.tomlfile import read_toml
from lab.units import SECTOR_BYTES
from lab.workloads.workload import ENGINES, MOST_LINES, RULE, SYNCHRONOUS_ENGINES, plays

OPTIONS_FILE = Path(__file__).with_name("fio_options.toml")
KIB_BASE = 1024
_NUMBER = r"(?:0[xX][0-9a-fA-F]{1,16}|[0-9]{1,19})"
_SIZE = re.compile(rf"({_NUMBER})([kmgtp]?)(i?)(b?)", re.IGNORECASE)
_PERCENT = re.compile(r"[0-9]{1,3}%")
_TIME = re.compile(rf"({_NUMBER})([a-z]*)", re.IGNORECASE)
_SECONDS = {"us": 1e-6, "usec": 1e-6, "ms": 1e-3, "msec": 1e-3, "": 1, "s": 1, "sec": 1, "m": 60, "h": 3600, "d": 86400}


class FioGroup(StrEnum):
    """The effect of a fio option."""

    REACHES = "reaches"
    """The option runs a command, loads code, or opens something other than the job's own target."""
    CHANGES = "changes"
    """The option changes the load in a way that raidlab's own loads do not support."""
    PLAYED = "played"
    """raidlab's own loads support the option too."""
    SILENT = "silent"
    """The option has no effect on the load."""
    UNKNOWN = "unknown"


class _Entry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    group: FioGroup
    why: str
    names: tuple[str, ...]
    off: tuple[str, ...] = ()
    moves_data: bool = True


class _Values(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    names: tuple[str, ...]
    pattern: str
    why: str


class _CommandLine(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    without_value: tuple[str, ...]
    silent: tuple[str, ...]
    without_job: tuple[str, ...]
    reaches: dict[str, str]


class FioTable(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, dict=True):
    """The contents of fio_options.toml."""

    format_version: FormatVersion
    options: tuple[_Entry, ...]
    values: tuple[_Values, ...]
    engines: tuple[_Entry, ...]
    aliases: dict[str, str]
    kinds: dict[str, tuple[str, ...]]
    command_line: _CommandLine

    @cached_property
    def by_name(self) -> Mapping[str, _Entry]:
        return {name: entry for entry in self.options for name in entry.names}

    @cached_property
    def engine_by_name(self) -> Mapping[str, _Entry]:
        return {name: entry for entry in self.engines for name in entry.names}

    @cached_property
    def kind_by_name(self) -> Mapping[str, str]:
        return {name: kind for kind, names in self.kinds.items() for name in names}

    @cached_property
    def spellings(self) -> frozenset[str]:
        """Every word that may follow ``--`` on a command line."""
        own = self.command_line
        return frozenset({*self.by_name, *self.aliases, *own.silent, *own.reaches} - {"include"})


@cache
def fio_table() -> FioTable:
    """Return the whole table, which is read only once."""
    return read_toml(OPTIONS_FILE, FioTable)


def canonical(name: str) -> str:
    """Return the canonical name of an option."""
    return fio_table().aliases.get(name, name)


def spelled_out(word: str) -> str | None:
    """Return the option that getopt_long(3) selects for ``word``, which may be an unambiguous prefix, or None."""
    spellings = fio_table().spellings
    if word in spellings:
        return word
    found = {canonical(each) for each in spellings if each.startswith(word)}
    return found.pop() if len(found) == 1 else None


def group_of(name: str, value: str) -> tuple[FioGroup, str]:
    """Return the effect of an option with this value, and the reason as a clause. ``name`` must be canonical."""
    table = fio_table()
    entry = table.by_name.get(name)
    if entry is None:
        return FioGroup.UNKNOWN, "is not an option of fio 3.33 to 3.42"
    for each in table.values:
        if name in each.names and re.search(each.pattern, value):
            return FioGroup.REACHES, each.why
    if value in entry.off:
        return FioGroup.SILENT, "is switched off"
    if name == "ioengine":
        return _group_of_engine(value)
    if entry.group is FioGroup.PLAYED and not _is_variable(value):
        return _group_of_value(name, value)
    return entry.group, entry.why


def _group_of_engine(value: str) -> tuple[FioGroup, str]:
    word = value.partition(":")[0]
    if _is_variable(value) or value in ENGINES:
        return FioGroup.PLAYED, ""
    entry = fio_table().engine_by_name.get(word)
    if entry is None or (word != value and word != "external"):
        return FioGroup.REACHES, "loads code: fio has no engine with this name, so it loads a library with this name"
    return entry.group, entry.why


def _group_of_value(name: str, value: str) -> tuple[FioGroup, str]:
    if name in fio_table().kind_by_name or plays(name, value):
        return FioGroup.PLAYED, ""
    if name == "rw" and "trim" in value:
        return FioGroup.CHANGES, "discards blocks"
    if name == "rw" and ":" in value:
        return FioGroup.CHANGES, "omits or repeats addresses between requests"
    if name == "verify" and value in ("0", "null"):
        return FioGroup.SILENT, "verifies nothing"
    return FioGroup.CHANGES, "is a value that raidlab's loads do not have"


def _is_variable(value: str) -> bool:
    """Whether the value is known only at fio's run time."""
    return "$" in value or "`" in value


def _why_not_understood(name: str, value: str) -> str:
    """Return a clause that says why an option's value cannot be checked, or "" if it can. ``name`` is canonical."""
    if _is_variable(value):
        return "depends on a variable"
    kind = fio_table().kind_by_name.get(name)
    if kind is None or _READERS[kind](value):
        return ""
    return "is a calculation" if re.search(r"[(*+]", value) else f"is not a {kind} that raidlab can parse"


def bytes_of(text: str, kib_base: int = KIB_BASE) -> int | None:
    """Parse a size the way fio does. Return None if the text is not a size, for example if it is a percentage."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        return None
    number, prefix, binary, unit = found.groups()
    # "kib" has the opposite meaning of "k" and "kb", whereas "ki" has the same meaning as they do.
    base = {1024: 1000, 1000: 1024}.get(kib_base, kib_base) if binary and unit else kib_base
    return (number_of(number) or 0) * int(base ** " kmgtp".index(prefix.lower() or " "))


def sizes_of(text: str, kib_base: int = KIB_BASE) -> tuple[int, ...] | None:
    """Parse sizes for reads, writes and trims, such as ``4k-8k,16k`` or ``128k,``. Return None if one is not a size."""
    words = [word for word in re.split(r"[,/:-]", text) if word.strip()]
    found = [bytes_of(word, kib_base) for word in words]
    return tuple(each for each in found if each is not None) if words and None not in found else None


def seconds_of(text: str) -> float | None:
    """Parse a time the way fio does. A number without a unit is in seconds. Return None if the text is not a time."""
    found = _TIME.fullmatch(text.strip())
    if found is None or found[2].lower() not in _SECONDS:
        return None
    return (number_of(found[1]) or 0) * _SECONDS[found[2].lower()]


def number_of(text: str) -> int | None:
    """Parse a whole number in decimal, or in hexadecimal with ``0x``. Return None if the text is not such a number."""
    if not re.fullmatch(_NUMBER, text.strip()):
        return None
    return int(text, 16 if text.strip()[:2].lower() == "0x" else 10)


def _are_numbers(text: str) -> bool:
    parts = [word for word in re.split(r"[,:]", text) if word] or [text]
    return all(number_of(word) is not None for word in parts) or all(map(bytes_of, parts))


_READERS: Mapping[str, Callable[[str], bool]] = {
    "size": lambda text: bool(_PERCENT.fullmatch(text)) or sizes_of(text) is not None,
    "time": lambda text: seconds_of(text) is not None,
    "number": _are_numbers,
    "switch": lambda text: number_of(text) is not None or text.lower() in ("true", "false"),
}


DEFAULT_ENGINE = "psync"
_READS, _WRITES = {"read", "randread"}, {"write", "randwrite", "trim", "randtrim", "trimwrite", "randtrimwrite"}
_MIXES = {"rw", "readwrite", "randrw"}
_LONGEST_LINE = 4095
"""fio reads at most this many bytes of a line. The rest, even of a comment, becomes a separate line."""
_BLANK = "".join(map(chr, range(33))) + "\x7f"
_STDIN = ("-", "/dev/stdin")


@dataclass(frozen=True, slots=True)
class FioSetting:
    """One option of a job. ``name`` is fio's canonical name, and ``value`` is ``1`` if none is given."""

    name: str
    value: str
    where: str
    written: str


@dataclass(frozen=True)
class FioSection:
    """One job, with the options of [global] applied."""

    name: str
    options: Mapping[str, str]
    after_wall: bool
    """Whether the job starts only after the preceding sections have ended."""
    where: str = ""
    """The prefix of messages about the job if several jobs are checked."""

    @property
    def subject(self) -> str:
        return f"{self.where}[{self.name}]"

    def value(self, name: str, default: str = "") -> str:
        return self.options.get(name, default)

    def is_on(self, name: str) -> bool | None:
        """Whether a switch is on, or None if this depends on a variable."""
        value = self.value(name, "0")
        return None if _is_variable(value) else number_of(value) != 0

    def number(self, name: str, default: int) -> int | None:
        return number_of(self.value(name, str(default)))

    @cached_property
    def direction(self) -> str:
        """The direction, which is ``read``, ``write``, ``mix`` or, if it is unknown, empty."""
        word = self.value("rw", "read").partition(":")[0]
        return "read" if word in _READS else "write" if word in _WRITES else "mix" if word in _MIXES else ""

    @property
    def engine(self) -> str:
        return self.value("ioengine", DEFAULT_ENGINE)

    @property
    def moves_data(self) -> bool:
        """Whether the job's I/O engine reads or writes at all."""
        entry = fio_table().engine_by_name.get(self.engine.partition(":")[0])
        return entry is None or entry.moves_data

    @property
    def block_sizes(self) -> tuple[int, ...] | None:
        """The block sizes in bytes, or None if they are unknown."""
        base = self.number("kb_base", KIB_BASE) or KIB_BASE
        return sizes_of(self.value("bsrange") or self.value("bs", "4k"), base)

    @property
    def flushes_each_write(self) -> bool:
        """Whether each write is made durable before the next, as in the log of a database."""
        return any(self.number(name, 0) == 1 for name in ("fsync", "fdatasync")) or (
            self.value("sync", "0") not in ("0", "none") and not _is_variable(self.value("sync"))
        )

    @property
    def verifies(self) -> bool:
        """Whether written data are verified. A job that verifies ends when all data have been verified."""
        return self.value("verify", "0") not in ("0", "null") or self.is_on("verify_only") is True

    @property
    def scans_a_surface(self) -> bool:
        """Whether the job reads all of a device once, from one end to the other."""
        is_whole = self.value("size", "100%") == "100%" and "number_ios" not in self.options
        is_sequential = self.value("rw", "read") == "read"
        has_device = self.value("filename").startswith("/dev/") or _is_variable(self.value("filename"))
        return is_whole and is_sequential and has_device and not {"runtime", "time_based"} & set(self.options)


@dataclass
class FioJob:
    """A job file or a command line."""

    settings: list[FioSetting] = field(default_factory=list)
    sections: tuple[FioSection, ...] = ()
    skipped: list[tuple[str, str]] = field(default_factory=list)
    """Each part that is not checked, as its location and a sentence with the reason."""
    reaches: list[tuple[str, str]] = field(default_factory=list)
    """Each access outside the job that is not due to an option of a job, as its location and the means of access."""
    files: list[str] = field(default_factory=list)
    """Job files given on a command line. ``-`` is standard input."""
    has_jobs: bool = False
    """Whether there are any jobs, here or in an included file."""


def read_job(text: str, where: str = "") -> FioJob:
    """Parse a job file. ``where`` is the prefix of messages about its lines and sections."""
    job, gathered = FioJob(), _Gathered(where)
    for place, line in _lines(text, where):
        if line[0] == "[":
            gathered.begin(line[1:].partition("]")[0].strip(_BLANK))
            continue
        key, sign, value = (part.strip(_BLANK) for part in line.partition("="))
        if not sign and key.startswith("include"):
            key, value = "include", key.removeprefix("include").strip(_BLANK)
        if not gathered.has_section:
            job.skipped.append((place, f"not analysed: '{shortened(line, 60)}' is before the first section"))
        job.settings.append(gathered.take(key, value or "1", place, line))
    job.sections = gathered.sections(job)
    job.has_jobs = bool(gathered.found) or any(setting.name == "include" for setting in job.settings)
    return job


def _lines(text: str, where: str) -> Iterator[tuple[str, str]]:
    """Yield each line that is not a comment, split as fio splits it, with its position."""
    for number, whole in enumerate(text.split("\n"), 1):
        data = whole.encode(errors="surrogateescape")
        for start in range(0, max(1, len(data)), _LONGEST_LINE):
            line = data[start : start + _LONGEST_LINE].decode(errors="replace").strip(_BLANK)
            if line := line.partition(";")[0].partition("#")[0].strip(_BLANK):
                yield f"{where}line {number}", line


class _Gathered:
    def __init__(self, where: str) -> None:
        self._where = where
        self._shared: dict[str, str] = {}
        self.found: list[tuple[str, dict[str, str]]] = []
        self._target = self._shared
        self.has_section = False

    def begin(self, name: str) -> None:
        """Begin a section. fio treats every section whose name begins with "global" as a global section."""
        self.has_section = True
        if name.startswith("global"):
            self._target = self._shared
        else:
            self._target = dict(self._shared)
            self.found.append((name, self._target))

    def take(self, key: str, value: str, place: str, written: str) -> FioSetting:
        name = canonical(key)
        self._target[name] = value
        return FioSetting(name, value, place, written)

    def sections(self, job: FioJob) -> tuple[FioSection, ...]:
        # The number of sections is limited because each is compared with all preceding ones.
        if len(self.found) > MOST_LINES:
            job.skipped.append((f"{self._where}the file", f"not analysed: it has more than {MOST_LINES} sections"))
            return ()
        return tuple(
            FioSection(name, options, options.get("stonewall", "0") != "0" or "wait_for" in options, where=self._where)
            for name, options in self.found
        )


def read_command(words: Sequence[str], where: str = "") -> FioJob:
    """Parse the arguments of ``fio`` on a command line. ``where`` is a prefix of messages, such as ``line 7: ``."""
    job, gathered, table = FioJob(), _Gathered(where), fio_table()
    own = table.command_line
    gathered.begin("")
    options: list[str] = []
    rest = iter(words)
    for word in rest:
        if not word.startswith("--") or word == "--":
            if word in _STDIN or not word.startswith("-"):
                job.files.append(word)
            continue
        key, sign, value = word[2:].partition("=")
        name = spelled_out(key)
        if name is None:
            what = "not analysed: it is not an option of fio 3.33 to 3.42"
            job.skipped.append((f"{where}--{shortened(key, 40)}", what))
            continue
        if not sign and name not in own.without_value:
            value = next(rest, "")
        options.append(name)
        if name in own.reaches:
            job.reaches.append((f"{where}--{name}", own.reaches[name]))
        elif name == "name":
            gathered.begin(value)
            gathered.take(name, value, where, word)
        elif name not in own.silent:
            written = f"{key}={value}" if value else key
            job.settings.append(gathered.take(name, value or "1", f"{where}--{key}", written))
    if not set(options) & set(own.without_job):
        job.sections = _of_command(gathered.sections(job))
    return job


def _of_command(sections: tuple[FioSection, ...]) -> tuple[FioSection, ...]:
    """Return the sections of a command line. Options before the first ``--name`` belong to the first job."""
    if len(sections) < 2:
        return sections if sections and sections[0].options else ()
    first, *others = sections
    named, *later = others
    joined = {**first.options, **named.options}
    walled = named.after_wall or first.after_wall
    return (FioSection(named.name, joined, walled, where=named.where), *later)


_JOB_FORM = (
    "begin each job with its name in brackets, such as [random-reads], and put one fio option on each line below it"
)
_OWN_TARGET = "options that affect only the job's own target"


def lint_job_file(text: str) -> Iterator[LintFinding]:
    """Check a fio job file from any source. Raises SpecError if it contains no job."""
    job = read_job(text)
    if not job.has_jobs:
        raise SpecError("it contains no fio job, that is, no [section] besides [global]", hint=_JOB_FORM)
    yield from lint_job(job)


def lint_job(job: FioJob) -> Iterator[LintFinding]:
    """Check a job file or a command line from any source. Report all defects, and the parts that were not checked."""
    yield from run_checks(JOB_CHECKS, job)
    yield from run_checks(FIO_CHECKS, job.sections)


def lint_fio(text: str) -> Iterator[LintFinding]:
    """Check a fio job that was validated when it was read."""
    yield from run_checks(FIO_CHECKS, read_job(text).sections)


_Sections = tuple[FioSection, ...]
NOT_JUDGED = "nothing: the lint does not judge it"


def _foreign_command(job: FioJob) -> Iterator[Seen]:
    for where, why in job.reaches:
        yield Seen(where, why, _OWN_TARGET)
    yield from _in_group(job, FioGroup.REACHES, _OWN_TARGET)


def _in_group(job: FioJob, group: FioGroup, required: str) -> Iterator[Seen]:
    for setting in job.settings:
        found, why = group_of(setting.name, setting.value)
        if found is group:
            yield Seen(setting.where, f"'{shortened(setting.written, 60)}' {why}", required)


def _not_analysed(job: FioJob) -> Iterator[Seen]:
    for where, why in job.skipped:
        yield Seen(where, why, NOT_JUDGED)
    for setting in job.settings:
        group, why = group_of(setting.name, setting.value)
        if group is FioGroup.PLAYED:
            why = _why_not_understood(setting.name, setting.value)
        elif group is not FioGroup.UNKNOWN:
            continue
        if why:
            yield Seen(setting.where, f"'{shortened(setting.written, 60)}' is not analysed: it {why}", NOT_JUDGED)


def _mixed_directions(sections: _Sections) -> Iterator[Seen]:
    together: list[FioSection] = []
    for section in sections:
        together = [section] if section.after_wall else [*together, section]
        directions = {each.direction for each in together if each.moves_data} - {""}
        if (
            len(directions) > 1
            and section.direction in directions
            and section.direction not in {each.direction for each in together[:-1]}
        ):
            names = " and ".join(f"[{each.name}]" for each in together)
            yield Seen(f"{section.where}fio job", f"{names} run at the same time", "'stonewall' between them")


def _depth_without_async(sections: _Sections) -> Iterator[Seen]:
    for section in sections:
        depth = section.value("iodepth", "1")
        if (section.number("iodepth", 1) or 0) > 1 and section.engine in SYNCHRONOUS_ENGINES:
            yield Seen(section.subject, f"iodepth={depth} with ioengine={section.engine}", "libaio or io_uring")


def _runtime_short(sections: _Sections) -> Iterator[Seen]:
    for section in sections:
        is_timed = section.is_on("time_based") is not False and "runtime" in section.options
        # These end by themselves when everything is verified or read, when a trace ends, or after a number of durable
        # writes.
        ends_by_itself = (
            section.verifies
            or section.scans_a_surface
            or "read_iolog" in section.options
            or (section.direction == "write" and section.flushes_each_write)
        )
        if section.moves_data and not is_timed and not ends_by_itself:
            yield Seen(section.subject, "ends once its whole file has been read or written", "time_based and runtime")
        elif section.moves_data and "runtime" in section.options:
            # ramp_time precedes runtime, and its I/Os are not counted.
            warmup, measured = (seconds_of(section.value(name, "0")) for name in ("ramp_time", "runtime"))
            if warmup and measured and measured < warmup:
                observed = f"{measured:g} s measured after {warmup:g} s of ramp_time"
                yield Seen(section.subject, observed, "a runtime at least as long as the warm-up")


def _fio_zero_data(sections: _Sections) -> Iterator[Seen]:
    for section in sections:
        if section.direction in ("write", "mix") and section.is_on("zero_buffers"):
            yield Seen(section.subject, "zero_buffers", "refill_buffers")


def _fio_buffered(sections: _Sections) -> Iterator[Seen]:
    for section in sections:
        discards_only = section.value("rw").partition(":")[0] in ("trim", "randtrim")
        has_cache = section.engine in ENGINES and not discards_only
        # is_on() is None if the value depends on a variable.
        past_cache = section.is_on("direct") is not False or section.value("buffered") == "0" or section.is_on("atomic")
        flushes = ("fsync", "fdatasync", "end_fsync", "sync")
        flushed = any(section.value(name, "0") not in ("0", "none") for name in flushes)
        if section.direction in ("write", "mix") and has_cache and not past_cache and not flushed:
            yield Seen(section.subject, "writes through the page cache", "direct=1")


def _jobs_unsummed(sections: _Sections) -> Iterator[Seen]:
    for section in sections:
        jobs = section.value("numjobs", "1")
        if section.moves_data and jobs != "1" and not _is_variable(jobs) and section.is_on("group_reporting") is False:
            yield Seen(section.subject, f"{jobs} jobs, each reported separately", "group_reporting")


def _misaligned(sections: _Sections) -> Iterator[Seen]:
    for section in sections:
        # A log has appended records of any size, and the page cache combines them into whole blocks.
        appends = section.flushes_each_write and section.is_on("direct") is False
        for block in section.block_sizes or ():
            if block % SECTOR_BYTES and section.moves_data and not appends:
                yield Seen(section.subject, f"blocks of {block} bytes", f"a multiple of {SECTOR_BYTES}")
                break


FIO_CHECKS: Mapping[str, Check[_Sections]] = {
    "mixed-directions": _mixed_directions,
    "depth-without-async": _depth_without_async,
    "runtime-short": _runtime_short,
    "zero-data": _fio_zero_data,
    "buffered-writer": _fio_buffered,
    "jobs-unsummed": _jobs_unsummed,
    "misaligned": _misaligned,
}
JOB_CHECKS: Mapping[str, Check[FioJob]] = {
    RULE: _foreign_command,
    NOT_PLAYED: lambda job: _in_group(job, FioGroup.CHANGES, "run it with fio itself, because raidlab cannot run it"),
    NOT_ANALYSED: _not_analysed,
}
