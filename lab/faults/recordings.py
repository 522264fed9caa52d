"""Stored recordings of drives: in real time the same history never gives the same requests twice.

A recording whose crash points show something wrong is stored whole, with what the drives held when it began. Its crash
points can then be tried again on any machine, with or without drives that record::

    STATE/faults/recordings/<id>.json
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import msgspec

from lab.disks.attaching import DRIVES_CONTROL
from lab.errors import LabError
from lab.faults.place import FaultPlace
from lab.gates.decoding import FormatVersion, Name
from lab.machine import Host
from lab.store import RecordFiles, stem
from lab.tomlfile import unknown_word

FORMAT_VERSION = 1


class DriveImages(msgspec.Struct, frozen=True, kw_only=True):
    """What a drive's state is made of, beside the record; each compressed by gzip."""

    data: bytes
    """The data of the recorded writes, as in /dev/lab-record-data."""
    bases: dict[str, bytes]
    """Number of a drive -> what it held when the recording began."""

    def job(self, record: bytes) -> dict[str, Any]:
        """The same for a program on a machine (``DriveStates`` in guest/player.py), with the record."""

        def text(data: bytes) -> str:
            return base64.b64encode(data).decode()

        return {
            "record": text(record),
            "data": text(self.data),
            "bases": {number: text(data) for number, data in self.bases.items()},
        }


class StoredRecording(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of the file."""

    format_version: FormatVersion = FORMAT_VERSION
    id: Name
    target: str
    configuration: str
    seed: str
    cuts: tuple[str, ...]
    """The crash points that showed something wrong."""
    events: list[list[Any]]
    """Those of the ledger."""
    record: bytes
    images: DriveImages


def images_of(place: FaultPlace, drives: Sequence[int]) -> DriveImages:
    """Read the images from drives that have been recorded; afterwards each holds what it held at the beginning."""

    def packed(command: str) -> bytes:
        return base64.b64decode(place.lab.machine.run(("sh", "-c", f"{command} | gzip -1nc | base64 -w0")).stdout)

    data, bases = packed("cat /dev/lab-record-data"), {}
    for drive in drives:
        place.lab.machine.write(DRIVES_CONTROL, f"restore {drive}")
        bases[str(drive)] = packed(f"dd if={place.nodes[drive]} bs=1M iflag=direct status=none")
    return DriveImages(data=data, bases=bases)


def _files(host: Host) -> RecordFiles[StoredRecording]:
    root = host.state.root / "faults" / "recordings"
    return RecordFiles(root, "recording", StoredRecording, state_root=host.state.root)


def keep_recording(host: Host, configuration: str, **fields: Any) -> StoredRecording:
    """Store a recording. Raises LabError if the state folder cannot be used."""
    name = configuration.replace("-", "").replace("/", "-")
    return _files(host).add(
        f"{stem(host.clock.utc_now())}{name}",
        lambda record_id: StoredRecording(id=record_id, configuration=configuration, **fields),
    )


def find_recording(host: Host, word: str) -> StoredRecording:
    """The stored recording with this id. Raises SpecError with the nearest id, LabError for another format."""
    known = {record_id: each for record_id, each in _files(host).read() if each.id == record_id}
    if word not in known:
        raise unknown_word("recording", word, known)
    if known[word].format_version != FORMAT_VERSION:
        raise LabError(
            f"the recording '{word}' has format {known[word].format_version}, and this raidlab reads {FORMAT_VERSION}",
            hint="read it with the raidlab version that made it",
        )
    return known[word]
