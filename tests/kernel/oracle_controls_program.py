"""Controls of the oracle on the machine: damage to members without md's knowledge, and the arithmetic of records."""

from __future__ import annotations

from typing import Any

from lab.faults.guest.arrays import write_direct
from lab.faults.guest.campaign import CampaignPlayer, only_durable
from lab.faults.guest.ledger import PREFIX, RECORD, SECTOR_BYTES, SUBSET, Ledger, Record, steady_cut
from lab.faults.guest.player import run_job

CUTS = 40
"""Number of power cuts chosen with different seeds."""


class ControlPlayer(CampaignPlayer):
    def do_plant(self, node: str, at: int, block: int, generation: int, first: int, sectors: int) -> dict[str, Any]:
        """Write some sectors of a generation of a block to a device without md's knowledge; ``at`` is in bytes."""
        whole = self.content.block(block, generation)
        start, end = first * SECTOR_BYTES, (first + sectors) * SECTOR_BYTES
        return {"bytes": write_direct(node, at + start, whole[start:end])}

    def do_split(self, requests: list[list[int]], at: int) -> dict[str, Any]:
        """The sure and the open writes of each drive, and how many of ``CUTS`` cuts leave the drives different."""
        record = Record(b"".join(RECORD.pack(*each) for each in requests))
        parts = {drive: [[each.index for each in part] for part in record.split(drive, at)] for drive in record.drives}
        kept = {}
        for kind in (PREFIX, SUBSET):
            cuts = [steady_cut(record, at, kind, str(seed)).retained for seed in range(CUTS)]
            places = [
                [[record.requests[index].sector for index in each[drive]] for drive in record.drives] for each in cuts
            ]
            kept[kind] = sum(any(part != each[0] for part in each) for each in places)
        return {"parts": parts, "apart": kept}

    def do_allowed(self, events: list[list[Any]]) -> dict[str, Any]:
        """What a ledger allows while the machine runs, and after a power cut."""
        return {"running": Ledger(events).allowed(), "cut": only_durable(events).allowed()}


def main() -> None:
    run_job(ControlPlayer)
