"""Findings, kept each in a folder of its own that holds all that somebody else needs to see it.

::

    STATE/faults/findings/<id>/finding.json    what was seen, where, and how it is replayed
    STATE/faults/findings/<id>/history.json    what was done
    STATE/faults/findings/<id>/commands.sh     the same for plain mdadm, as root on any computer
    STATE/faults/findings/<id>/versions.json   kernel, mdadm, programs, raidlab
    STATE/faults/findings/<id>/seen.jsonl      what the player told, step by step
    STATE/faults/findings/<id>/...             kernel log, superblocks, /proc/mdstat, and the drives' record

A folder is made whole beside its place and moved there, so that whatever ends a campaign leaves a whole one or none.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from lab.errors import ResultError, SpecError
from lab.faults.history import FaultHistory
from lab.gates.names import checked_name
from lab.gates.numbers import FormatVersion
from lab.gates.own import read_own_json
from lab.machine import Host
from lab.store.runs import RunFolders

FORMAT_VERSION = 1
_FINDING, _HISTORY = "finding.json", "history.json"


class FindingRecord(msgspec.Struct, frozen=True, kw_only=True):
    """finding.json."""

    format_version: FormatVersion = FORMAT_VERSION
    id: str
    kind: str
    text: str
    """The first difference of this kind, in words."""
    title: str
    """The array."""
    act: int
    differences: tuple[tuple[str, int, str], ...]
    """All that were seen: kind, number of the act, words."""
    explained: dict[str, int] = {}
    status: str = "found"
    """``found``: as the campaign saw it; ``shrunk``: fewer acts and writes show it too; ``confirmed``: replayed as it
    is; ``unsteady``: not reproducible.
    """
    shrunk_from: str = ""
    run: str = ""
    target: str = ""
    planted: int = 0
    is_virtual_time: bool = True
    operations: int = 0
    writes: int = 0
    replays: int = 0
    """How many replays, each on a machine of its own, have shown it."""
    created_utc: str = ""


@dataclass(frozen=True, slots=True)
class KeptFinding:
    """One that is in the store."""

    record: FindingRecord
    history: FaultHistory
    folder: Path


class FindingStore:
    """All of them."""

    def __init__(self, host: Host) -> None:
        self._runs = RunFolders(
            host.state.root / "faults" / "findings",
            "finding",
            (_FINDING,),
            begin_hint="hunt for one: raidlab fault campaign",
            list_hint="'raidlab fault findings' lists them",
            state_root=host.state.root,
        )
        self.root = self._runs.root

    def keep(self, record: FindingRecord, history: FaultHistory, files: Mapping[str, bytes]) -> Path:
        """Store one, in place of one of the same id. Raises ResultError; then what was there is there still."""
        own = {
            _FINDING: msgspec.json.format(msgspec.json.encode(record), indent=1),
            _HISTORY: msgspec.json.format(msgspec.json.encode(history), indent=1),
        }
        return self._runs.put(record.id, {**files, **own}.items(), replaces=True)

    def all(self, on_damage: Callable[[str], object] = lambda _: None) -> list[KeptFinding]:
        """Those that can be read, by their ids; ``on_damage`` is told of each other."""
        found = []
        for folder in sorted(self.root.glob("[!.]*")):
            try:
                kept = self._read(folder)
            except ResultError as error:
                on_damage(f"finding {folder.name} cannot be read: {error.message}")
            except OSError as error:
                on_damage(f"finding {folder.name} cannot be read: {error.strerror}")
            else:
                if kept.record.id == folder.name:
                    found.append(kept)
                else:
                    on_damage(f"finding {folder.name} cannot be read: it says that it is another")
        return found

    def find(self, word: str) -> KeptFinding | None:
        """One by its id or its folder; None if it is not kept. Raises ResultError for one that is damaged."""
        folder = Path(word) if "/" in word else self.root / checked_name(word, "finding", error=SpecError)
        return self._read(folder) if (folder / _FINDING).is_file() else None

    def forget(self, finding: KeptFinding) -> None:
        """Remove it from the store. Raises SpecError for a folder that is elsewhere."""
        if finding.folder.parent.resolve() != self.root.resolve():
            raise SpecError(f"'{finding.folder}' is not in the lab's store", hint="remove the folder yourself")
        self.remove(finding.folder.name)

    def remove(self, finding_id: str) -> None:
        """Forget one."""
        shutil.rmtree(self.root / checked_name(finding_id, "finding"), ignore_errors=True)

    def remove_leftovers(self) -> None:
        """Remove what killed campaigns left incomplete, and put back what they had moved away to replace it."""
        self._runs.remove_leftovers()

    def _read(self, folder: Path) -> KeptFinding:
        record = read_own_json(folder / _FINDING, FindingRecord)
        if record.format_version != FORMAT_VERSION:
            raise ResultError(
                f"'{folder}' is of format {record.format_version}, and this raidlab reads {FORMAT_VERSION}",
                hint="read it with the raidlab that made it",
            )
        return KeptFinding(record, read_own_json(folder / _HISTORY, FaultHistory), folder)
