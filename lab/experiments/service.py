"""Run an experiment from its name to its stored result: opens the lab and the journal, and leaves neither open."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from lab import __version__
from lab.disks import open_lab
from lab.errors import ExperimentError, LabError, ResultError
from lab.experiments.context import CancellableObserver, Observer, RunContext, never
from lab.experiments.linting import lint_experiment, require_sound
from lab.experiments.runner import ExperimentRunner
from lab.experiments.schedule import planned_keys
from lab.experiments.schema import Experiment, check, seeded
from lab.experiments.stopwatch import Stopwatch
from lab.lint.result_checks import summarised
from lab.machine import Host, Machine, Target
from lab.machine.state_folder import make_folder
from lab.measure.conditions import read_conditions
from lab.results.journal import RunJournal
from lab.results.record import Conditions, ResultRecord, RunStatus
from lab.results.store import ResultStore
from lab.tomlfile import decode_toml
from lab.units import MIB, human_bytes

RESULT_ROOM_BYTES = 16 * MIB


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What is to be run, and who listens."""

    target: Target
    host: Host
    observer: Observer
    on_notice: Callable[[str], None]
    on_machine: Callable[[Machine], None] = lambda _: None
    is_cancelled: Callable[[], bool] = never
    """Asked at every step and every sample: ends the run, which can be resumed."""
    allowed_rules: frozenset[str] = frozenset()
    """Rules of the lint that may be broken where they would refuse the run."""
    started_seconds: float | None = None
    """When the user's command began, on the host's clock; None: now."""


def run_experiment(experiment: Experiment, text: str, request: RunRequest, *, seed: int | None = None) -> ResultRecord:
    """Run from the start. ``text`` is the experiment's file, kept in the result; ``seed`` goes before the one in it.

    Raises what stops the run; what was measured until then is stored as an incomplete result.
    """
    experiment = seeded(experiment, seed)
    store = ResultStore(request.host.state.results)
    for summary in store.list():
        if summary.experiment == experiment.id and summary.status is RunStatus.INCOMPLETE:
            request.on_notice(f"result {summary.id} is incomplete; 'raidlab run --resume {summary.id}' goes on with it")

    def begin(conditions: Conditions) -> RunJournal:
        now = request.host.clock.utc_now()
        return store.begin(
            ResultRecord(
                id=store.new_id(experiment.id, now),
                created_utc=now.strftime("%Y-%m-%dT%H:%M:%SZ"),
                raidlab_version=__version__,
                experiment=experiment.id,
                experiment_toml=text,
                seed=seed,
                conditions=conditions,
                planned_cells=planned_keys(experiment),
            )
        )

    return _run(experiment, request, begin)


def resume_experiment(name: str, request: RunRequest) -> ResultRecord:
    """Go on with an incomplete result under equal conditions.

    Raises ExperimentError if the machine is not what it was, ResultError if there is nothing to resume.
    """
    store = ResultStore(request.host.state.results)
    earlier = store.load(name)
    experiment = decode_toml(earlier.experiment_toml, Experiment, source=f"{earlier.id}/experiment")
    experiment = seeded(experiment, earlier.seed)
    check(experiment)

    def begin(conditions: Conditions) -> RunJournal:
        _require_same(earlier.conditions, conditions, earlier.id)
        return store.resume(earlier.id)

    return _run(experiment, request, begin)


def _require_same(before: Conditions, now: Conditions, result_id: str) -> None:
    names = ("target", "host_name", "kernel_release", "cpu_count", "mdadm_version", "fio_version")
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


def _run(experiment: Experiment, request: RunRequest, begin: Callable[[Conditions], RunJournal]) -> ResultRecord:
    clock = request.host.clock
    started = request.started_seconds if request.started_seconds is not None else clock.monotonic_seconds()
    stopwatch = Stopwatch(clock, started)

    def listen(machine: Machine) -> None:
        machine.on_command(stopwatch.on_command)
        request.on_machine(machine)

    findings = lint_experiment(experiment)
    require_sound(findings, experiment, request.allowed_rules)
    for stamp in summarised(findings):
        request.on_notice(f"lint: {stamp}")
    if experiment.why:
        request.on_notice(experiment.why)
    _require_room(request.host.state.results)
    observer = CancellableObserver(request.observer, request.is_cancelled)
    observer.doing("start the machine", 3.0)
    opened = open_lab(
        request.target, request.host, wanted=experiment.disk_specs, on_notice=request.on_notice, on_machine=listen
    )
    with opened as lab, begin(read_conditions(lab)) as journal:
        context = RunContext(lab, experiment, journal, stopwatch, observer, request.is_cancelled, request.allowed_rules)
        try:
            return ExperimentRunner(context).run()
        except LabError as error:
            _say_how_to_resume(error, journal)
            raise
        except BaseException:
            if journal.record.cells:
                request.on_notice(f"stored as incomplete; 'raidlab run --resume {journal.record.id}' goes on with it")
            raise


def _require_room(results: Path) -> None:
    """Before anything is measured: a result that cannot be stored is not worth measuring."""
    folder = make_folder(results, what="the folder for results")
    room = os.statvfs(folder)
    if room.f_bavail * room.f_frsize < RESULT_ROOM_BYTES:
        raise ResultError(
            f"{folder} has less than {human_bytes(RESULT_ROOM_BYTES)} left for results",
            hint="free some room, or put the state folder elsewhere with RAIDLAB_STATE=FOLDER",
        )


def _say_how_to_resume(error: LabError, journal: RunJournal) -> None:
    if journal.record.cells:
        resume = f"'raidlab run --resume {journal.record.id}' goes on where it stopped"
        error.hint = f"{error.hint}; {resume}" if error.hint else resume
