"""One recording: a history is played on recorded drives, and all that a power cut in it could have left is known."""

from __future__ import annotations

import base64
import hashlib
import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from lab.errors import LabError, SpecError
from lab.faults.configuration import CutConfiguration, steps_of
from lab.faults.guest.ledger import Ledger
from lab.faults.guest.record import ALL, EVERYTHING, FLUSHED, KINDS, Cut, Record, chosen_cut
from lab.faults.place import FaultPlace
from lab.faults.program import CRASH, PLAYER, run_program

MOST_TRIED_BY_ALL = 4
"""Of so many open writes every subset is tried."""
MAY_FAIL = ("write", "check", "state")


@dataclass(frozen=True, slots=True)
class DriveRecording:
    """What was played, and the record of it.

    ``fingerprint``: of the record and the ledger; the same in each machine in virtual time.
    """

    configuration: CutConfiguration
    seed: str
    events: list[list[Any]]
    record: Record
    fingerprint: str

    def cuts(self, count: int | None) -> list[Cut]:
        """So many crash points by the seed, or all.

        At every moment, nothing, all and every small subset of the open writes, with each member that may be lost,
        and without.
        """
        if count is None:
            return list(self._every_cut())
        chance = random.Random(f"cuts:{self.seed}:{self.configuration.name}")
        moments = self.record.moments()
        losses = [(), *((drive,) for drive in self.configuration.may_be_lost)]
        found = []
        for _ in range(count):
            at, kind = chance.choice(moments), chance.choice(KINDS)
            units = chance.choice((1, 8))
            found.append(chosen_cut(self.record, at, kind, chance, chance.choice(losses), units))
        return found

    def require(self, cut: Cut) -> None:
        """Raises SpecError for a cut of another recording."""
        moments = self.record.moments()
        wrong = "" if moments and moments[0] <= cut.at <= moments[-1] else f"it has no event {cut.at}"
        counts: dict[int, int] = {}
        for drive, indices in cut.kept.items():
            open_ = {each.index: each.count for each in self.record.split(drive, cut.at)[1]}
            counts |= open_
            for index in indices:
                if index not in open_:
                    wrong = f"after event {cut.at} drive {drive} has no open write {index}"
        for index, (first, last) in cut.torn.items():
            if not 0 <= first <= last < counts.get(index, 0):
                wrong = f"write {index} has no sectors {first} to {last}"
        if len(cut.missing) > 1 or not set(cut.missing) <= set(self.configuration.may_be_lost):
            wrong = f"drives {', '.join(map(str, cut.missing))} may not be lost in it"
        if wrong:
            raise SpecError(
                f"'{cut.word()[:60]}' is no crash point of this recording: {wrong}",
                hint="give --seed, --operations and the kernel as they were when 'fault points' printed it",
            )

    def _every_cut(self) -> Iterator[Cut]:
        chance = random.Random(self.seed)
        for at in self.record.moments():
            open_ = [each for drive in self.record.drives for each in self.record.split(drive, at)[1]]
            kept: list[dict[int, list[int]]] = []
            if len(open_) <= MOST_TRIED_BY_ALL:
                for size in range(len(open_) + 1):
                    for chosen in combinations(open_, size):
                        kept.append({d: [each.index for each in chosen if each.drive == d] for d in self.record.drives})
            else:
                kept = [chosen_cut(self.record, at, kind, chance).kept for kind in (ALL, FLUSHED, EVERYTHING)]
                kept += [chosen_cut(self.record, at, kind, chance).kept for kind in KINDS[3:5] for _ in range(4)]
            for each in kept:
                yield Cut(at, each)
                for drive in self.configuration.may_be_lost:
                    yield Cut(at, each, missing=(drive,))


def make_recording(
    place: FaultPlace, configuration: CutConfiguration, seed: str, *, operations: int | None = None
) -> DriveRecording:
    """Play the configuration's history on blank drives. Raises LabError if it did not go as it must."""
    steps = steps_of(configuration, place.nodes, operations or configuration.operations)
    events: list[list[Any]] = []
    job = {"seed": seed, "steps": steps, "geometry": configuration.geometry, "wants_ledger": True}
    for seen in run_program(place.lab.machine, PLAYER, {"histories": [job]}):
        if "end" in seen:
            events = seen["ledger"]
        elif (reason := went_wrong(seen)) is not None:
            raise LabError(
                f"{configuration.name} could not be recorded: step {seen['step']} ({steps[seen['step']]}): {reason}",
                hint="raidlab fault points --list shows what can be",
            )
    encoded = place.lab.machine.run(("base64", "-w0", "/dev/lab-record")).stdout
    data = base64.b64decode(encoded)
    digest = hashlib.sha256(data + repr(events).encode()).hexdigest()
    return DriveRecording(configuration, seed, events, Record(data), digest)


def went_wrong(seen: dict[str, Any]) -> str | None:
    """Why a step of a recording is no good; None if it is."""
    if "broke" in seen:
        return str(seen["broke"])
    if seen["kind"] == "run" and seen["status"] != 0:
        return f"status {seen['status']}: {seen['output'].strip()[-300:]}"
    if seen.get("failures"):
        return f"{seen['failures']} writes failed"
    if seen.get("bad"):
        return f"the running array gives wrong data: {seen['bad'][:3]}"
    return None


def judge_points(
    place: FaultPlace, recording: DriveRecording, cuts: list[Cut], *, by_mdadm: bool = False
) -> Iterator[dict[str, Any]]:
    """What was seen at each cut, in their order; the drives must still be those of the recording."""
    configuration = recording.configuration
    job = {
        "seed": recording.seed,
        "ledger": recording.events,
        "members": {drive: place.nodes[drive] for drive in configuration.drives},
        "geometry": configuration.geometry,
        "by_mdadm": by_mdadm,
        # What lies where a reshape stands is read only once that goes on: until then the reader spins, and in virtual
        # time nothing else would ever have its turn (raid5_make_request() in drivers/md/raid5.c).
        "looks_first": configuration.moment != "reshape",
        "tells_labels": configuration.moment in ("rebuild", "reshape"),
        "cuts": [cut.word() for cut in cuts],
    }
    for seen in run_program(place.lab.machine, CRASH, job):
        if "cut" in seen:
            yield seen


def ledger_of(recording: DriveRecording) -> Ledger:
    """The ledger of a recording."""
    return Ledger(recording.events)
