"""A new array is told as new: its first sync is nobody's loss."""

from __future__ import annotations

from tests.tui.conftest import AppMaker, looked, running
from tests.tui.fake_lab import FakeLab
from tui.actions import next_step
from tui.look import Tone
from tui.state import FIRST_SYNC, condition


async def test_a_new_raid_5_computes_its_parity_and_is_not_called_degraded(app_on: AppMaker, fake_lab: FakeLab) -> None:
    app = app_on()
    async with running(app) as pilot:
        await looked(pilot, app, fake_lab)
        fake_lab.show("raid5")
        await looked(pilot, app, fake_lab)
        told = [event.sentence for event in app.lab.events]
        assert told[0].startswith("md0 is there: raid5 of 3 members")
        assert "md computes the parity of md0 (first sync)" in told
        assert not any("degraded" in sentence for sentence in told)
        (status,) = app.lab.arrays
        assert condition(app.lab, status) == (Tone.BUSY, FIRST_SYNC)
        assert "computes the parity of md0" in next_step(app.lab)
        fake_lab.finish_sync()
        await looked(pilot, app, fake_lab)
        assert "md0 is ready: any one disk may fail now" in [event.sentence for event in app.lab.events]
        assert not app.lab.first_syncs


async def test_a_disk_that_fails_during_the_first_sync_is_a_loss(app_on: AppMaker, fake_lab: FakeLab) -> None:
    app = app_on()
    async with running(app) as pilot:
        await looked(pilot, app, fake_lab)
        fake_lab.show("raid5")
        await looked(pilot, app, fake_lab)
        fake_lab.show("raid5-failed")
        await looked(pilot, app, fake_lab)
        (status,) = app.lab.arrays
        assert condition(app.lab, status)[0] is not Tone.BUSY
        assert not app.lab.first_syncs
