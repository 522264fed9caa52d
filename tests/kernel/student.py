"""A user of the real app on the embedded kernel, who looks at the screen and presses keys."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import pytest
from textual.content import Content
from textual.pilot import Pilot

from lab.disks import DiskKind, DiskSpec, specs
from lab.disks.lab import lab_folder
from lab.machine import Host
from lab.units import MIB
from tests.kernel.place import kernel_target, kill_kernel
from tui.app import RaidlabApp, Settings, save_settings
from tui.mode import HintLine, ProblemBar
from tui.plan_screen import PlanScreen
from tui.state import LabState

SMALL = specs(9, DiskKind.FILE, size_bytes=96 * MIB)
S = TypeVar("S", bound="Student")


class Student:
    patience_seconds = 240.0

    def __init__(self, app: RaidlabApp, pilot: Pilot[object], state: Path) -> None:
        self.app = app
        self.pilot = pilot
        self._state = state

    @property
    def lab(self) -> LabState:
        return self.app.lab

    async def until(self, is_reached: Callable[[], object], what: str) -> None:
        deadline = time.monotonic() + self.patience_seconds
        while not is_reached():
            assert time.monotonic() < deadline, f"never: {what}; the screen says: {self.hint()}"
            await asyncio.sleep(0.02)
        await self.pilot.pause()

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)
        await self.pilot.pause()

    def hint(self) -> str:
        lines = [screen.query(HintLine) for screen in self.app.screen_stack]
        return "".join(plain(line) for found in lines for line in found)

    async def sees_hint(self, words: str) -> None:
        await self.until(lambda: words in self.hint(), f"the hint '{words}'")

    async def confirm(self) -> None:
        """Run the plan that a key has opened; its screen closes after the run."""
        await self.until(lambda: isinstance(self.app.screen, PlanScreen) and self.app.screen.is_shown, "a plan")
        await self.press("r")
        await self.until(lambda: not isinstance(self.app.screen, PlanScreen), "the plan is carried out")

    async def to_disk(self, name: str) -> None:
        await self.press("home")
        for _ in self.lab.disks:
            if self.lab.selected_disk == name:
                return
            await self.press("down")
        assert self.lab.selected_disk == name

    def kill_machine(self) -> None:
        kill_kernel(self._state)

    def kernels(self) -> set[int]:
        return kernels_of(os.getpid(), self._state)


def kernels_of(pid: int, state: Path) -> set[int]:
    """Process groups of the kernels that a process has started and has not cleaned up yet."""
    records = (state / "machines").glob(f"{pid}-*/kernel.json")
    return {int(json.loads(path.read_text())["kernel_group"]) for path in records}


def plain(widget: HintLine | ProblemBar) -> str:
    shown = widget.render()
    return shown.plain if isinstance(shown, Content) else str(shown)


@asynccontextmanager
async def student_at(
    tmp_path: Path,
    kind: type[S],
    *,
    was_welcomed: bool = True,
    target: str = "",
    disks: Sequence[DiskSpec] = SMALL,
    size: tuple[int, int] = (120, 40),
) -> AsyncIterator[S]:
    """Run the real app. Empty ``disks`` keeps the lab's disks, or creates the nine disks of a first start."""
    if disks:
        with lab_folder(Host.real("raidlab").state, "default") as folder:
            folder.save(disks)
    settings = tmp_path / "app.json"
    if was_welcomed:
        save_settings(settings, Settings(was_welcomed=True))
    app = RaidlabApp(target or kernel_target().text, settings_file=settings, keys_file=tmp_path / "keys.toml")
    try:
        async with app.run_test(size=size) as pilot:
            yield kind(app, pilot, tmp_path)
    finally:
        app.client.close()


@pytest.fixture(autouse=True)
def own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAIDLAB_STATE", str(tmp_path))
    monkeypatch.setenv("RAIDLAB_CONFIG", str(tmp_path / "config"))
    monkeypatch.setenv("TEXTUAL_ANIMATIONS", "none")
