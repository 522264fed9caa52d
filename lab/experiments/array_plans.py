"""Disks and arrays of an experiment file."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from lab.arrays.kinds import kind_of_level, kinds
from lab.arrays.preview import Spec
from lab.arrays.spec import Bitmap, ConsistencyPolicy, CreateOptions
from lab.disks.kinds import DEFAULT_SIZE_BYTES, DiskKind, DiskSpec, LabDisk
from lab.errors import SpecError
from lab.gates.names import Name
from lab.gates.numbers import CacheEntries, DiskBytes, DiskCount, Share, SizeBytes, SpareCount


class Sharing(StrEnum):
    """Whether each array has its own disks."""

    SEPARATE = "separate"
    """All arrays exist at the same time, so their measurements can alternate."""
    SHARED = "shared"
    """One set of disks; the arrays are built, measured and stopped one after the other."""


class DiskPool(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A set of equal disks, for arrays of several kinds of disks. They are named ``fast01``, ``fast02`` and so on."""

    id: Name
    count: DiskCount
    size_bytes: DiskBytes
    model: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"{self.id}{number:02d}" for number in range(1, self.count + 1))


class DiskPlan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Disks of the arrays: as many equal disks as they need, or several pools from which they take some."""

    kind: DiskKind = DiskKind.FILE
    size_bytes: DiskBytes = DEFAULT_SIZE_BYTES
    model: str = ""
    sharing: Sharing = Sharing.SEPARATE
    pools: tuple[DiskPool, ...] = ()

    def pool_specs(self) -> tuple[DiskSpec, ...]:
        """All disks of all pools."""
        return tuple(
            DiskSpec(name=name, kind=self.kind, size_bytes=pool.size_bytes, model=pool.model)
            for pool in self.pools
            for name in pool.names
        )


class ArrayPlan(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One array."""

    id: Name
    level: str
    """A level as accepted by ``raidlab array create``, including ``adapt5`` and ``shr``."""
    members: SpareCount = 0
    """Number of disks if all are equal."""
    take: dict[str, DiskCount] = {}
    """Pool -> number of its disks, in this order."""
    title: str = ""
    chunk_bytes: SizeBytes | None = None
    layout: str | None = None
    bitmap: Bitmap = Bitmap.NONE
    consistency_policy: ConsistencyPolicy = ConsistencyPolicy.RESYNC
    assume_clean: bool = False
    """Skip the first resync: correct for blank disks only, as lab disks are when an experiment starts."""
    reference: DiskCount | None = None
    """Data chunks of the full stripe of a volume (adapt5, shr)."""
    utilisation: dict[str, Share] = {}
    """Pool -> used fraction of its disks relative to the most used ones, for a volume; empty: all disks in full."""
    stripe_cache_pages: CacheEntries | None = None
    """Stripe cache size of each md array with parity, in pages per member; md's default is 256."""

    @property
    def is_volume(self) -> bool:
        """Whether it consists of several md arrays."""
        return kind_of_level(self.level) is not kinds()[0]

    @property
    def disk_count(self) -> int:
        return sum(self.take.values()) if self.take else self.members

    def disk_names(self) -> tuple[str, ...]:
        """Names of the disks that it takes from the pools."""
        return tuple(f"{pool}{number:02d}" for pool, count in self.take.items() for number in range(1, count + 1))

    @property
    def label(self) -> str:
        """Its title, or its id."""
        return self.title or self.id

    def spec(self, disks: tuple[LabDisk, ...], number: int = 0) -> Spec:
        """The spec of the array on these disks, with the name that its kind gives to this number."""
        kind = kind_of_level(self.level)
        factors = tuple(self.utilisation.get(pool, 1.0) for pool, count in self.take.items() for _ in range(count))
        return kind.spec(
            CreateOptions(
                level=self.level,
                members=disks,
                name=kind.name(number),
                chunk_bytes=self.chunk_bytes,
                layout=self.layout,
                bitmap=self.bitmap,
                policy=self.consistency_policy,
                assume_clean=self.assume_clean,
                reference=self.reference,
                utilisation=factors if self.utilisation else None,
            )
        )

    def check(self, disks: DiskPlan) -> None:
        """Raises SpecError for an invalid level, number of members or disks."""
        if self.take and not disks.pools:
            raise SpecError(f"array '{self.id}' takes from pools, and there are none", hint="add [[disks.pools]]")
        counts = {pool.id: pool.count for pool in disks.pools}
        for pool, count in self.take.items():
            if not 0 < count <= counts.get(pool, 0):
                have = ", ".join(f"{name} has {number}" for name, number in counts.items())
                raise SpecError(f"array '{self.id}' takes {count} of pool '{pool}', and {have}", hint="take fewer")
        for pool in self.utilisation:
            if pool not in self.take:
                raise SpecError(
                    f"array '{self.id}' uses pool '{pool}' and takes nothing from it", hint="name it in take"
                )
        chosen = self.stand_ins(disks)
        spec = self.spec(chosen)
        spec.validate()
        spec.expected_bytes(chosen)

    def stand_ins(self, disks: DiskPlan) -> tuple[LabDisk, ...]:
        """Placeholder disks with the sizes that the array will have."""
        sizes = {spec.name: spec.size_bytes for spec in disks.pool_specs()}
        names = self.disk_names() or tuple(f"disk{number + 1:02d}" for number in range(self.members))
        return tuple(
            LabDisk(name=name, kind=disks.kind, node=f"/dev/{name}", size_bytes=sizes.get(name, disks.size_bytes))
            for name in names
        )
