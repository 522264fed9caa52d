"""fio jobs, parsed into facts: from job files as fio reads them (init.c), and from its command line. Pure.

Source: fio's HOWTO, "Job file format" and "Command line options".
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from lab.gates.text import shortened
from lab.lint.fio_options import (
    KIB_BASE,
    canonical,
    fio_table,
    is_variable,
    moves_data,
    number_of,
    sizes_of,
    spelled_out,
)
from lab.workloads.workload import MOST_LINES

DEFAULT_ENGINE = "psync"
_READS, _WRITES = {"read", "randread"}, {"write", "randwrite", "trim", "randtrim", "trimwrite", "randtrimwrite"}
_MIXES = {"rw", "readwrite", "randrw"}
_LONGEST_LINE = 4095
"""fio reads this many bytes at a time: the rest of a longer line, even of a comment, becomes a separate line."""
_BLANK = "".join(map(chr, range(33))) + "\x7f"
_STDIN = ("-", "/dev/stdin")


@dataclass(frozen=True, slots=True)
class FioSetting:
    """One option of a job. ``name`` is fio's canonical name; ``value`` is ``1`` if none is given."""

    name: str
    value: str
    where: str
    written: str


@dataclass(frozen=True)
class FioSection:
    """One job with [global] applied."""

    name: str
    options: Mapping[str, str]
    after_wall: bool
    """Starts only after the preceding sections have ended."""
    where: str = ""
    """Prefix of messages about the section, if several jobs are checked."""

    @property
    def subject(self) -> str:
        return f"{self.where}[{self.name}]"

    def value(self, name: str, default: str = "") -> str:
        return self.options.get(name, default)

    def is_on(self, name: str) -> bool | None:
        """Whether a switch is on; None if this depends on a variable."""
        value = self.value(name, "0")
        return None if is_variable(value) else number_of(value) != 0

    def number(self, name: str, default: int) -> int | None:
        return number_of(self.value(name, str(default)))

    @cached_property
    def direction(self) -> str:
        """``read``, ``write`` or ``mix``; empty if unknown."""
        word = self.value("rw", "read").partition(":")[0]
        return "read" if word in _READS else "write" if word in _WRITES else "mix" if word in _MIXES else ""

    @property
    def discards_only(self) -> bool:
        return self.value("rw").partition(":")[0] in ("trim", "randtrim")

    @property
    def engine(self) -> str:
        return self.value("ioengine", DEFAULT_ENGINE)

    @property
    def moves_data(self) -> bool:
        return moves_data(self.engine)

    @property
    def block_sizes(self) -> tuple[int, ...] | None:
        """Block sizes in bytes; None if unknown."""
        base = self.number("kb_base", KIB_BASE) or KIB_BASE
        return sizes_of(self.value("bsrange") or self.value("bs", "4k"), base)

    @property
    def flushes_each_write(self) -> bool:
        """Each write is made durable before the next, like the log of a database."""
        return any(self.number(name, 0) == 1 for name in ("fsync", "fdatasync")) or (
            self.value("sync", "0") not in ("0", "none") and not is_variable(self.value("sync"))
        )

    @property
    def verifies(self) -> bool:
        """Written data are verified: the job ends when all of them are."""
        return self.value("verify", "0") not in ("0", "null") or self.is_on("verify_only") is True

    @property
    def scans_a_surface(self) -> bool:
        """Reads all of a device once, from one end to the other."""
        is_whole = self.value("size", "100%") == "100%" and "number_ios" not in self.options
        is_sequential = self.value("rw", "read") == "read"
        has_device = self.value("filename").startswith("/dev/") or is_variable(self.value("filename"))
        return is_whole and is_sequential and has_device and not {"runtime", "time_based"} & set(self.options)


@dataclass
class FioJob:
    """A job file or a command line."""

    settings: list[FioSetting] = field(default_factory=list)
    sections: tuple[FioSection, ...] = ()
    skipped: list[tuple[str, str]] = field(default_factory=list)
    """Parts that are not checked: location, and a sentence with the reason."""
    reaches: list[tuple[str, str]] = field(default_factory=list)
    """Accesses outside the job other than by a job's option: location and means."""
    files: list[str] = field(default_factory=list)
    """Job files named on a command line; ``-`` is standard input."""
    formats: tuple[str, ...] = ()
    """The value of ``--output-format``."""
    output: str = ""
    has_unknown_words: bool = False
    has_jobs: bool = False
    """Whether there are any jobs, here or in an included file."""


def parse_fio(text: str) -> tuple[FioSection, ...]:
    """The jobs of a file, in order."""
    return read_job(text).sections


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
            job.skipped.append((place, f"not analysed: '{shortened(line, 60)}' stands before the first section"))
        job.settings.append(gathered.take(key, value or "1", place, line))
    job.sections = gathered.sections(job)
    job.has_jobs = gathered.has_jobs or any(setting.name == "include" for setting in job.settings)
    return job


def _lines(text: str, where: str) -> Iterator[tuple[str, str]]:
    """Each line that is not a comment, split as fio does, with its position."""
    for number, whole in enumerate(text.split("\n"), 1):
        data = whole.encode(errors="surrogateescape")
        for start in range(0, max(1, len(data)), _LONGEST_LINE):
            line = data[start : start + _LONGEST_LINE].decode(errors="replace").strip(_BLANK)
            if line := line.partition(";")[0].partition("#")[0].strip(_BLANK):
                yield f"{where}line {number}", line


class _Gathered:
    """Collects sections in order."""

    def __init__(self, where: str) -> None:
        self._where = where
        self._shared: dict[str, str] = {}
        self._found: list[tuple[str, dict[str, str]]] = []
        self._target = self._shared
        self.has_section = False

    @property
    def has_jobs(self) -> bool:
        return bool(self._found)

    def begin(self, name: str) -> None:
        """Begin a section; fio treats every section whose name begins with "global" as the global one."""
        self.has_section = True
        if name.startswith("global"):
            self._target = self._shared
        else:
            self._target = dict(self._shared)
            self._found.append((name, self._target))

    def take(self, key: str, value: str, place: str, written: str) -> FioSetting:
        name = canonical(key)
        self._target[name] = value
        return FioSetting(name, value, place, written)

    def sections(self, job: FioJob) -> tuple[FioSection, ...]:
        # Each section is compared with all preceding ones.
        if len(self._found) > MOST_LINES:
            job.skipped.append((f"{self._where}the file", f"not analysed: it has more than {MOST_LINES} sections"))
            return ()
        return tuple(
            FioSection(name, options, options.get("stonewall", "0") != "0" or "wait_for" in options, where=self._where)
            for name, options in self._found
        )


def read_command(words: Sequence[str], where: str = "") -> FioJob:
    """Parse the words after ``fio`` on a command line; ``where`` is a prefix such as ``line 7: ``."""
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
            job.skipped.append((f"{where}--{shortened(key, 40)}", "not analysed: it is no option of fio 3.33 to 3.42"))
            continue
        if not sign and name not in own.without_value:
            value = next(rest, "")
        options.append(name)
        if name in own.reaches:
            job.reaches.append((f"{where}--{name}", own.reaches[name]))
        elif name == "output-format":
            job.formats = tuple(value.split(","))
        elif name == "output":
            job.output = value
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
    """Options before the first ``--name`` belong to that job."""
    if len(sections) < 2:
        return sections if sections and sections[0].options else ()
    first, *others = sections
    named, *later = others
    joined = {**first.options, **named.options}
    walled = named.after_wall or first.after_wall
    return (FioSection(named.name, joined, walled, where=named.where), *later)
