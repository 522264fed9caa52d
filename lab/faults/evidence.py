"""A finding replayed once more with all that can be said of it, and made ready for the store."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from lab import __version__
from lab.errors import LabError
from lab.faults.findings import FindingRecord
from lab.faults.history import DRIVES, FaultHistory, FindingId
from lab.faults.history_play import Arena, HistoryOutcome, play
from lab.faults.history_steps import node
from lab.faults.place import FaultPlace
from lab.faults.plain_script import plain_script
from lab.gates.decoding import convert
from lab.host.clock import utc_second_text
from lab.measure.conditions import read_conditions
from lab.units import MIB

MOST_RECORD_BYTES = 16 * MIB
"""Of the drives' record, and of its data: what is more is left out, and said so."""
_RECORDS = {"record.bin.gz": "/dev/lab-record", "record-data.bin.gz": "/dev/lab-record-data"}


@dataclass(frozen=True, slots=True)
class Evidence:
    """A replay, and the files that tell of it."""

    outcome: HistoryOutcome
    files: dict[str, bytes]


def gathered(arena: Arena, history: FaultHistory, before: Sequence[FaultHistory] = ()) -> Evidence:
    """Replay a history on a machine of its own, and take everything down."""
    files: dict[str, bytes] = {}
    with arena.opened() as place:
        more: dict[str, Any] = {"wants_log": True, "wants_ledger": True}
        outcome = list(play(place, [*before, history], change=arena.change, has_evidence=True, **more))[-1]
        if not outcome.is_over:
            files |= _from_machine(place)
    files["seen.jsonl"] = seen_lines(outcome)
    logs = [seen["log"] for _, seen in outcome.documents if "log" in seen]
    files["kernel.log"] = "\n".join(logs[-1] if logs else ["the kernel's log could not be read"]).encode()
    said = [
        seen["output"]
        for step, seen in outcome.documents
        if step.step[:1] == ["run"] and "/proc/mdstat" in step.step[1]
    ]
    files["mdstat.txt"] = "\n".join(said).encode()
    return Evidence(outcome, files)


def seen_lines(outcome: HistoryOutcome) -> bytes:
    """What the player told, one step a line."""
    lines = [
        {"act": step.act, "for": step.purpose.value, "did": step.step, "told": seen} for step, seen in outcome.documents
    ]
    return "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines).encode()


def _from_machine(place: FaultPlace) -> dict[str, bytes]:
    """Superblocks, versions and the drives' record, as far as the machine still tells."""
    machine, files = place.lab.machine, {}
    try:
        told = [machine.run(("mdadm", "--examine", node(drive)), check=False) for drive in range(DRIVES)]
        files["superblocks.txt"] = "\n".join(each.stdout + each.stderr for each in told).encode()
        conditions = msgspec.structs.asdict(read_conditions(place.lab))
        names = ("kernel_release", "mdadm_version", "architecture", "depends_on", "is_virtual_time")
        versions = {name: conditions[name] for name in names} | {"raidlab_version": __version__}
        files["versions.json"] = msgspec.json.format(msgspec.json.encode(versions), indent=1)
        for name, path in _RECORDS.items() if place.has_record else ():
            packed = machine.run(("sh", "-c", f"head -c {MOST_RECORD_BYTES} {path} | gzip -nc | base64 -w0")).stdout
            data = base64.b64decode(packed)
            if len(gzip.decompress(data)) >= MOST_RECORD_BYTES:
                files[f"{name}.cut-off"] = f"the first {MOST_RECORD_BYTES} bytes alone\n".encode()
            files[name] = data
    except LabError as error:
        files["not-gathered.txt"] = f"{error.message}\n".encode()
    return files


def record_of(
    finding_id: FindingId, outcome: HistoryOutcome, kind: str, arena: Arena, *, status: str, **more: object
) -> FindingRecord:
    """The head of a finding."""
    history = outcome.history
    first = next(each for each in outcome.differences if each.kind == kind)
    fields = {
        "id": str(finding_id),
        "kind": kind,
        "text": first.text,
        "title": history.shape.title(),
        "act": first.act,
        "differences": [(each.kind, each.act, each.text) for each in outcome.differences],
        "explained": dict(outcome.explained),
        "status": status,
        "target": str(arena.target),
        "planted": arena.planted,
        "is_virtual_time": arena.target.is_virtual_time,
        "operations": history.operations,
        "writes": history.writes,
        "created_utc": utc_second_text(arena.host.clock),
        **more,
    }
    return convert(fields, FindingRecord)


def script_of(record: FindingRecord, history: FaultHistory) -> bytes:
    """commands.sh."""
    return plain_script(history, title=f"{record.kind}: {record.text}", finding_id=record.id).encode()
