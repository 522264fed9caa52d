"""What became of crash points, a file for each configuration that was tried.

::

    STATE/faults/points/<id>.json
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import msgspec

from lab import __version__
from lab.errors import ResultError
from lab.fault_lab.crash_points import Explored
from lab.fault_lab.promise import PointJudgement
from lab.gates.names import Name
from lab.gates.own import read_own_json
from lab.host.clock import utc_second_text
from lab.host.files import write_file
from lab.machine import Host

FOLDER = "faults/points"
FORMAT_VERSION = 1


class StoredPoints(msgspec.Struct, frozen=True, kw_only=True):
    """A configuration whose crash points were tried."""

    format_version: int = FORMAT_VERSION
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


def keep_points(host: Host, explored: Explored) -> StoredPoints:
    """Keep what was found. Raises LabError if the state folder cannot be used."""
    root = host.state.make(host.state.root / FOLDER, what="the folder for outcomes of crash points")
    created = utc_second_text(host.clock)
    word = f"{created}-{explored.configuration.name}".replace("-", "").replace(":", "").replace("/", "-")
    number, name = 1, word
    while (root / f"{name}.json").exists():
        number += 1
        name = f"{word}-{number}"
    tally = explored.tally
    kept = StoredPoints(
        id=name,
        created_utc=created,
        configuration=explored.configuration.name,
        seed=explored.seed,
        points=tally.points,
        judgements={word: tally.judgements[word] for word in PointJudgement},
        refused=tally.refused,
        is_whole=explored.error is None,
    )
    write_file(root / f"{name}.json", msgspec.json.format(msgspec.json.encode(kept), indent=1))
    return kept


def stored_points(host: Host) -> tuple[StoredPoints, ...]:
    """All that can be read, the newest first."""
    return tuple(sorted(_read(host), key=lambda kept: (kept.created_utc, kept.id), reverse=True))


def _read(host: Host) -> Iterator[StoredPoints]:
    for path in sorted((host.state.root / FOLDER).glob("*.json")):
        with suppress(ResultError, OSError):
            kept = read_own_json(path, StoredPoints)
            if kept.format_version == FORMAT_VERSION and kept.id == path.stem:
                yield kept
