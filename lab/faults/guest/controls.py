"""Controls of the oracle: the steps of campaigns, and known damage, done to members behind md's back.

Some steps use the arithmetic of records and ledgers alone, so that a bug planted in it shows.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from lab.faults.guest.arrays import skip_modprobe
from lab.faults.guest.campaign import CampaignPlayer, only_durable
from lab.faults.guest.ledger import SECTOR_BYTES, Ledger
from lab.faults.guest.record import PREFIX, RECORD, SUBSET, Record, steady_cut

CUTS = 40
"""Power cuts of which one is as likely as another."""


class ControlPlayer(CampaignPlayer):
    """One control."""

    def do_plant(self, node: str, at: int, block: int, generation: int, first: int, sectors: int) -> dict[str, Any]:
        """So many sectors of a block, as some generation of it has them, written somewhere behind md's back."""
        whole = self.content.block(block, generation)
        start, end = first * SECTOR_BYTES, (first + sectors) * SECTOR_BYTES
        return self.put(node, at + start, whole[start:end])

    def do_split(self, requests: list[list[int]], at: int) -> dict[str, Any]:
        """What a record says that is sure after an event, and what is open, by drive; and what many cuts would keep."""
        record = Record(b"".join(RECORD.pack(*each) for each in requests))
        parts = {drive: [[each.index for each in part] for part in record.split(drive, at)] for drive in record.drives}
        kept = {}
        for kind in (PREFIX, SUBSET):
            cuts = [steady_cut(record, at, kind, str(seed)).kept for seed in range(CUTS)]
            places = [
                [[self.place(record, index) for index in each[drive]] for drive in record.drives] for each in cuts
            ]
            kept[kind] = sum(any(part != each[0] for part in each) for each in places)
        return {"parts": parts, "apart": kept}

    def place(self, record: Record, index: int) -> int:
        return record.requests[index].sector

    def do_allowed(self, events: list[list[Any]]) -> dict[str, Any]:
        """What a ledger allows while all runs, and after a power cut."""
        return {"running": Ledger(events).allowed(), "cut": only_durable(events).allowed()}


def main() -> None:
    """One job: controls, one after the other."""
    skip_modprobe()
    job = json.load(sys.stdin)
    for history in job["histories"]:
        player = ControlPlayer(history)
        player.play()
        player.stopped()
