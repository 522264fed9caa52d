"""Run an experiment and store its result: the only place where experiments are started and resumed.

Opens the lab and the journal, and closes both.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from lab import __version__
from lab.disks import open_lab, with_fitting_time
from lab.errors import ExperimentError, LabError, ResultError
from lab.experiments.bench import RunContext
from lab.experiments.linting import lint_experiment, require_sound
from lab.experiments.progress import ProgressMeter, RunProgress, Stopwatch
from lab.experiments.runner import ExperimentRunner
from lab.experiments.schedule import planned_keys
from lab.experiments.schema import Experiment, check, seeded
from lab.host.clock import utc_second_text
from lab.lint.result_checks import summarised
from lab.machine import Host, Machine, Target
from lab.machine.state_folder import make_folder
from lab.measure.conditions import read_conditions
from lab.results.record import Conditions, ResultRecord, RunStatus
from lab.results.store import ResultNotStored, ResultStore, RunJournal
from lab.tomlfile import decode_toml
from lab.units import MIB, human_bytes

RESULT_ROOM_BYTES = 16 * MIB


@dataclass(frozen=True, slots=True)
class RunRequest:
    """Where to run an experiment, and the callbacks."""

    target: Target
    host: Host
    on_progress: Callable[[RunProgress], None] = lambda _: None
    on_notice: Callable[[str], None] = lambda _: None
    on_machine: Callable[[Machine], None] = lambda _: None
    is_cancelled: Callable[[], bool] = lambda: False
    """Called at every step and every sample; true ends the run, which can be resumed."""
    allowed_rules: frozenset[str] = frozenset()
    """Lint rules that may be violated although they would refuse the run."""
    started_seconds: float | None = None
    """Start of the user's command on the host's clock; None: now."""


def resume_experiment(name: str, request: RunRequest) -> ResultRecord:
    """Resume an incomplete result under equal conditions.

    Raises ExperimentError if the machine has changed, ResultError if there is nothing to resume.
    """
    earlier = ResultStore(request.host.state.results).load(name)
    experiment = decode_toml(earlier.experiment_toml, Experiment, source=f"{earlier.id}/experiment")
    check(experiment)
    return run_experiment(experiment, earlier.experiment_toml, request, seed=earlier.seed, earlier=earlier)


def run_experiment(
    experiment: Experiment,
    text: str,
    request: RunRequest,
    *,
    seed: int | None = None,
    earlier: ResultRecord | None = None,
) -> ResultRecord:
    """Run an experiment from the start, or the missing cells of ``earlier``, an incomplete result of it.

    ``text`` is the experiment's file, which is stored in the result; ``seed`` overrides the one in it.
    Raises the error that stops the run; the cells measured until then are stored as an incomplete result.
    """
    experiment = seeded(experiment, seed)
    store = ResultStore(request.host.state.results)
    if earlier is None:
        _tell_of_incomplete(store, experiment, request)
    clock = request.host.clock
    stopwatch = Stopwatch(clock, request.started_seconds)
    findings = lint_experiment(experiment)
    require_sound(findings, experiment, request.allowed_rules)
    for stamp in summarised(findings):
        request.on_notice(f"lint: {stamp}")
    if experiment.why:
        request.on_notice(experiment.why)
    _require_room(store.root)
    target = with_fitting_time(request.target, request.host, experiment.disk_specs, request.on_notice)
    progress = ProgressMeter(experiment, clock, request.on_progress, request.is_cancelled)
    progress.doing("start the machine", 3.0)

    def listen(machine: Machine) -> None:
        stopwatch.watch(machine)
        progress.watch(machine)
        request.on_machine(machine)

    with open_lab(
        target,
        request.host,
        wanted=experiment.disk_specs,
        seed=experiment.seed,
        on_notice=request.on_notice,
        on_machine=listen,
    ) as lab:
        conditions = read_conditions(lab)
        if earlier:
            _require_same(earlier.conditions, conditions, earlier.id)
            journal = store.resume(earlier.id)
        else:
            draft = _draft(store.new_id(experiment.id, clock.utc_now()), experiment, text, seed, conditions)
            journal = store.begin(msgspec.structs.replace(draft, created_utc=utc_second_text(clock)))
        context = RunContext(lab, experiment, journal, stopwatch, progress, request.allowed_rules)
        with journal:
            try:
                return ExperimentRunner(context).run()
            except BaseException as error:
                _say_what_is_kept(error, journal, request.on_notice)
                raise


def _draft(result_id: str, experiment: Experiment, text: str, seed: int | None, conditions: Conditions) -> ResultRecord:
    return ResultRecord(
        id=result_id,
        created_utc="",
        raidlab_version=__version__,
        experiment=experiment.id,
        experiment_toml=text,
        seed=seed,
        conditions=conditions,
        planned_cells=planned_keys(experiment),
    )


def _tell_of_incomplete(store: ResultStore, experiment: Experiment, request: RunRequest) -> None:
    for summary in store.list():
        if summary.experiment == experiment.id and summary.status is RunStatus.INCOMPLETE:
            request.on_notice(f"result {summary.id} is incomplete; 'raidlab run --resume {summary.id}' continues it")


def _require_same(before: Conditions, now: Conditions, result_id: str) -> None:
    names = ("target", "host_name", "kernel_release", "cpu_count", "mdadm_version", "fio_version", "depends_on")
    changed = [
        f"{name} was {getattr(before, name)} and is {getattr(now, name)}"
        for name in names
        if getattr(before, name) != getattr(now, name)
    ]
    if changed:
        raise ExperimentError(
            f"result {result_id} cannot be resumed here: {'; '.join(changed)}",
            hint="resume it where it was begun, or start anew",
        )


def _require_room(results: Path) -> None:
    """Check for free space before measuring. Raises ResultError if there is too little to store a result."""
    folder = make_folder(results, what="the folder for results")
    room = os.statvfs(folder)
    if room.f_bavail * room.f_frsize < RESULT_ROOM_BYTES:
        raise ResultError(
            f"{folder} has less than {human_bytes(RESULT_ROOM_BYTES)} left for results",
            hint="free some room, or put the state folder elsewhere with RAIDLAB_STATE=FOLDER",
        )


def _say_what_is_kept(error: BaseException, journal: RunJournal, on_notice: Callable[[str], None]) -> None:
    """Report the stored result: in the hint of a LabError, as a notice before any other error."""
    resume = f"'raidlab run --resume {journal.record.id}' goes on"
    if not isinstance(error, LabError):
        if journal.record.cells:
            on_notice(f"stored as incomplete; {resume} with it")
        return
    hints = [error.hint] if error.hint else []
    if isinstance(error, ResultNotStored):
        # A record that cannot be written to its folder is saved in the folder for temporary files.
        with tempfile.NamedTemporaryFile("wb", prefix="raidlab-result-", suffix=".json", delete=False) as file:
            file.write(error.payload)
        hints.append(f"it is saved as {file.name}")
    if journal.record.cells:
        hints.append(f"{resume} where it stopped")
    error.hint = "; ".join(hints)
