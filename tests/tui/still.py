"""The real app on a lab that stands still: its client opens no machine, and tells what a test wants to be told."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

from textual.message import Message
from textual.pilot import Pilot

from lab.arrays.discovery import BroughtUp
from lab.disks import DiskKind, LabDisk
from lab.machine.api import MachineFacts
from lab.units import GIB, MIB
from tui.app import RaidlabApp, Settings, save_settings
from tui.client import LabClient
from tui.look import UNICODE, Glyphs
from tui.state import SessionOpened

DISKS = tuple(
    LabDisk(
        name=f"disk{number:02d}",
        kind=DiskKind.FILE,
        node=f"/dev/ubd{chr(96 + number)}",
        size_bytes=500 * MIB,
        serial=f"RAIDLAB-{number:02d}",
    )
    for number in range(1, 10)
)
FACTS = MachineFacts(
    target="uml:",
    kernel_release="6.18.0",
    architecture="x86_64",
    host_name="lab",
    cpu_count=1,
    memory_bytes=GIB,
    is_embedded=True,
)
Act = Callable[[RaidlabApp, Pilot[object]], Awaitable[Any]]


class StillClient(LabClient):
    """Opens at once, and keeps the jobs that it is given instead of doing them."""

    def __init__(self, post: Callable[[Message], object], disks: tuple[LabDisk, ...]) -> None:
        super().__init__("uml:", post)
        self.jobs: list[Future[Any]] = []
        self._disks = disks

    def start(self) -> None:
        self.tell(SessionOpened(FACTS, self._disks, BroughtUp((), (), ())))

    def tell(self, message: Message) -> None:
        self._post(message)

    def submit(self, work: Callable[..., Any]) -> Future[Any]:
        self.jobs.append(Future())
        return self.jobs[-1]

    def close(self) -> None:
        return


def still_app(
    folder: Path,
    mode: str,
    *,
    theme: str = "raidlab-dark",
    glyphs: Glyphs = UNICODE,
    disks: tuple[LabDisk, ...] = DISKS,
) -> RaidlabApp:
    """The app on its screen ``mode``, past the welcome."""
    settings = folder / "state.toml"
    save_settings(settings, Settings(theme, mode, "", "", was_welcomed=True))
    return RaidlabApp(
        "uml:",
        make_client=lambda post: StillClient(post, disks),
        settings_file=settings,
        keys_file=folder / "keys.toml",
        glyphs=glyphs,
    )


def run_app(app: RaidlabApp, act: Act, size: tuple[int, int] = (120, 40)) -> None:
    """Run the app without a terminal while ``act`` works on it."""

    async def run() -> None:
        async with app.run_test(size=size) as pilot:
            await quiet(app, pilot)
            await act(app, pilot)

    asyncio.run(run())


async def quiet(app: RaidlabApp, pilot: Pilot[object]) -> None:
    """Wait until what was told is shown."""
    await pilot.pause()
    app.show_now()
    await pilot.pause()


def text_of(app: RaidlabApp) -> str:
    """What stands on the screen."""
    width, height = app.size
    lines = app.screen._compositor.render_strips()
    return "\n".join(strip.text[:width].rstrip() for strip in lines[:height])
