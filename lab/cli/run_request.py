"""What every command that runs experiments shares: the request, its progress, and a result that could not be stored."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from lab.cli.context import Context
from lab.cli.progress import ProgressReporter
from lab.experiments.service import RunRequest
from lab.measure.samples import TICKS_PER_SECOND, Sample
from lab.results.journal import ResultNotStored
from lab.seams.clock import Clock
from lab.seams.files import HostFiles


def request_of(
    context: Context,
    progress: ProgressReporter,
    started_seconds: float | None = None,
    allowed_rules: frozenset[str] = frozenset(),
) -> RunRequest:
    """A request of the command line's user."""
    return RunRequest(
        target=context.target,
        host=context.host,
        observer=ProgressObserver(progress, context.host.clock),
        on_notice=context.narrator.notice,
        on_machine=context.narrator.listen,
        allowed_rules=allowed_rules,
        started_seconds=started_seconds,
    )


@contextmanager
def saved_elsewhere() -> Iterator[None]:
    """Keep a record that its folder would not take in the folder for temporary files, and say so."""
    try:
        yield
    except ResultNotStored as error:
        error.hint = f"{error.hint}; it is saved as {_save(error.payload)}"
        raise


def _save(payload: bytes) -> str:
    with tempfile.NamedTemporaryFile("wb", prefix="raidlab-result-", suffix=".json", delete=False) as file:
        file.write(payload)
    return file.name


def process_started_seconds(files: HostFiles) -> float | None:
    """When this command began on the monotonic clock: field 22 of /proc/self/stat, in ticks since boot (proc(5))."""
    fields = (files.read("/proc/self/stat") or "").rpartition(")")[2].split()
    return int(fields[19]) / TICKS_PER_SECOND if len(fields) > 19 else None


class ProgressObserver:
    """Turns what a run tells into progress."""

    def __init__(self, progress: ProgressReporter, clock: Clock) -> None:
        self._progress = progress
        self._clock = clock
        self._expected_seconds = 0.0
        self._began_seconds = 0.0

    def doing(self, what: str, expected_seconds: float) -> None:
        """The next step begins."""
        self._expected_seconds, self._began_seconds = expected_seconds, self._clock.monotonic_seconds()
        self._progress.step(what, expected_seconds)

    def done(self, key: str) -> None:
        """Nothing to show: the next step's label tells."""

    def on_sample(self, sample: Sample) -> None:
        """The bar moves within a step as well."""
        if self._expected_seconds:
            self._progress.advance((self._clock.monotonic_seconds() - self._began_seconds) / self._expected_seconds)
