"""What became of crash points, a file for each configuration that was tried.

::

    STATE/faults/points/<id>.json
"""

from __future__ import annotations

import msgspec

from lab import __version__
from lab.faults.crash_points import Explored
from lab.faults.promise import PointJudgement
from lab.gates.names import Name
from lab.gates.numbers import FormatVersion
from lab.machine import Host
from lab.store.files import RecordFiles
from lab.store.runs import stem

FORMAT_VERSION = 1


class StoredPoints(msgspec.Struct, frozen=True, kw_only=True):
    """A configuration whose crash points were tried."""

    format_version: FormatVersion = FORMAT_VERSION
    id: Name
    created_utc: str
    """When they had been tried."""
    configuration: str
    seed: str
    points: int
    judgements: dict[PointJudgement, int]
    refused: int
    """Crash points at which md started the array only by force."""
    is_whole: bool
    """Nothing ended it before all were tried."""
    raidlab: str = __version__


def _files(host: Host) -> RecordFiles[StoredPoints]:
    root = host.state.root / "faults" / "points"
    return RecordFiles(root, "outcome of crash points", StoredPoints, state_root=host.state.root)


def keep_points(host: Host, explored: Explored) -> StoredPoints:
    """Store what became of the crash points. Raises LabError if the state folder cannot be used."""
    tally, now = explored.tally, host.clock.utc_now()
    name = explored.configuration.name.replace("-", "").replace("/", "-")
    return _files(host).add(
        f"{stem(now)}{name}",
        lambda record_id: StoredPoints(
            id=record_id,
            created_utc=f"{now:%Y-%m-%dT%H:%M:%SZ}",
            configuration=explored.configuration.name,
            seed=explored.seed,
            points=tally.points,
            judgements={word: tally.judgements[word] for word in PointJudgement},
            refused=tally.refused,
            is_whole=explored.error is None,
        ),
    )


def stored_points(host: Host) -> tuple[StoredPoints, ...]:
    """All that can be read, the newest first."""
    found = [each for record_id, each in _files(host).read() if _is_good(record_id, each)]
    return tuple(sorted(found, key=lambda each: (each.created_utc, each.id), reverse=True))


def _is_good(record_id: str, stored: StoredPoints) -> bool:
    return stored.format_version == FORMAT_VERSION and stored.id == record_id
