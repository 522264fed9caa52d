"""A published study, as its commands and the facts in its text, and the lint rules for it. Commands are never run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import msgspec

from lab.lint.experiment_checks import TRUSTWORTHY_REPEATS
from lab.lint.fio_checks import lint_fio
from lab.lint.rules import Check, LintFinding, Seen, distinct, run_checks
from lab.publications.recipes import dd_bytes, lint_shell, parse_recipe
from lab.tomlfile import read_toml, unknown_word
from lab.units import GIB, human_bytes

FOLDER = Path(__file__).with_name("texts")
LEAST_MEMORY_BYTES = 2 * GIB
"""Memory that any computer in such a study has at least."""
_INTEGRITY = "integrity"


class PublishedConclusion(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A conclusion about a parameter, with the measured values of the other parameter that was varied with it."""

    about: str
    partner: str
    partner_values: tuple[str, ...]


class Publication(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One published study. A field is empty or None if the text does not say."""

    study: str
    source: str
    commands: str = ""
    fio_job: str = ""
    image_bytes: int | None = None
    """Size of each file behind a loop device."""
    file_bytes: int | None = None
    """Total amount of data that a job reads or writes."""
    members: dict[str, int] = {}
    """Array -> number of disks."""
    printed_members: dict[str, tuple[str, ...]] = {}
    """Array -> devices, according to a table in the text."""
    runs: int | None = None
    """Runs of each configuration; None if not stated."""
    shows_spread: bool = False
    shows_percentiles: bool = False
    promises: tuple[str, ...] = ()
    """Metrics and checks that the text announces."""
    reports: tuple[str, ...] = ()
    """Metrics and checks that the text reports."""
    conclusions: tuple[PublishedConclusion, ...] = ()
    averages_over: tuple[str, ...] = ()
    """Dimensions over which the text takes means."""
    percentiles_of: str = ""
    """``averages`` if percentiles were computed from averaged logs."""
    backing: str = ""
    """``network``, ``local`` or empty."""
    platforms: tuple[str, ...] = ()
    """The platforms that the study intends to compare."""
    measured_on: tuple[str, ...] = ()
    engine: str = ""
    """``simulator``, ``emulator`` or empty."""
    declared_bytes: int | None = None
    """The data volume that the text states."""
    cpu_unit: str = ""
    """``percent`` if CPU use is given in no other unit."""
    compares_raw: bool = False
    """Whether MB/s or IOPS of two platforms are compared directly."""
    shows_mttdl: bool = False


@cache
def built_in_names() -> tuple[str, ...]:
    """The names of the built-in publications."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.toml")))


def find_publication(name: str) -> Publication:
    """A built-in publication. Raises SpecError, with the nearest name, for an unknown one."""
    if name not in built_in_names():
        raise unknown_word("publication", name, built_in_names())
    return read_toml(FOLDER / f"{name}.toml", Publication)


def lint_study(name: str) -> tuple[LintFinding, ...]:
    """The lint findings of a built-in publication. Raises SpecError for an unknown one."""
    return lint_publication(find_publication(name))


def lint_publication(published: Publication) -> tuple[LintFinding, ...]:
    """The lint findings of a publication's text and commands. Raises SpecError for commands that cannot be parsed."""
    found = list(run_checks(CHECKS, published))
    if published.commands:
        found += lint_shell(published.commands, published.fio_job)
    if published.fio_job:
        found += lint_fio(published.fio_job)
    return distinct(found)


def _too_few_repeats(published: Publication) -> Iterator[Seen]:
    if published.runs is None:
        yield Seen(published.study, "the number of runs is not given", str(TRUSTWORTHY_REPEATS))
    elif published.runs < TRUSTWORTHY_REPEATS:
        yield Seen(published.study, f"runs of each configuration: {published.runs}", str(TRUSTWORTHY_REPEATS))


def _no_dispersion(published: Publication) -> Iterator[Seen]:
    if not published.shows_spread:
        yield Seen(published.study, "numbers without an interval", "n and an interval")


def _no_percentiles(published: Publication) -> Iterator[Seen]:
    if "latency" in published.reports and not published.shows_percentiles:
        yield Seen(published.study, "latency by its mean only", "p50, p95 and p99")


def _promised_metric_missing(published: Publication) -> Iterator[Seen]:
    for metric in published.promises:
        if metric not in published.reports:
            yield Seen(metric, "promised, not reported", "a value, or why there is none")


def _integrity_unchecked(published: Publication) -> Iterator[Seen]:
    if _INTEGRITY in published.promises and _INTEGRITY not in published.reports:
        yield Seen(published.study, "the data are claimed to be safe", "checksums before and after")


def _topology_mismatch(published: Publication) -> Iterator[Seen]:
    built = parse_recipe(published.commands).arrays
    for array, printed in published.printed_members.items():
        made = tuple(device.removeprefix("/dev/") for device in built.get(f"/dev/{array}", ()))
        if made and sorted(made) != sorted(printed):
            yield Seen(array, f"the table says {', '.join(printed)}, the commands {', '.join(made)}", "the same")


def _unequal_members(published: Publication) -> Iterator[Seen]:
    if len(set(published.members.values())) > 1:
        counts = ", ".join(f"{array} {count}" for array, count in published.members.items())
        yield Seen(published.study, f"members: {counts}", "as many for every level")


def _file_exceeds_fs(published: Publication) -> Iterator[Seen]:
    if published.file_bytes is None or published.image_bytes is None:
        return
    for array, level in parse_recipe(published.commands).levels.items():
        # A mirror has the capacity of one image, less md's superblock and the metadata of the file system.
        if level == "1" and published.file_bytes >= published.image_bytes:
            wanted, has = human_bytes(published.file_bytes), human_bytes(published.image_bytes)
            yield Seen(array, f"a file of {wanted} on mirrored images of {has}", "files that fit on the smallest array")


def _file_fits_cache(published: Publication) -> Iterator[Seen]:
    buffered = parse_recipe(published.commands).buffered_loops
    if buffered and published.file_bytes is not None and published.file_bytes <= LEAST_MEMORY_BYTES:
        yield Seen(
            published.study, f"files of {human_bytes(published.file_bytes)} behind the cache", "files above memory"
        )


def _io_not_on_members(published: Publication) -> Iterator[Seen]:
    # The measurement would show this when a caching layer holds the whole file.
    for seen in _file_fits_cache(published):
        yield Seen(seen.subject, "reads are answered by the cache, not by the members", "bytes of fio = of the members")


def _claim_outside_grid(published: Publication) -> Iterator[Seen]:
    for conclusion in published.conclusions:
        if len(conclusion.partner_values) < 2:
            values = ", ".join(conclusion.partner_values)
            observed = f"concluded at one {conclusion.partner} ({values})"
            yield Seen(conclusion.about, observed, f"two or more values of {conclusion.partner}")


def _unlike_averaged(published: Publication) -> Iterator[Seen]:
    if published.averages_over:
        yield Seen(published.study, f"means over {' and '.join(published.averages_over)}", "one figure for each")


def _network_backed(published: Publication) -> Iterator[Seen]:
    if published.backing == "network":
        yield Seen(published.study, "disks on a network", "local disks")


def _arm_missing(published: Publication) -> Iterator[Seen]:
    for platform in published.platforms:
        if platform not in published.measured_on:
            yield Seen(platform, "asked about, not measured", "the same experiment on it")


def _simulated_origin(published: Publication) -> Iterator[Seen]:
    if published.engine:
        yield Seen(published.study, f"figures of a {published.engine}", "the word beside every number")


def _volume_mismatch(published: Publication) -> Iterator[Seen]:
    if published.declared_bytes is None:
        return
    for command in parse_recipe(published.commands).commands:
        moved = dd_bytes(command) if command.program == "dd" else None
        if moved is not None and abs(moved - published.declared_bytes) > 0.01 * published.declared_bytes:
            text = f"the text says {human_bytes(published.declared_bytes)}, the command moves {human_bytes(moved)}"
            yield Seen(published.study, text, "the same within 1 %")
            return


def _cpu_percent_only(published: Publication) -> Iterator[Seen]:
    if published.cpu_unit == "percent":
        yield Seen(published.study, "CPU in percent", "CPU µs per I/O or s per GiB")


def _percentile_of_averages(published: Publication) -> Iterator[Seen]:
    if published.percentiles_of == "averages":
        yield Seen(published.study, "percentiles of averaged values", "percentiles of single I/Os")


def _raw_across_platforms(published: Publication) -> Iterator[Seen]:
    if published.compares_raw:
        yield Seen(published.study, "MB/s or IOPS of two platforms side by side", "ratios")


def _mttdl(published: Publication) -> Iterator[Seen]:
    if published.shows_mttdl:
        yield Seen(published.study, "MTTDL as a result", "scenarios and exposure")


CHECKS: Mapping[str, Check[Publication]] = {
    "topology-mismatch": _topology_mismatch,
    "unequal-members": _unequal_members,
    "file-exceeds-fs": _file_exceeds_fs,
    "file-fits-cache": _file_fits_cache,
    "io-not-on-members": _io_not_on_members,
    "promised-metric-missing": _promised_metric_missing,
    "integrity-unchecked": _integrity_unchecked,
    "too-few-repeats": _too_few_repeats,
    "no-dispersion": _no_dispersion,
    "no-percentiles": _no_percentiles,
    "claim-outside-grid": _claim_outside_grid,
    "unlike-averaged": _unlike_averaged,
    "network-backed": _network_backed,
    "arm-missing": _arm_missing,
    "simulated-origin": _simulated_origin,
    "volume-mismatch": _volume_mismatch,
    "cpu-percent-only": _cpu_percent_only,
    "percentile-of-averages": _percentile_of_averages,
    "raw-across-platforms": _raw_across_platforms,
    "mttdl-as-result": _mttdl,
}
