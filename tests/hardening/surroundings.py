"""Files of other users in the folders where a command runs."""

from __future__ import annotations

import asyncio
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tests.hardening.workbench import RAIDLAB, Bench, expect, promise
from tests.traps import Traps, lay_traps

_PATIENCE_SECONDS = 120.0


@contextmanager
def _running(bench: Bench, *words: str, traps: Traps | None = None) -> Iterator[subprocess.Popen[str]]:
    """The command, ended in the end if it has not ended by itself."""
    process = subprocess.Popen(
        [RAIDLAB, *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=traps.environment(bench.environment()) if traps else bench.environment(),
        cwd=bench.folder,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    try:
        yield process
    finally:
        process.terminate()
        process.communicate(timeout=_PATIENCE_SECONDS)


def _none_sprung(traps: Traps) -> None:
    expect(not traps.sprung(), f"imported: {traps.sprung()}")


@promise("a tab of serve imports nothing of the folder, the environment or the home it was started in")
def _(bench: Bench) -> None:
    traps = lay_traps(bench.folder)
    with _running(bench, "serve", "--port", "0", traps=traps) as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        expect(address.startswith("http://127.0.0.1:"), f"no address: {address!r}")
        painted = asyncio.run(_first_picture(address))
        _none_sprung(traps)
        expect(len(painted) > 500, f"the app has painted no picture: {painted!r}")


async def _first_picture(address: str) -> bytes:
    """What a tab gets until the app has drawn its first screen."""
    import aiohttp

    found = b""
    async with aiohttp.ClientSession() as client, client.ws_connect(f"{address}ws?width=80&height=24") as tab:
        # An app that does not start sends nothing.
        with suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE_SECONDS):
                async for message in tab:
                    found += message.data if isinstance(message.data, bytes) else b""
                    if len(found) > 2000:
                        break
    return found
