"""What a campaign has done so far: one line for each seed, kept before the next, so that it can be gone on with.

::

    STATE/faults/campaigns/<run>/campaign.json   what was asked for
    STATE/faults/campaigns/<run>/done.jsonl      one seed a line
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated

import msgspec

from lab.errors import ResultError, SpecError
from lab.gates.decoding import convert, decode_json
from lab.gates.files import read_plain
from lab.gates.names import Name
from lab.gates.numbers import Seed
from lab.gates.own import read_own_json
from lab.host.clock import utc_second_text
from lab.host.files import storage_error, write_all, write_file
from lab.machine import Host
from lab.results.leftovers import held_alone
from lab.units import MIB

FORMAT_VERSION = 1
LATEST = "latest"
_RUN, _DONE, _LOCK = "campaign.json", "done.jsonl", "lock"
_MOST_BYTES = 64 * MIB


class CampaignRun(msgspec.Struct, frozen=True, kw_only=True):
    """campaign.json. ``seeds`` 0: as many as there is time for."""

    format_version: int = FORMAT_VERSION
    id: Name
    created_utc: str
    target: str
    first: Seed
    seeds: Seed
    seconds: Annotated[float, msgspec.Meta(ge=0)]
    """0: as long as it takes."""
    level: str = ""
    policy: str = ""
    planted: Annotated[int, msgspec.Meta(ge=0)] = 0


class SeedDone(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line: a history that was played and judged."""

    seed: int
    finding: str = ""
    explained: dict[str, int] = {}


class CampaignJournal:
    """The writer of one campaign."""

    def __init__(self, folder: Path, run: CampaignRun, done: list[SeedDone]) -> None:
        self.folder, self.run = folder, run
        self.done = {each.seed: each for each in done}

    def add(self, line: SeedDone) -> None:
        """Keep it, durably. Raises ResultError."""
        path = self.folder / _DONE
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            try:
                write_all(descriptor, msgspec.json.encode(line) + b"\n")
            finally:
                os.close(descriptor)
        except OSError as error:
            raise storage_error(f"seed {line.seed} cannot be noted in '{self.folder}'", error) from None
        self.done[line.seed] = line

    @property
    def explained(self) -> Counter[str]:
        """What was seen and has its explanation, over all seeds."""
        total: Counter[str] = Counter()
        for each in self.done.values():
            total.update(each.explained)
        return total

    @property
    def findings(self) -> list[str]:
        """Ids of what was found, as the seeds come."""
        return [each.finding for each in self.done.values() if each.finding]


@contextmanager
def begun_campaign(host: Host, target: str, **asked: object) -> Iterator[CampaignJournal]:
    """A new one, held against others as long as this lasts."""
    root = host.state.make(host.state.root / "faults" / "campaigns", what="the folder for campaigns")
    created = utc_second_text(host.clock)
    name = created.replace("-", "").replace(":", "")
    folder = root / name
    for number in range(2, 1000):
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
            break
        folder = root / f"{name}-{number}"
    run = convert({"id": folder.name, "created_utc": created, "target": target, **asked}, CampaignRun)
    with _held(folder):
        write_file(folder / _RUN, msgspec.json.format(msgspec.json.encode(run), indent=1))
        yield CampaignJournal(folder, run, [])


@contextmanager
def resumed_campaign(host: Host, word: str) -> Iterator[CampaignJournal]:
    """One of those that are kept, by its id or ``latest``. Raises SpecError if it is not there."""
    root = host.state.root / "faults" / "campaigns"
    runs = {}
    for path in sorted(root.glob(f"*/{_RUN}")):
        try:
            run = read_own_json(path, CampaignRun)
        except (ResultError, OSError):
            if word == path.parent.name:
                raise
            continue
        if run.format_version == FORMAT_VERSION and run.id == path.parent.name:
            runs[run.id] = run
    chosen = max(runs, default="") if word == LATEST else word
    if chosen not in runs:
        raise SpecError(f"there is no campaign '{word}' to go on with", hint=f"kept are: {', '.join(runs) or 'none'}")
    with _held(root / chosen):
        yield CampaignJournal(root / chosen, runs[chosen], _read_done(root / chosen / _DONE))


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    with held_alone(folder / _LOCK, f"the campaign {folder.name} goes on"):
        yield


def _read_done(path: Path) -> list[SeedDone]:
    """All whole lines; what a power failure has torn is played again."""
    try:
        data = read_plain(path, _MOST_BYTES, is_own=True)
    except FileNotFoundError:
        return []
    whole = data[: data.rfind(b"\n") + 1]
    found = []
    for line in whole.splitlines():
        with suppress(msgspec.MsgspecError):
            found.append(decode_json(line, SeedDone))
    if len(whole) < len(data):
        os.truncate(path, len(whole))
    return found
