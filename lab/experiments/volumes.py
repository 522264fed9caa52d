"""Volumes of unequal disks (adapt5, shr) on an experiment's bench."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lab.adapt import operations, tables
from lab.adapt.discovery import windows_named
from lab.adapt.label import Label
from lab.adapt.spec import VolumeSpec, new_label
from lab.arrays.names import md_path
from lab.disks import Lab
from lab.experiments.array_plans import ArrayPlan
from lab.plans import Plan, Step, write_file_step
from lab.results.record import ArrayRecord


@dataclass(frozen=True, slots=True)
class RunningVolume:
    """A volume that was built here, and the md arrays in it."""

    label: Label
    nodes: tuple[str, ...]
    arrays: Mapping[int, str]
    """Window -> md name."""
    created: Plan

    @property
    def size_bytes(self) -> int:
        return tables.volume_bytes(self.label)

    def stop_plan(self) -> Plan:
        return operations.stop(self.label, range(len(self.nodes)), self.arrays)

    def record(self, name: str, file_system: str, steps: Plan) -> ArrayRecord:
        """For the result: what it consists of."""
        layout = tables.layout_of(self.label)
        return ArrayRecord(
            name=name,
            level=self.label.rule.value,
            members=self.nodes,
            chunk_bytes=self.label.chunk_bytes,
            size_bytes=self.size_bytes,
            consistency_policy="resync",
            file_system=file_system,
            commands=tuple(steps.lines()),
            details={
                "reference_chunks": str(self.label.reference),
                "windows": str(len(layout.composition.windows)),
                "targets": str(len(layout.segments)),
                "reserve_kib": str(self.label.reserve_bytes // 1024),
            },
        )


def build_volume(lab: Lab, spec: VolumeSpec) -> RunningVolume:
    """Create a volume on blank disks. Raises what the first failing step raises."""
    label = new_label(spec)
    arrays = windows_named(label, lab.machine.list_dirs(["/sys/block"])["/sys/block"])
    plan = operations.create(spec, arrays, label)
    lab.execute(plan)
    return RunningVolume(label, spec.nodes, arrays, plan)


def tuned(plan: ArrayPlan, arrays: Iterable[str]) -> Plan:
    """What the experiment asks of each md array. Kernel: Documentation/admin-guide/md.rst, stripe_cache_size."""
    pages = plan.stripe_cache_pages
    why = "md keeps that many stripes of one page a member, so that whole stripes are complete before it looks at them."
    steps: list[Step] = []
    if pages is not None:
        steps = [write_file_step(md_path(name, "stripe_cache_size"), str(pages), why) for name in arrays]
    return Plan("Tune the arrays", tuple(steps))
