"""The runner: carries an experiment out on an open lab, and stores every cell before the next one starts."""

from __future__ import annotations

import msgspec

from lab.errors import MachineLost, SpecError, WorkloadError
from lab.experiments.adaptive import wide_cells, wide_notes
from lab.experiments.bench import Bench, BuiltArray
from lab.experiments.context import RunContext
from lab.experiments.disturbed import SpareMeasurements
from lab.experiments.linting import lint_bench, lint_kernel, lint_measured, require_sound
from lab.experiments.rebuilds import RebuildRunner
from lab.experiments.schedule import (
    DEGRADED,
    HEALTHY,
    REBUILDING,
    Cell,
    extra_cells,
    load_seconds,
    planned_keys,
    remaining,
    victim_slot,
)
from lab.experiments.schema import Cache
from lab.experiments.stamps import stamps_of
from lab.lint.findings import Finding
from lab.measure.caches import make_cold
from lab.measure.cpu import idle_fraction
from lab.measure.job import Measured, MeasureOptions, run_workload
from lab.measure.probe import probe_disk
from lab.measure.recorder import Recorder
from lab.results.record import CellRecord, ResultRecord, RunStatus
from lab.theory.model import DiskRates, Prediction, workload_iops
from lab.workloads.workload import Workload

IDLE_SECONDS = 1.0


class ExperimentRunner:
    """One run, or the rest of an interrupted one: cells that the journal already has are not measured again."""

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._lab = context.lab
        self._experiment = context.experiment
        self._journal = context.journal
        self._observer = context.observer
        self._notes: list[str] = []
        self._findings: list[Finding] = []
        self._arrays = {array.name: array for array in context.journal.record.arrays}
        self._bench = Bench(context.lab, context.experiment, context.stopwatch, self._narrate, self._on_built)
        self._rates: DiskRates | None = None
        self._spare = SpareMeasurements(
            len(planned_keys(context.experiment)),
            used=sum(cell.disturbed_before for cell in context.journal.record.cells),
        )
        self._idle_baseline = 0.0

    def run(self) -> ResultRecord:
        """Measure what is missing and finish the record.

        Whatever ends the run before its time, the record is finished as incomplete first and the error raised then.
        """
        try:
            self._measure()
        except BaseException:
            self._finish(RunStatus.INCOMPLETE)
            raise
        return self._finish(RunStatus.COMPLETE)

    def _finish(self, status: RunStatus) -> ResultRecord:
        record = self._journal.record
        built = [self._arrays[plan.id] for plan in self._experiment.arrays if plan.id in self._arrays]
        changes = msgspec.structs.replace(record, arrays=tuple(built))
        wide = wide_notes(self._experiment, record) if status is RunStatus.COMPLETE else ()
        found = stamps_of(self._experiment, record.conditions, self._findings, record.cells)
        stamps = (*found, *wide, *self._notes)
        timings = self._context.stopwatch.timings(record.timings)
        return self._journal.finish(status=status, timings=timings, stamps=stamps, changes=changes)

    def _measure(self) -> None:
        jobs, rebuilds = remaining(self._experiment, self._journal.record.done_keys)
        if not jobs and not rebuilds and not wide_cells(self._experiment, self._journal.record):
            return
        try:
            self._findings += lint_kernel(self._lab)
            self._probe()
            self._bench.build_all()
            self._idle_baseline = self._measure_idle()
            for cell in jobs:
                self._measure_cell(cell)
            self._measure_until_narrow()
            runner = RebuildRunner(self._context, self._bench, self._rates, self._options, self._cell_record)
            for rebuild in rebuilds:
                runner.measure(rebuild)
            self._bench.take_apart()
        except MachineLost:
            raise
        except BaseException:
            self._bench.abandon()
            raise

    def _narrate(self, what: str) -> None:
        self._observer.doing(what, 5.0)

    def _on_built(self, built: BuiltArray) -> None:
        self._arrays[built.plan.id] = built.record
        found = lint_bench(self._lab, [built])
        self._findings += found
        require_sound(found, self._experiment, self._context.allowed_rules)

    def _probe(self) -> None:
        if self._experiment.rebuild or self._experiment.disks.personality:
            self._observer.doing("probe one disk", 5.0)
            self._rates = probe_disk(self._lab, self._lab.disks[0])
            self._bench.mark_used(self._lab.disks[0])

    def _measure_idle(self) -> float:
        self._observer.doing("measure the idle machine", IDLE_SECONDS)
        with Recorder(self._lab.machine, None, (), hertz=self._experiment.sampling_hertz) as recorder:
            self._lab.host.clock.sleep(IDLE_SECONDS)
        return idle_fraction(recorder.samples)

    @property
    def _repeats_words(self) -> str:
        fewest, most = self._experiment.repeats, self._experiment.most_repeats
        return f"{fewest} to {most}" if most > fewest else str(fewest)

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
        label = f"{built.plan.label}: {workload.title}, repeat {cell.repeat + 1} of {self._repeats_words}"
        disturbed_before = 0
        try:
            while True:
                events = self._cache_events(built)
                self._observer.doing(f"{label}{', again: disturbed' if disturbed_before else ''}", expected)
                started = self._lab.host.clock.utc_now().strftime("%Y-%m-%dT%H:%M:%SZ")
                measured = run_workload(
                    self._lab,
                    built.place,
                    workload,
                    self._options(workload),
                    repeat=cell.repeat,
                    on_sample=self._observer.on_sample,
                    is_cancelled=self._context.is_cancelled,
                )
                if not self._spare.take(measured.waited_fraction, measured.share_measured, disturbed_before):
                    break
                disturbed_before += 1
        except (WorkloadError, SpecError) as error:
            if not self._experiment.keeps_going:
                raise
            self._notes.append(f"failed: {cell.key}: {error.message.splitlines()[0]}")
        else:
            record = self._cell_record(built, workload, measured, HEALTHY, cell.repeat, cell.order_index)
            record = msgspec.structs.replace(
                record, started_utc=started, cache_events=events, disturbed_before=disturbed_before
            )
            self._journal.add(self._stamped(record, workload, measured))
        # A later cold start then need not wait for it.
        self._lab.start_writing_out(built.disks)
        self._observer.done(cell.key)

    def _cache_events(self, built: BuiltArray) -> tuple[str, ...]:
        """Make the caches as the experiment wants them; what was done for it."""
        if self._experiment.cache is not Cache.COLD:
            return ()
        return make_cold(self._lab, built.place.file_system, built.spec.device, built.disks, built.parity_arrays)

    def _stamped(self, record: CellRecord, workload: Workload, measured: Measured) -> CellRecord:
        wants_cold = self._experiment.cache is Cache.COLD
        found = lint_measured(
            record.key,
            record.phase,
            workload,
            measured,
            declared_cold=wants_cold,
            is_cold=bool(record.cache_events) or record.phase != HEALTHY,
        )
        return msgspec.structs.replace(record, stamps=tuple(finding.stamp for finding in found))

    def _measure_until_narrow(self) -> None:
        """Further rounds over the cells whose interval is wide, until none is, or the cap is reached."""
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
            started_utc=self._lab.host.clock.utc_now().strftime("%Y-%m-%dT%H:%M:%SZ"),
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
        """Only where a disk's service time is known: other disks here are memory, and the processor is the limit."""
        if not self._experiment.disks.personality or self._rates is None or phase == REBUILDING:
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
            )
        except SpecError:
            return None
