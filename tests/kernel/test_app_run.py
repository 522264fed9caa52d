"""The app's Run and Results screens with an experiment on a real kernel: ended, gone on with, stored."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest
from textual.pilot import Pilot

from lab.errors import LabError
from lab.results.record import RunStatus
from lab.results.store import ResultStore
from tests.kernel.place import kernel_target
from tui.app import RaidlabApp, Settings, save_settings

pytestmark = pytest.mark.kernel
PATIENCE_SECONDS = 120.0
EXPERIMENT = """\
format_version = 2
id = "short"
title = "Short"
question = "Does it end when it is told to, and go on?"
repeats = 3
order = "interleaved"
seed = 1
cache = "warm"
file_system = "raw"

[disks]
kind = "file"
size_bytes = "32M"
sharing = "separate"

[[arrays]]
id = "raid1"
level = "raid1"
members = 2

[[jobs]]
workload = "rand-read-4k"
file_bytes = "4M"
runtime_seconds = 3.0
warmup_seconds = 0.0
"""


async def until(pilot: Pilot[object], is_reached: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_reached():
        view = cast(RaidlabApp, pilot.app).experiments.view
        if view and isinstance(view.outcome, LabError) and not view.was_cancelled:
            raise view.outcome
        assert time.monotonic() < deadline, f"never: {what}; {view and view.progress}"
        await asyncio.sleep(0.02)
    await pilot.pause()


def test_an_experiment_is_ended_in_the_app_and_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAIDLAB_STATE", str(tmp_path / "state"))
    monkeypatch.setenv("TEXTUAL_ANIMATIONS", "none")
    file = tmp_path / "short.toml"
    file.write_text(EXPERIMENT)
    save_settings(tmp_path / "app.json", Settings(mode="run", was_welcomed=True))
    app = RaidlabApp(kernel_target().text, settings_file=tmp_path / "app.json", keys_file=tmp_path / "keys.toml")
    store = ResultStore(tmp_path / "state" / "results")

    async def run() -> None:
        async with app.run_test(size=(120, 40)) as pilot:
            await until(pilot, lambda: app.lab.is_open, "the lab is open")
            assert app.experiments.start(str(file))
            view = app.experiments.view
            assert view is not None
            await until(pilot, lambda: view.done_count, "one measurement is done")
            app.experiments.cancel()
            await until(pilot, lambda: not view.is_running, "it has ended")
            assert view.was_cancelled
            (summary,) = store.list()
            assert summary.status is RunStatus.INCOMPLETE
            assert summary.measured_count == view.done_count < 3
            assert view.stored_words() == f"{view.done_count} of 3 measurements are stored as {summary.id}."
            await pilot.press("4")
            await pilot.pause()
            await pilot.press("r")
            await until(pilot, lambda: app.experiments.view is not view, "it goes on")
            resumed = app.experiments.view
            assert resumed is not None
            await until(pilot, lambda: not resumed.is_running, "it is over")
            assert store.list()[0].status is RunStatus.COMPLETE
            assert resumed.done_count == 3
            assert app.lab.is_open

    try:
        asyncio.run(run())
    finally:
        app.client.close()
