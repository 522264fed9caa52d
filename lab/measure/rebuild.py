"""A rebuild, measured: a member fails, is taken out and replaced by itself made blank, and md restores its content.

Rebuild time is taken from samples of ``sync_completed`` on the machine's clock, since md/sync_speed is a 30 s average.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from lab.arrays import operations
from lab.arrays.state import read_array
from lab.arrays.status import SyncAction
from lab.arrays.waits import wait_until_idle
from lab.disks import Lab
from lab.errors import ArrayError
from lab.measure.integrity import DataSum, Verdict, verdict
from lab.measure.recorder import Recorder
from lab.measure.samples import Sample
from lab.theory.model import DiskRates, Prediction, rebuild_seconds
from lab.units import KIB

REBUILD_HERTZ = 10.0
_RECOVER = SyncAction.RECOVER.value


@dataclass(frozen=True, slots=True)
class RebuildMeasured:
    """How a rebuild went."""

    rebuild_seconds: float
    rebuilt_bytes: int
    samples: tuple[Sample, ...]


@dataclass(frozen=True, slots=True)
class Integrity:
    """The data before the fault, while degraded, and after the rebuild."""

    before: DataSum
    degraded: DataSum
    after: DataSum

    @property
    def verdict(self) -> Verdict:
        """The worst of the two comparisons."""
        found = {verdict(self.before, self.degraded), verdict(self.before, self.after)}
        for worst in (Verdict.CHANGED, Verdict.UNREADABLE):
            if worst in found:
                return worst
        return Verdict.INTACT


def fail_and_remove(lab: Lab, array: str, member: str) -> None:
    """Take a member away in good order. Raises ArrayError if the array did not become degraded."""
    lab.execute(operations.fail(array, member))
    lab.execute(operations.remove(array, member))
    if not read_array(lab.machine, array).is_degraded:
        raise ArrayError(f"{array} is not degraded after {member} was removed", hint="look at 'raidlab array show'")


def measure_rebuild(
    lab: Lab,
    array: str,
    member: str,
    members: Sequence[str],
    *,
    beside: Callable[[Recorder], AbstractContextManager[None]] | None = None,
) -> RebuildMeasured:
    """Add the blank member and follow the rebuild to its end.

    ``members`` are the kernel names to sample; ``beside`` is what goes on meanwhile, such as a load: entered before the
    member is added, since a small array may be rebuilt within a second, and left when the rebuild is over.
    """
    used_bytes = read_array(lab.machine, array).component_bytes or 0
    lab.execute(operations.zero_superblocks((member,)))
    with (
        Recorder(lab.machine, array, members, hertz=REBUILD_HERTZ) as recorder,
        beside(recorder) if beside else nullcontext(),
    ):
        lab.execute(operations.add(array, member))
        wait_until_idle(lab.machine, array, clock=lab.host.clock)
    return RebuildMeasured(sync_seconds(recorder.samples), used_bytes, recorder.samples)


def sync_seconds(samples: Sequence[Sample]) -> float:
    """How long the rebuild in ``samples`` took: from the first sample that shows it to the first after it.

    Half an interval is taken off both ends' uncertainty by using the sample before the first as the start.
    Raises ArrayError if no sample shows a rebuild, or it had not ended.
    """
    shown = [index for index, sample in enumerate(samples) if _is_rebuilding(sample)]
    if not shown:
        raise ArrayError("no sample shows the rebuild: it was over at once", hint="use larger disks")
    first, last = shown[0], shown[-1]
    if last + 1 >= len(samples):
        raise ArrayError("the rebuild had not ended when sampling stopped", hint="wait for it to end")
    start = samples[max(0, first - 1)].time_seconds
    return (samples[last + 1].time_seconds + samples[last].time_seconds) / 2 - (start + samples[first].time_seconds) / 2


def _is_rebuilding(sample: Sample) -> bool:
    return sample.sync_action == _RECOVER and bool(sample.degraded_count)


def predict_rebuild(lab: Lab, array: str, rates: DiskRates | None) -> Prediction | None:
    """How long a rebuild without other load should take; None without the rates of a disk."""
    status = read_array(lab.machine, array)
    if rates is None or status.component_bytes is None:
        return None
    path = f"/sys/block/{array}/md/sync_speed_max"
    words = (lab.machine.read([path])[path] or "").split()
    limit = int(words[0]) * KIB if words and words[0].isdecimal() else None
    disks = [rates] * status.raid_disks
    return rebuild_seconds(status.component_bytes, disks, sync_speed_max_bytes_per_second=limit)
