"""What a campaign has done so far: one line for each seed, stored before the next, so that it can be resumed.

::

    STATE/faults/campaigns/<run>/campaign.json   what was asked for
    STATE/faults/campaigns/<run>/done.jsonl      one seed a line
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import msgspec

from lab.gates.decoding import convert
from lab.gates.names import Name
from lab.gates.numbers import FormatVersion, Seed
from lab.host.clock import utc_second_text
from lab.machine import Host
from lab.store.journal import Journal
from lab.store.runs import RunFolders

FORMAT_VERSION = 1


class CampaignRun(msgspec.Struct, frozen=True, kw_only=True):
    """campaign.json. ``seeds`` 0: as many as there is time for."""

    format_version: FormatVersion = FORMAT_VERSION
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

    def __init__(self, folder: Path, run: CampaignRun) -> None:
        self.folder, self.run = folder, run
        # A seed whose line is damaged is played again.
        self._journal = Journal[SeedDone](folder / "done.jsonl", SeedDone, skips_damaged=True)
        self._journal.repair()
        self.done = {each.seed: each for each in self._journal.read()}

    def add(self, line: SeedDone) -> None:
        """Store it, durably. Raises ResultError."""
        self._journal.append(line)
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


def campaign_runs(host: Host) -> RunFolders:
    """The campaigns of a state folder."""
    return RunFolders(
        host.state.root / "faults" / "campaigns",
        "campaign",
        ("campaign.json",),
        begin_hint="begin one: raidlab fault campaign",
        list_hint="give 'latest', or leave --resume out for a new one",
        state_root=host.state.root,
    )


@contextmanager
def begun_campaign(host: Host, target: str, **asked: object) -> Iterator[CampaignJournal]:
    """A new one, held against others as long as this lasts."""
    runs, created = campaign_runs(host), utc_second_text(host.clock)
    folder = runs.create(host.clock)
    run = convert({"id": folder.name, "created_utc": created, "target": target, **asked}, CampaignRun)
    with runs.held(run.id):
        runs.write_header(run, run.id)
        yield CampaignJournal(folder, run)


@contextmanager
def resumed_campaign(host: Host, word: str) -> Iterator[CampaignJournal]:
    """A stored campaign by its id, the beginning of one, or ``latest``. Raises ResultError if it is not there."""
    runs = campaign_runs(host)
    run_id = runs.find(word, lambda ids: max(runs.headers(CampaignRun, _is_good), default=ids[0]))
    run = runs.good_header(run_id, CampaignRun, _is_good)
    with runs.held(run_id):
        yield CampaignJournal(runs.path(run_id), run)


def _is_good(run_id: str, run: CampaignRun) -> bool:
    return run.format_version == FORMAT_VERSION and run.id == run_id
