"""Files of fleets, and the numeric model of a fleet with drive lifetimes, rebuilds, scrubs, spares and human errors.

A ``FleetModel`` is the complete input of the engine, so any process can simulate a block of arrays from the model and
the block's number. Times are in hours, and sizes are in bytes.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from lab.arrays.levels import LevelName, parse_level
from lab.drills.extension import DrillLosses
from lab.errors import ResultError, SpecError
from lab.gates.decoding import DiskCount, Name, Seed, Share, bounds, convert, parse_toml, shown
from lab.plugins import catalogue, extension
from lab.tomlfile import convert_tree, file_of, toml_text

if TYPE_CHECKING:
    import numpy
    from numpy.random import Generator

    from lab.results.store import ResultStore

    Floats = numpy.ndarray[tuple[int, ...], numpy.dtype[numpy.float64]]
    Columns = numpy.ndarray[tuple[int, ...], numpy.dtype[numpy.intp]]

HOURS_PER_YEAR = 365.25 * 24
MOST_YEARS = 1e300
"""Maximum MTTDL, because the MTTDL of 64 copies is beyond the range of floating point."""


class Spread(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The distribution of a duration: a Weibull distribution shifted by ``location_hours``, or measured values."""

    shape: float = 1.0
    scale_hours: float = 0.0
    location_hours: float = 0.0
    values_hours: tuple[float, ...] = ()
    """Measured values of equal probability. If there are any, the other fields are ignored."""

    @property
    def mean_hours(self) -> float:
        if self.values_hours:
            return math.fsum(self.values_hours) / len(self.values_hours)
        return self.location_hours + self.scale_hours * math.gamma(1 + 1 / self.shape)

    def most_renewals(self, hours: float, factor: float = 1.0) -> float:
        """Return an upper bound for the mean number of consecutive lifetimes that end within these hours.

        The bound is Lorden's, t / m + E[X²] / m² - 1 (Annals of Mathematical Statistics 41, 1970), or that of
        independent trials, each of which must end within the hours. ``factor`` multiplies the hazard. The bound does
        not apply to measured values.
        """
        scale: float = self.scale_hours / factor ** (1 / self.shape)
        mean, square = math.gamma(1 + 1 / self.shape), math.gamma(1 + 2 / self.shape)
        by_trials = math.expm1(min((hours / scale) ** self.shape, 100.0))
        return min(hours / (scale * mean) + square / mean**2 - 1, by_trials)

    def draw(self, rng: Generator, count: int) -> Any:
        """Draw independent values in hours, as float64 of shape ``(count,)``."""
        import numpy

        if self.values_hours:
            return numpy.asarray(self.values_hours)[rng.integers(0, len(self.values_hours), count)]
        if not self.scale_hours:
            return numpy.full(count, self.location_hours)
        return self.location_hours + self.scale_hours * rng.standard_exponential(count) ** (1 / self.shape)


class ScrubKind(StrEnum):
    """How latent defects are found before a rebuild reads them."""

    NEVER = "never"
    PERIODIC = "periodic"
    """The whole array is read once per interval, from beginning to end."""
    DELAY = "delay"
    """Each defect is found after its own delay, as in the model of Elerath and Pecht."""


class Scrubbing(msgspec.Struct, frozen=True, kw_only=True):
    """When defects are found and rewritten."""

    kind: ScrubKind = ScrubKind.NEVER
    interval_hours: float = 0.0
    duration_hours: float = 0.0
    delay: Spread = Spread()


class FleetModel(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of array over a number of years.

    Its ``groups`` have equal size, and the loss of one group is the loss of the array. Parity arrays and mirrors are
    one group. RAID 10 with two copies has one group for each pair.
    """

    groups: int
    group_members: int
    tolerance: int
    """Number of failures that a group tolerates."""
    years: float
    usable_bytes: float
    """Capacity of one array for data."""
    disk_bytes: float

    life: Spread
    """Time from the first hour of a drive to its failure. ``values_hours`` and ``location_hours`` are not used."""
    rebuild: Spread
    shares_rate: bool = False
    """Whether simultaneous rebuilds in one group share the rate of one (each of two takes twice as long)."""
    detection_hours: float = 0.0
    """Time from a failure until it is noticed and, if a spare is available, the rebuild begins."""
    spares: int = 0
    replenish_hours: float = 0.0
    """Time until a used spare or, without spares, the failed drive is replaced."""

    defects_per_hour: float = 0.0
    """Rate of latent defects of one drive."""
    defect_bytes: float = 4096.0
    """Data lost by each defect that cannot be reconstructed."""
    read_errors_per_byte: float = 0.0
    """Probability of a permanent error when a byte is read (data sheets: at most 1 in 10^14 or 10^15 bits)."""
    counts_new_defects: bool = True
    """Whether defects that occur during the rebuild are counted, too."""
    rebuild_clears: bool = True
    """Whether a rebuild reads every member from end to end and finds its defects, the way a scrub does."""
    scrub: Scrubbing = Scrubbing()

    wrong_disk: float = 0.0
    """Probability that, at each replacement of a drive, a good drive of the same group is pulled."""
    loses_data: float = 1.0
    """Probability that people cannot restore an array that stopped because a good drive was pulled."""

    bad_share: float = 0.0
    """Share of production lots that are bad."""
    bad_factor: float = 1.0
    """Factor for the hazard of drives from bad lots."""
    lots: int = 1
    """Number of lots of an array's first drives. Each replacement is from a separate lot."""

    seed: int = 1
    is_biased: bool = True
    """Whether to use importance sampling for rare events (lab.fleet.engine)."""

    @property
    def members(self) -> int:
        return self.groups * self.group_members

    @property
    def mission_hours(self) -> float:
        """Simulated time of an array."""
        return self.years * HOURS_PER_YEAR

    @property
    def hazard_scale(self) -> float:
        """Mean factor of a drive's hazard over good and bad lots."""
        return 1 + self.bad_share * (self.bad_factor - 1)

    @property
    def repair_hours(self) -> float:
        """Mean time from a failure to the end of the rebuild, with a spare available if the model has spares."""
        waits = self.detection_hours if self.spares else self.replenish_hours + self.detection_hours
        return waits + self.rebuild.mean_hours


class Block(msgspec.Struct, frozen=True):
    """Some of the arrays to simulate. Their random numbers depend only on the seed and the number of the block."""

    number: int
    trials: int


MOST_TRIALS = 10**9
MOST_HOURS = 10**9
MOST_REPLACED = 1000
"""Limit for the mean number of drive failures of one array in its years. Simulating them in sequence takes time."""
MOST_FAILURES = 10**10
"""Limit for the number of drive failures in all simulated arrays. It takes hours to simulate this many."""

Hours = Annotated[float, msgspec.Meta(ge=1e-3, le=MOST_HOURS)]
HoursOrZero = Annotated[float, msgspec.Meta(ge=0, le=MOST_HOURS)]
LifeHours = Annotated[float, msgspec.Meta(ge=100, le=MOST_HOURS)]
"""Scale of a drive's lifetime. In accelerated tests, some drives last only weeks, but no drive fails sooner."""
LifeShape = Annotated[float, msgspec.Meta(ge=0.4, le=20)]
"""Shape of a drive's lifetime. Published fits have 0.7 to 1.5. With less, nearly all drives would fail in their first
hours.
"""
TrialCount = Annotated[int, msgspec.Meta(ge=100, le=MOST_TRIALS)]


def within(value: float, kind: Any, what: str) -> float:
    """Return ``value`` if it is within the bounds of ``kind``.

    Otherwise raises SpecError. Its message contains the bounds, because errors from Structs are shown without hints.
    """
    try:
        return convert(value, kind)  # type: ignore[no-any-return]
    except msgspec.ValidationError:
        message = f"{what}: {shown(value)} is not possible: write {bounds(kind)}"
        raise SpecError(message, hint="write a value that a drive can have") from None


FORMAT_VERSION = 2
CATALOGUE = Path(__file__).with_name("catalogue")
TB = 10**12


class Weibull(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A Weibull distribution of hours. With shape 1, the rate is constant."""

    shape: Annotated[float, msgspec.Meta(ge=0.2, le=20)]
    scale_hours: Hours
    location_hours: HoursOrZero = 0.0

    def spread(self) -> Spread:
        return Spread(shape=self.shape, scale_hours=self.scale_hours, location_hours=self.location_hours)


class Failures(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The distribution of drive lifetimes, given by exactly one of these keys."""

    afr_percent: Annotated[float, msgspec.Meta(ge=1e-3, le=99)] | None = None
    """Share of drives that fail within a year, at a constant rate. The limits are a thousandth of the rates that
    operators report, and nearly all drives.
    """
    weibull: Weibull | None = None

    def __post_init__(self) -> None:
        _one_of("failures", afr_percent=self.afr_percent, weibull=self.weibull)
        if self.weibull and self.weibull.location_hours:
            raise SpecError(
                "a drive can fail from hour 0 on, so failures have no location_hours",
                hint="omit it, or change the scale",
            )
        if self.weibull:
            within(self.weibull.scale_hours, LifeHours, "failures.weibull.scale_hours")
            within(self.weibull.shape, LifeShape, "failures.weibull.shape")

    def spread(self) -> Spread:
        """Return the distribution for the engine.

        An AFR is the share of drives that fail in a year, which corresponds to a rate of -ln(1 - AFR) per year.
        """
        if self.weibull:
            return self.weibull.spread()
        return Spread(scale_hours=HOURS_PER_YEAR / -math.log1p(-(self.afr_percent or 0) / 100))


class Rebuild(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The duration of one rebuild, given by exactly one of the first five keys."""

    constant_hours: Hours | None = None
    exponential_hours: Hours | None = None
    """The mean."""
    weibull: Weibull | None = None
    hours: tuple[float, ...] | None = None
    """Measured durations of equal probability."""
    result: Name | None = None
    """A stored raidlab result, whose rebuild rates apply to the whole drive."""
    array: Name | None = None
    """An array of the result, or None for all of its arrays."""
    shares_rate: bool = False

    def __post_init__(self) -> None:
        if self.array and not self.result:
            raise SpecError("rebuild.array needs rebuild.result", hint="add rebuild.result, or remove rebuild.array")
        keys = ("constant_hours", "exponential_hours", "weibull", "hours", "result")
        _one_of("rebuild", **{key: getattr(self, key) for key in keys})
        for number, hours in enumerate(self.hours or ()):
            within(hours, Hours, f"rebuild.hours[{number}]")

    def spread(self, disk_bytes: float, store: ResultStore | None) -> Spread:
        """Return the distribution for the engine. At a measured rate, the duration depends on the drive's size.

        Raises ResultError if the result has no rebuild, and SpecError if there is no store.
        """
        if self.weibull:
            return self.weibull.spread()
        if self.exponential_hours:
            return Spread(scale_hours=self.exponential_hours)
        if self.constant_hours:
            return Spread(location_hours=self.constant_hours)
        if self.result:
            rates = _rebuild_rates(store, self.result, self.array)
            what = f"hours of a rebuild of {disk_bytes:g} bytes as in result '{self.result}'"
            return Spread(values_hours=tuple(within(disk_bytes / rate / 3600, Hours, what) for rate in rates))
        return Spread(values_hours=self.hours or ())


def _rebuild_rates(store: ResultStore | None, name: str, array: str | None) -> list[float]:
    """Return the bytes per second of each rebuild in a result, or of those of one array."""
    if store is None:
        raise SpecError(
            f"a lesson's fleet cannot take its rebuild time from a result ('{name}')",
            hint="write rebuild.hours instead",
        )
    record = store.load(name)
    found = [
        each.rebuilt_bytes / each.rebuild_seconds
        for each in record.rebuilds
        if array in (None, "", each.array) and each.rebuild_seconds > 0 and each.rebuilt_bytes > 0
    ]
    if not found:
        arrays = sorted({each.array for each in record.rebuilds})
        hint = f"choose one of its arrays: {', '.join(arrays)}" if arrays else "run 'raidlab run antioquia-quick'"
        raise ResultError(f"result '{record.id}' has no rebuild" + (f" of '{array}'" if array else ""), hint=hint)
    return found


class Repair(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Delays before a rebuild begins."""

    detection_hours: HoursOrZero = 0.0
    spares: Annotated[int, msgspec.Meta(ge=0, le=8)] = 0
    replenish_hours: HoursOrZero = 0.0


class Sectors(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Unreadable sectors."""

    defects_per_hour: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.0
    defect_bytes: Annotated[int, msgspec.Meta(ge=1, le=1024**3)] = 4096
    """Size of a defect, from one byte up to the largest stripes."""
    read_error_bits: Annotated[float, msgspec.Meta(ge=10**9, le=10**21)] | None = None
    """At most one sector is unreadable in this number of bits read. Data sheets give 1e14 to 1e17. Use this for fleets
    without latent defects.
    """
    counts_new_defects: bool = True
    rebuild_clears: bool = True


class Scrubs(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Scrubs at a fixed interval, or a random delay until each defect is found. With neither, there are no scrubs."""

    interval_hours: Hours | None = None
    duration_hours: HoursOrZero = 0.0
    weibull: Weibull | None = None

    def __post_init__(self) -> None:
        if self.interval_hours and self.weibull:
            raise SpecError("a scrub has both interval_hours and weibull", hint="remove interval_hours or weibull")
        if self.duration_hours and not self.interval_hours:
            raise SpecError("scrub.duration_hours needs scrub.interval_hours", hint="add the interval")
        if self.duration_hours > (self.interval_hours or MOST_HOURS):
            raise SpecError("a scrub lasts longer than its interval", hint="write a longer interval_hours")

    def scrub(self) -> Scrubbing:
        if self.interval_hours:
            return Scrubbing(
                kind=ScrubKind.PERIODIC, interval_hours=self.interval_hours, duration_hours=self.duration_hours
            )
        return Scrubbing(kind=ScrubKind.DELAY, delay=self.weibull.spread()) if self.weibull else Scrubbing()


class People(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Human errors during the replacement of drives."""

    wrong_disk: Share = 0.0
    loses_data: Share = 1.0
    class_folder: str | None = None
    """Replaces ``loses_data`` with the share of first attempts at drills in these bundles that lost data."""


class Batches(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Production lots, some of which are bad. The drives of one lot have the same hazard."""

    bad_share: Share
    factor: Annotated[float, msgspec.Meta(ge=1, le=1000)]
    per_array: DiskCount = 1


class Method(StrEnum):
    """The method of sampling rare losses."""

    AUTO = "auto"
    """PLAIN if it finds enough losses, otherwise BIASED."""
    PLAIN = "plain"
    BIASED = "biased"


class Run(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Parameters of the simulation."""

    trials: TrialCount = 200_000
    """Number of arrays to simulate, independent of the fleet's size. More arrays give narrower intervals."""
    seed: Seed = 1
    method: Method = Method.AUTO


class Variant(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The same fleet with some keys changed. Keys are written with dots, such as ``"scrub.interval_hours" = 168``."""

    id: Name
    set: dict[str, Any]
    remove: tuple[str, ...] = ()


class FleetSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One fleet file."""

    format_version: Annotated[int, msgspec.Meta(ge=1, le=FORMAT_VERSION)]
    id: Name
    title: str
    source: str = ""
    arrays: Annotated[int, msgspec.Meta(ge=1, le=10**7)] = 1
    years: Annotated[float, msgspec.Meta(ge=0.01, le=100)] = 5.0
    level: str = "raid6"
    members: DiskCount
    parities: Annotated[int, msgspec.Meta(ge=0, le=8)] | None = None
    """Number of failures that an array tolerates, for arrays that md does not have, such as 3 for 7+3."""
    disk_tb: Annotated[float, msgspec.Meta(ge=1e-6, le=1000)]
    """Size of a disk. The minimum admits the lab's own disks of a few megabytes."""
    failures: Failures
    rebuild: Rebuild
    repair: Repair = Repair()
    sectors: Sectors = Sectors()
    scrub: Scrubs = Scrubs()
    people: People = People()
    batches: Batches | None = None
    run: Run = Run()
    compare: tuple[Variant, ...] = ()

    def __post_init__(self) -> None:
        self.layout()
        self._require_bounded()
        ids = [each.id for each in self.compare]
        if twice := next((each for each in ids if ids.count(each) > 1), None):
            raise SpecError(f"two variants have the id '{twice}'", hint="give each variant a different id")

    def _require_bounded(self) -> None:
        """Limit the number of failures. Bounds on single keys are not enough, because their effects multiply."""
        batches = self.batches or Batches(bad_share=0.0, factor=1.0)
        life, mission = self.failures.spread(), self.years * HOURS_PER_YEAR
        good, bad = (life.most_renewals(mission, factor) for factor in (1.0, batches.factor))
        replaced = self.members * (good + batches.bad_share * (bad - good)) * (1 + self.people.wrong_disk)
        for count, most, what in (
            (replaced, MOST_REPLACED, "an array of this fleet"),
            (replaced * self.run.trials, MOST_FAILURES, f"{self.run.trials:,} arrays (run.trials)"),
        ):
            if count > most:
                message = f"in {what} up to {count:,.0f} drives fail within the years, but {most:,} is the maximum"
                raise SpecError(message, hint="write fewer years or trials, or longer lifetimes in [failures]")

    def layout(self) -> tuple[int, int, int, float]:
        """Return the groups, members per group, failures that a group tolerates, and data members in total.

        Raises SpecError if the array is invalid.
        """
        level = parse_level(self.level)
        if self.members < level.minimum_members:
            raise SpecError(
                f"{level.name.value} needs at least {level.minimum_members} members", hint="write more members"
            )
        if level.name is LevelName.RAID10 and self.parities is None:
            if self.members % 2:
                raise SpecError("a fleet's RAID 10 consists of pairs", hint="write an even number of members")
            return self.members // 2, 2, 1, self.members / 2
        survived = level.minimum_failures_survived(self.members) if self.parities is None else self.parities
        if survived >= self.members:
            raise SpecError(f"{self.members} members with {survived} parities hold no data", hint="write more members")
        data = float(level.data_members(self.members)) if self.parities is None else self.members - self.parities
        return 1, self.members, survived, data


def _one_of(what: str, **ways: object) -> None:
    given = [name for name, value in ways.items() if value is not None and value != ()]
    if len(given) != 1:
        raise SpecError(
            f"{what} has {' and '.join(given) or 'no distribution'}", hint=f"write one of: {', '.join(ways)}"
        )


def model_of(spec: FleetSpec, store: ResultStore | None = None) -> FleetModel:
    """Return the model for the engine. Raises the errors of ``Rebuild.spread`` and ``lost_in_drills``."""
    groups, group_members, tolerance, data_members = spec.layout()
    disk_bytes = spec.disk_tb * TB
    people, sectors, batches = spec.people, spec.sectors, spec.batches
    return FleetModel(
        groups=groups,
        group_members=group_members,
        tolerance=tolerance,
        years=spec.years,
        usable_bytes=data_members * disk_bytes,
        disk_bytes=disk_bytes,
        life=spec.failures.spread(),
        rebuild=spec.rebuild.spread(disk_bytes, store),
        shares_rate=spec.rebuild.shares_rate,
        detection_hours=spec.repair.detection_hours,
        spares=spec.repair.spares,
        replenish_hours=spec.repair.replenish_hours,
        defects_per_hour=sectors.defects_per_hour,
        defect_bytes=float(sectors.defect_bytes),
        read_errors_per_byte=8 / sectors.read_error_bits if sectors.read_error_bits else 0.0,
        counts_new_defects=sectors.counts_new_defects,
        rebuild_clears=sectors.rebuild_clears,
        scrub=spec.scrub.scrub(),
        wrong_disk=people.wrong_disk,
        loses_data=lost_in_drills(people.class_folder) if people.class_folder else people.loses_data,
        bad_share=batches.bad_share if batches else 0.0,
        bad_factor=batches.factor if batches else 1.0,
        lots=batches.per_array if batches else 1,
        seed=spec.run.seed,
    )


def lost_in_drills(folder: str) -> float:
    """Return the share of first attempts at drills in which data were lost, from the bundles of a class.

    Raises SpecError if no part of raidlab reads bundles, or no student in the class ended a drill.
    """
    found = extension(DrillLosses)
    if found is None:
        raise SpecError("people.class_folder needs raidlab's classroom plugin", hint="write people.loses_data instead")
    return found.share(folder)


def fleet_names() -> tuple[str, ...]:
    """Return the names of the built-in fleets."""
    return tuple(catalogue(CATALOGUE))


def fleet_tree(name: str) -> dict[str, Any]:
    """Read the file of a built-in fleet, or the file at this path. Raises SpecError for any other name."""
    path = file_of("fleet", name, CATALOGUE)
    return parse_toml(toml_text(path), source=str(path))


def fleet_spec(
    tree: Mapping[str, Any], source: str, changes: Mapping[str, Any] | None = None, remove: tuple[str, ...] = ()
) -> FleetSpec:
    """Make a fleet from the keys of a file, with optional changes. Raises SpecError, which lists every wrong key."""
    return convert_tree(changed(tree, changes or {}, remove), FleetSpec, source=source)


def variants(tree: Mapping[str, Any], spec: FleetSpec) -> tuple[tuple[str, FleetSpec], ...]:
    """Return the fleet itself and its ``[[compare]]`` variants in their order, each with its name."""
    found = [("as it is", spec)]
    for each in spec.compare:
        for key in each.remove:
            _require_there(tree, key, each.id)
        found.append((each.id, fleet_spec(tree, f"variant {each.id}", each.set, each.remove)))
    return tuple(found)


def changed(tree: Mapping[str, Any], changes: Mapping[str, Any], remove: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return a copy of the tables with some keys, written with dots, set or removed.

    Raises SpecError if a table does not exist.
    """
    # JSON has no nan or inf, so a copy through JSON would omit them, and they would not be rejected.
    copied: dict[str, Any] = copy.deepcopy(dict(tree))
    for key in remove:
        table, last = _table_of(copied, key)
        table.pop(last, None)
    for key, value in changes.items():
        table, last = _table_of(copied, key)
        table[last] = value
    return copied


def value_of(text: str) -> Any:
    """Parse a value that the user typed: as TOML if possible, otherwise as a string."""
    try:
        return parse_toml(f"value = {text}")["value"]
    except SpecError:
        return text


def _require_there(tree: Mapping[str, Any], key: str, variant: str) -> None:
    """Require that the key exists. A misspelt key would change nothing, as if no figure depended on it."""
    here: Any = tree
    for word in key.split("."):
        if not isinstance(here, Mapping) or word not in here:
            raise SpecError(
                f"variant '{variant}' removes '{key}', which the fleet does not have", hint="correct 'remove'"
            )
        here = here[word]


def _table_of(tree: dict[str, Any], key: str) -> tuple[dict[str, Any], str]:
    *above, last = key.split(".")
    for word in above:
        tree = tree.setdefault(word, {})
        if not isinstance(tree, dict):
            raise SpecError(f"'{key}' is not a key of a fleet", hint="write it with dots, such as scrub.interval_hours")
    return tree, last
