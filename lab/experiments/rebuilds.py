"""Rebuilds as part of an experiment: idle, or in four phases under a load."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from lab.arrays import operations
from lab.arrays.filesystem import FileSystem, mount_point
from lab.arrays.state import read_array
from lab.experiments.bench import Bench, RunContext
from lab.experiments.built_array import BuiltArray
from lab.experiments.schedule import DEGRADED, HEALTHY, REBUILDING, RESTORED, RebuildCell, load_seconds, victim_slot
from lab.measure.conditions import make_cold
from lab.measure.job import BackgroundLoad, Measured, MeasureOptions, run_workload
from lab.measure.programs import DataSum, DataVerdict, sum_device, sum_files
from lab.measure.rebuild import (
    Integrity,
    RebuildMeasured,
    Recording,
    fail_and_remove,
    measure_rebuild,
    predict_rebuild,
    timeline_of,
)
from lab.results.record import CellRecord, PhaseRecord, RebuildRecord, Timeline
from lab.theory.model import DiskRates
from lab.workloads.workload import Workload

CellRecorder = Callable[[BuiltArray, Workload, Measured, str, int, int], CellRecord]
LONGEST_REBUILD_SECONDS = 6 * 3600.0
_WITNESS_BYTES = 32 * 1024 * 1024


class RebuildRunner:
    """Measures the rebuilds of a run, one after the other."""

    def __init__(
        self,
        context: RunContext,
        bench: Bench,
        rates: DiskRates | None,
        options: Callable[[Workload], MeasureOptions],
        make_record: CellRecorder,
    ) -> None:
        self._context = context
        self._lab = context.lab
        self._bench = bench
        self._rates = rates
        self._options = options
        self._make_record = make_record
        self._last_sums: dict[str, DataSum] = {}

    def measure(self, cell: RebuildCell) -> None:
        """One rebuild, with a checksum of the data before the fault, while degraded and afterwards."""
        built = self._bench.array(cell.array)
        victim = built.md.members[victim_slot(cell.repeat, len(built.md.members))]
        if cell.under is None:
            self._alone(cell, built, victim)
        else:
            self._under_load(cell, built, victim, cell.under)

    def _alone(self, cell: RebuildCell, built: BuiltArray, victim: str) -> None:
        label = f"{built.plan.label}: rebuild {victim}, repeat {cell.repeat + 1}"
        self._context.progress.doing(label, 10.0)
        name = built.md.name
        before = self._last_sums.get(built.plan.id) or self._sum(built)
        predicted = predict_rebuild(self._lab, name, self._rates)
        fail_and_remove(self._lab, name, victim)
        degraded = self._sum(built)
        with self._context.stopwatch.resync():
            measured = measure_rebuild(self._lab, name, victim, built.target.members)
        after = self._last_sums[built.plan.id] = self._sum(built)
        integrity = Integrity(before, degraded, after)
        timeline = timeline_of([Recording(REBUILDING, measured.samples)], name, built.target.members)
        reason = predicted.reason if predicted else ""
        self._store(cell, measured, integrity, predicted.value if predicted else None, reason, timeline)

    def _store(
        self,
        cell: RebuildCell,
        measured: RebuildMeasured,
        integrity: Integrity,
        predicted_seconds: float | None,
        reason: str,
        timeline: Timeline | None,
        phases: tuple[PhaseRecord, ...] = (),
    ) -> None:
        parts = (integrity.before, integrity.degraded, integrity.after)
        stamps = tuple(f"unreadable: {part.error}" for part in parts if part.error)
        is_checked = bool(integrity.before.digest)
        self._context.journal.add(
            RebuildRecord(
                array=cell.array,
                repeat=cell.repeat,
                rebuild_seconds=measured.rebuild_seconds,
                predicted_seconds=predicted_seconds,
                prediction_reason=reason,
                rebuilt_bytes=measured.rebuilt_bytes,
                request_bytes=measured.request_bytes,
                under_workload=cell.under.id if cell.under else "",
                checksum_before=integrity.before.digest,
                checksum_after=integrity.after.digest,
                data_unchanged=integrity.verdict is DataVerdict.INTACT if is_checked else None,
                phases=phases,
                stamps=stamps,
            ),
            timeline=timeline,
        )
        self._context.progress.done(cell.key)

    def _sum(self, built: BuiltArray) -> DataSum:
        if built.target.file_system is FileSystem.RAW:
            return sum_device(self._lab.machine, built.spec.device)
        return sum_files(self._lab.machine, mount_point(built.spec.device))

    def _under_load(self, cell: RebuildCell, built: BuiltArray, victim: str, load: Workload) -> None:
        """Run the same load healthy, degraded, rebuilding and restored, beside witness data that it does not write."""
        name = built.md.name
        if built.target.file_system is FileSystem.RAW:
            # On a bare device the load uses the start, and the witness data the end.
            built = replace(built, target=replace(built.target, available_bytes=self._witness_place(built)[0]))
        before = self._witness(built, write=True)
        recordings: list[Recording] = []
        phases = [self._phase(cell, built, load, HEALTHY, recordings)]
        predicted = predict_rebuild(self._lab, name, self._rates)
        fail_and_remove(self._lab, name, victim)
        degraded = self._witness(built)
        phases.append(self._phase(cell, built, load, DEGRADED, recordings))
        minimum = (
            self._context.experiment.rebuild.minimum_speed_kib_per_second if self._context.experiment.rebuild else None
        )
        if minimum:
            self._lab.execute(
                operations.set_sync_speed(name, minimum_kib_per_second=minimum, maximum_kib_per_second=None)
            )
        self._context.progress.doing(f"{built.plan.label}: rebuild under {load.title}", 20.0)
        start_load = partial(
            BackgroundLoad,
            self._lab,
            built.target,
            load,
            self._options(load),
            longest_run_seconds=LONGEST_REBUILD_SECONDS,
            repeat=cell.repeat,
        )
        measured = measure_rebuild(self._lab, name, victim, built.target.members, start_load=start_load)
        if minimum:
            self._lab.execute(operations.set_sync_speed(name, minimum_kib_per_second=None, maximum_kib_per_second=None))
        phases.append(PhaseRecord(name=REBUILDING, seconds=measured.rebuild_seconds))
        recordings.append(Recording(REBUILDING, measured.samples))
        if measured.load:
            self._add_cell(cell, built, load, measured.load, REBUILDING)
        phases.append(self._phase(cell, built, load, RESTORED, recordings))
        after = self._witness(built)
        reason = f"{predicted.reason}, without load" if predicted else ""
        self._store(
            cell,
            measured,
            Integrity(before, degraded, after),
            predicted.value if predicted else None,
            reason,
            timeline_of(recordings, name, built.target.members),
            tuple(phases),
        )

    def _phase(
        self, cell: RebuildCell, built: BuiltArray, load: Workload, phase: str, recordings: list[Recording]
    ) -> PhaseRecord:
        """Measure one phase; its samples are added to ``recordings``."""
        make_cold(self._lab, built.target.file_system, built.spec.device, built.disks, built.parity_arrays)
        label = f"{built.plan.label}, {phase}: {load.title}, repeat {cell.repeat + 1}"
        self._context.progress.doing(label, load_seconds(load) + 1.5)
        measured = run_workload(
            self._lab,
            built.target,
            load,
            self._options(load),
            repeat=cell.repeat,
            on_sample=self._context.progress.on_sample,
            is_cancelled=self._context.progress.is_cancelled,
        )
        self._add_cell(cell, built, load, measured, phase)
        recordings.append(Recording(phase, measured.samples))
        return PhaseRecord(name=phase, seconds=load.runtime_seconds)

    def _add_cell(self, cell: RebuildCell, built: BuiltArray, load: Workload, measured: Measured, phase: str) -> None:
        record = self._make_record(built, load, measured, phase, cell.repeat, len(self._context.journal.record.cells))
        self._context.journal.add(record)
        self._context.progress.done(record.key)

    def _witness(self, built: BuiltArray, *, write: bool = False) -> DataSum:
        """Checksum of data that the load does not write: a file beside the load's, or the end of the device."""
        if built.target.file_system is FileSystem.RAW:
            return self._witness_on_device(built, write=write)
        folder = f"{mount_point(built.spec.device)}/witness"
        if write:
            copy = f"dd if=/dev/urandom of={folder}/data bs=1M count={_WITNESS_BYTES >> 20} oflag=direct status=none"
            script = f"mkdir -p {folder} && {copy}"
            self._lab.machine.run(("sh", "-c", script), timeout_seconds=600)
        return sum_files(self._lab.machine, folder)

    def _witness_place(self, built: BuiltArray) -> tuple[int, int]:
        """Offset and length of the witness data on a bare device, in bytes."""
        size = read_array(self._lab.machine, built.md.name).size_bytes
        length = min(_WITNESS_BYTES, size // 4 >> 20 << 20)
        return (size - length) >> 20 << 20, length

    def _witness_on_device(self, built: BuiltArray, *, write: bool) -> DataSum:
        begin, length = self._witness_place(built)
        if write:
            place = (f"of={built.spec.device}", f"seek={begin >> 20}", f"count={length >> 20}")
            argv = ("dd", "if=/dev/urandom", *place, "bs=1M")
            self._lab.machine.run((*argv, "oflag=direct", "status=none"), timeout_seconds=600)
        return sum_device(self._lab.machine, built.spec.device, length, skip_bytes=begin)
