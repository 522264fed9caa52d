"""The runner: executes an experiment on an open lab, and stores every cell before the next one starts."""

from __future__ import annotations

import msgspec

from lab.errors import MachineLost, MeasurementDisturbed, SpecError, WorkloadError
from lab.experiments.bench import Bench, RunContext
from lab.experiments.built_array import BuiltArray
from lab.experiments.linting import lint_kernel, lint_measured, stamps_of
from lab.experiments.rebuilds import RebuildRunner
from lab.experiments.schedule import (
    DEGRADED,
    HEALTHY,
    REBUILDING,
    Cell,
    SpareMeasurements,
    extra_cells,
    load_seconds,
    planned_keys,
    remaining,
    victim_slot,
    wide_cells,
    wide_notes,
)
from lab.experiments.schema import Cache, Sharing
from lab.host.clock import utc_second_text
from lab.lint.rules import LintFinding
from lab.measure.conditions import make_cold, probe_disk
from lab.measure.job import Measured, MeasureOptions, run_workload
from lab.measure.samples import Recorder, idle_fraction
from lab.results.record import CellRecord, ResultRecord, RunStatus
from lab.theory.model import DiskRates, Prediction, workload_iops
from lab.workloads.workload import Workload

IDLE_SECONDS = 1.0


class ExperimentRunner:
    """One run, or the rest of an interrupted one: cells in the journal are not measured again."""

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._lab = context.lab
        self._experiment = context.experiment
        self._journal = context.journal
        self._progress = context.progress
        self._notes: list[str] = []
        self._findings: list[LintFinding] = []
        self._bench = Bench(context)
        self._rates: DiskRates | None = None
        self._spare = SpareMeasurements(
            len(planned_keys(context.experiment)),
            used=sum(cell.disturbed_before for cell in context.journal.record.cells),
        )
        self._idle_baseline = 0.0

    def run(self) -> ResultRecord:
        """Measure the missing cells and finish the record.

        If an error ends the run, the record is first finished as incomplete, then the error is raised.
        """
        status = RunStatus.INCOMPLETE
        try:
            jobs, rebuilds = remaining(self._experiment, self._journal.record.done_keys)
            if jobs or rebuilds or wide_cells(self._experiment, self._journal.record):
                self._findings += lint_kernel(self._lab)
                self._probe()
                if self._experiment.disks.sharing is Sharing.SEPARATE:
                    # All arrays exist at the same time, so measurements can alternate.
                    for plan in self._experiment.arrays:
                        self._bench.array(plan.id)
                self._progress.doing("measure the idle machine", IDLE_SECONDS)
                with Recorder(self._lab.machine, None, (), hertz=self._experiment.sampling_hertz) as recorder:
                    self._lab.machine.clock.sleep(IDLE_SECONDS)
                self._idle_baseline = idle_fraction(recorder.samples)
                for cell in jobs:
                    self._measure_cell(cell)
                self._measure_until_narrow()
                runner = RebuildRunner(self._context, self._bench, self._rates, self._options, self._cell_record)
                for rebuild in rebuilds:
                    runner.measure(rebuild)
                self._bench.take_apart()
            status = RunStatus.COMPLETE
        except MachineLost:
            raise
        except BaseException:
            self._bench.abandon()
            raise
        finally:
            record, arrays = self._journal.record, self._bench.records
            built = [arrays[plan.id] for plan in self._experiment.arrays if plan.id in arrays]
            findings = [*self._findings, *self._bench.findings]
            found = stamps_of(self._experiment, record.conditions, findings, record.cells)
            wide = wide_notes(self._experiment, record) if status is RunStatus.COMPLETE else ()
            record = self._journal.finish(
                status=status,
                timings=self._context.stopwatch.timings(record.timings),
                stamps=(*found, *wide, *self._notes),
                changes=msgspec.structs.replace(record, arrays=tuple(built)),
            )
        return record

    def _probe(self) -> None:
        experiment = self._experiment
        if experiment.rebuild or experiment.disks.model:
            self._progress.doing("probe one disk", 9.0)
            workloads = [job.build() for job in experiment.jobs]
            with self._context.stopwatch.aside():
                self._rates = probe_disk(self._lab, self._lab.disks[0], workloads, rebuilds=bool(experiment.rebuild))
            self._bench.mark_used(self._lab.disks[0])

    def _options(self, workload: Workload) -> MeasureOptions:
        return MeasureOptions(
            file_bytes=workload.file_bytes,
            seed=self._experiment.seed,
            hertz=self._experiment.sampling_hertz,
            idle_baseline=self._idle_baseline,
        )

    def _measure_cell(self, cell: Cell) -> None:
        built = self._bench.array(cell.array)
        workload = cell.workload
        expected = load_seconds(workload) + 1.5
        fewest, most = self._experiment.repeats, self._experiment.most_repeats
        of = f"{fewest} to {most}" if most > fewest else str(fewest)
        label = f"{built.plan.label}: {workload.title}, repeat {cell.repeat + 1} of {of}"
        is_cold = self._experiment.cache is Cache.COLD
        events: tuple[str, ...] = ()
        started, measured, disturbed_before = "", None, -1
        try:
            while measured is None:
                disturbed_before += 1
                if is_cold:
                    target = built.target
                    events = make_cold(self._lab, target.file_system, target.device, built.disks, built.parity_arrays)
                self._progress.doing(f"{label}{', again: disturbed' if disturbed_before else ''}", expected)
                started = utc_second_text(self._lab.host.clock)
                measured = self._measured(built, cell, disturbed_before)
        except (WorkloadError, SpecError) as error:
            if not self._experiment.keeps_going:
                raise
            self._notes.append(f"failed: {cell.key}: {error.message.splitlines()[0]}")
        else:
            record = self._cell_record(built, workload, measured, HEALTHY, cell.repeat, cell.order_index)
            found = lint_measured(
                record.key, record.phase, workload, measured, declared_cold=is_cold, is_cold=bool(events)
            )
            self._journal.add(
                msgspec.structs.replace(
                    record,
                    started_utc=started,
                    cache_events=events,
                    disturbed_before=disturbed_before,
                    stamps=tuple(finding.stamp for finding in found),
                )
            )
        # A later cold start then does not wait for the writeback.
        self._lab.start_writing_out(built.disks)
        self._progress.done(cell.key)

    def _measured(self, built: BuiltArray, cell: Cell, disturbed_before: int) -> Measured | None:
        """Measure once; None if the measurement was disturbed and must be repeated."""
        try:
            measured = run_workload(
                self._lab,
                built.target,
                cell.workload,
                self._options(cell.workload),
                repeat=cell.repeat,
                on_sample=self._progress.on_sample,
                is_cancelled=self._progress.is_cancelled,
            )
        except MeasurementDisturbed:
            if self._spare.take(None, 0.0, disturbed_before):
                return None
            raise
        is_made_again = self._spare.take(measured.waited_fraction, measured.share_measured, disturbed_before)
        return None if is_made_again else measured

    def _measure_until_narrow(self) -> None:
        """Repeat rounds over the cells with a wide interval, until none is wide or ``most_repeats`` is reached."""
        for repeat in range(self._experiment.repeats, self._experiment.most_repeats):
            record = self._journal.record
            wide = wide_cells(self._experiment, record)
            if not wide:
                return
            for cell in extra_cells(self._experiment, repeat, wide, len(record.cells)):
                if cell.key not in record.done_keys:
                    self._measure_cell(cell)

    def _cell_record(
        self, built: BuiltArray, workload: Workload, measured: Measured, phase: str, repeat: int, order_index: int
    ) -> CellRecord:
        prediction = self._predict(built, workload, phase, repeat, measured.file_bytes)
        return CellRecord(
            array=built.plan.id,
            workload=workload.id,
            phase=phase,
            repeat=repeat,
            order_index=order_index,
            started_utc=utc_second_text(self._lab.host.clock),
            figures=measured.figures,
            cpu=measured.cpu if self._journal.record.conditions.has_cpu_time else None,
            steady=measured.steady,
            job_text=measured.job_text,
            file_bytes=measured.file_bytes,
            addresses=measured.addresses,
            waited_fraction=measured.waited_fraction,
            predicted_iops=prediction.value if prediction else None,
            prediction_reason=prediction.reason if prediction else "",
        )

    def _predict(
        self, built: BuiltArray, workload: Workload, phase: str, repeat: int, file_bytes: int | None
    ) -> Prediction | None:
        """Predict only for disks with a known service time: other disks are memory, limited by the processor."""
        if not self._experiment.disks.model or self._rates is None or phase == REBUILDING or built.inner:
            return None
        members = len(built.md.members)
        failed = frozenset({victim_slot(repeat, members)} if phase == DEGRADED else ())
        try:
            return workload_iops(
                built.md.raid,
                [self._rates] * members,
                workload,
                failed=failed,
                working_bytes=file_bytes * workload.jobs if file_bytes else None,
                chunk_bytes=built.spec.effective_chunk_bytes,
            )
        except SpecError:
            return None
